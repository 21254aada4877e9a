// Inferences over gRPC. Requests are made and replies are formatted on loop threads, those of long
// messages by workers; the callbacks come from threads of the core.
#include "frontend/grpc/service/infer.h"

#include "base/base64.h"
#include "base/clock.h"
#include "base/text.h"
#include "frontend/common/json/request_parameter.h"
#include "frontend/common/net/jobs.h"
#include "frontend/common/observe/abi_error.h"
#include "frontend/common/observe/frontend_log.h"
#include "frontend/common/observe/load_metrics.h"
#include "frontend/grpc/call/call.h"
#include "frontend/grpc/call/server.h"
#include "frontend/grpc/codec/infer_request_proto.h"
#include "frontend/grpc/codec/model_version.h"
#include "frontend/grpc/transport/connection.h"
#include "frontend/grpc/transport/loop.h"
#include "nereid/nereid.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// What an inference takes besides its tensors, here and in the core, roughly; and how many of a
// connection do not count for the budget.
#define INFERENCE_COST_BYTES ((size_t)6 << 10)
#define UNCOUNTED_INFERENCES 256

// The answer may come inside ServerInferAsync (NEREID_REQUEST_FLAG_RUN_HERE), at once from another
// thread, or later: whoever comes second, it or the loop, sees to it.
enum {
  HANDOVER_OPEN,
  HANDOVER_WAITING,
  HANDOVER_DONE,
};

// ---- life ----

static void ref_owner(void *owner)
{
  grpc_inference_ref(owner);
}

static void unref_owner(void *owner)
{
  grpc_inference_unref(owner);
}

// A stream carries any number of requests, and some bytes suffice for one that waits for its model.
static bool count(call *c, size_t *reserved)
{
  uint32_t before =
      atomic_fetch_add_explicit(&c->kept_connection->inferences, 1, memory_order_relaxed);
  c->kept_connection->used++;
  *reserved = 0;
  if (before < UNCOUNTED_INFERENCES)
    return true;
  if (!budget_take_input(&c->server->budget, INFERENCE_COST_BYTES)) {
    atomic_fetch_sub_explicit(&c->kept_connection->inferences, 1, memory_order_relaxed);
    return false;
  }
  *reserved = INFERENCE_COST_BYTES;
  return true;
}

static void discount(call *c, size_t reserved)
{
  atomic_fetch_sub_explicit(&c->kept_connection->inferences, 1, memory_order_relaxed);
  if (reserved > 0)
    budget_give_back(&c->server->budget, reserved);
}

grpc_inference *grpc_inference_new(call *c, message *message_owned,
                                   void (*heard)(grpc_inference *i))
{
  size_t reserved;
  if (!count(c, &reserved))
    return NULL;
  grpc_inference *i = malloc(sizeof(*i));
  if (i == NULL) {
    discount(c, reserved);
    return NULL;
  }
  memset(i, 0, offsetof(grpc_inference, arena));
  arena_init(&i->arena, i->arena_memory, sizeof(i->arena_memory));
  refcount_init(&i->references);
  i->reserved = reserved;
  i->call = c;
  call_ref(c);
  i->message = message_owned;
  i->heard = heard;
  i->began_ns = grpc_loop_now_ns(c->loop);
  i->model_name = i->id = "";
  i->model_version = -1;
  i->tensors = (infer_tensors){.arena = &i->arena,
                               .budget = &c->server->budget,
                               .memory = c->server->options.shared_memory,
                               .owner = i,
                               .ref = ref_owner,
                               .unref = unref_owner,
                               .fallback.binary = true};
  return i;
}

void grpc_inference_ref(grpc_inference *i)
{
  refcount_take(&i->references);
}

void grpc_inference_unref(grpc_inference *i)
{
  if (!refcount_drop(&i->references))
    return;
  grpc_inference_drop_answers(i);
  call *c = i->call;
  if (i->bytes_out > 0) // else there was no reply whose sending began
    trace_note_now(i->trace, TRACE_GRPC_SEND_END);
  trace_end(i->trace);
  error_free(i->failure);
  infer_tensors_fini(&i->tensors);
  message_free(i->message);
  arena_fini(&i->arena);
  discount(c, i->reserved);
  free(i);
  call_unref(c);
}

// ---- the request's life in the core ----

static void drop_request(grpc_inference *i)
{
  if (!request_users_leave(&i->users))
    return;
  frontend_log_failure(NULL, "deleting an inference request",
                       TRITONSERVER_InferenceRequestDelete(i->request));
  grpc_inference_unref(i);
}

void grpc_inference_cancel(grpc_inference *i)
{
  if (!request_users_cancel(&i->users))
    return;
  frontend_log_failure(NULL, "cancelling an inference request",
                       TRITONSERVER_InferenceRequestCancel(i->request));
  drop_request(i);
}

// The last of what the loop waits for. A backend may have released the request before: once the
// loop can see the end nobody else keeps the call, whose loop is still to be woken.
static void note_event(grpc_inference *i)
{
  if (atomic_fetch_sub_explicit(&i->awaited, 1, memory_order_acq_rel) != 1)
    return;
  grpc_inference_ref(i);
  if (atomic_exchange(&i->handover, HANDOVER_DONE) == HANDOVER_WAITING)
    i->heard(i);
  grpc_inference_unref(i);
}

static void request_released(TRITONSERVER_InferenceRequest *request, const uint32_t flags,
                             void *inference_pointer)
{
  (void)request;
  grpc_inference *i = inference_pointer;
  if ((flags & TRITONSERVER_REQUEST_RELEASE_ALL) == 0)
    return;
  if (i->tensors.shared.span_count > 0 && !i->decoupled)
    note_event(i);
  drop_request(i);
}

static void push(grpc_inference *i, answer *a)
{
  a->next = atomic_load(&i->answers);
  while (!atomic_compare_exchange_weak(&i->answers, &a->next, a))
    ;
}

static void lose(TRITONSERVER_InferenceResponse *response)
{
  if (response != NULL)
    frontend_log_failure(NULL, "deleting a response",
                         TRITONSERVER_InferenceResponseDelete(response));
}

// One response, of which the first counts.
static void keep_only(grpc_inference *i, TRITONSERVER_InferenceResponse *response, bool final)
{
  if (response != NULL &&
      atomic_fetch_add_explicit(&i->response_count, 1, memory_order_relaxed) == 0) {
    i->only.response = response;
    i->only.final = true;
    push(i, &i->only);
  } else {
    lose(response);
  }
  if (final)
    note_event(i);
}

static void response_complete(TRITONSERVER_InferenceResponse *response, const uint32_t flags,
                              void *inference_pointer)
{
  grpc_inference *i = inference_pointer;
  bool final = (flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) != 0;
  grpc_access_response(i, response);
  if (response != NULL)
    trace_note_now(i->trace, TRACE_INFER_RESPONSE_COMPLETE);
  if (!i->decoupled) {
    keep_only(i, response, final);
    return;
  }
  answer *a = malloc(sizeof(*a));
  if (a == NULL) {
    lose(response);
    atomic_store(&i->lost, true);
  } else {
    *a = (answer){.response = response, .final = final};
    push(i, a);
  }
  i->heard(i);
  if (final)
    drop_request(i);
}

answer *grpc_inference_take_answers(grpc_inference *i)
{
  answer *ordered = NULL;
  answer *next;
  for (answer *a = atomic_exchange(&i->answers, NULL); a != NULL; a = next) {
    next = a->next;
    a->next = ordered;
    ordered = a;
  }
  return ordered;
}

void grpc_inference_free_answer(grpc_inference *i, answer *a)
{
  lose(a->response);
  if (a != &i->only)
    free(a);
}

void grpc_inference_drop_answers(grpc_inference *i)
{
  answer *next;
  for (answer *a = grpc_inference_take_answers(i); a != NULL; a = next) {
    next = a->next;
    grpc_inference_free_answer(i, a);
  }
}

// ---- from the message to the request ----

static error *apply_parameters(grpc_inference *i, const infer_request_proto *read)
{
  uint32_t flags = 0;
  for (size_t k = 0; k < read->parameter_count; k++)
    RETURN_IF_ERROR(
        error_from_abi(request_parameter_apply(i->request, &read->parameters[k], &flags)));
  if (i->message->size <= JOBS_LOOP_BYTES &&
      infer_tensors_shared_bytes(&i->tensors) <= JOBS_LOOP_BYTES && !i->decoupled)
    flags |= NEREID_REQUEST_FLAG_RUN_HERE;
  return error_from_abi(TRITONSERVER_InferenceRequestSetFlags(i->request, flags));
}

// Binary metadata is base64 on the wire. As a parameter it ends at its first zero, as in Triton.
static error *read_metadata(grpc_inference *i, const metadata *field, const char **text)
{
  size_t size;
  *text = field->value.data;
  if (!text_ends_with(field->name.data, "-bin"))
    return NULL;
  char *decoded = arena_allocate(&i->arena, base64_decoded_size(field->value.size) + 1);
  if (decoded == NULL)
    return error_no_memory();
  if (!base64_decode(field->value, decoded, &size))
    return error_new(ERROR_INVALID_ARG, "metadata '%.256s' is not base64", field->name.data);
  decoded[size] = '\0';
  *text = decoded;
  return NULL;
}

static error *forward_metadata(grpc_inference *i)
{
  const call *c = i->call;
  const header_forward *forward = c->server->options.forward;
  for (size_t k = 0; k < c->metadata_count && forward != NULL; k++) {
    bool matches;
    RETURN_IF_ERROR(header_forward_matches(forward, c->metadata[k].name, &matches));
    if (!matches)
      continue;
    const char *text;
    RETURN_IF_ERROR(read_metadata(i, &c->metadata[k], &text));
    RETURN_IF_ERROR(error_from_abi(TRITONSERVER_InferenceRequestSetStringParameter(
        i->request, c->metadata[k].name.data, text)));
  }
  return NULL;
}

static error *make_request(grpc_inference *i, bool streamed)
{
  TRITONSERVER_Server *server = i->call->server->server;
  uint32_t transactions = 0;
  RETURN_IF_ERROR(error_from_abi(TRITONSERVER_ServerModelTransactionProperties(
      server, i->model_name, i->model_version, &transactions, NULL)));
  i->decoupled = (transactions & TRITONSERVER_TXN_DECOUPLED) != 0;
  if (i->decoupled && !streamed)
    return error_new(ERROR_UNSUPPORTED,
                     "ModelInfer RPC doesn't support models with decoupled transaction policy");
  i->tensors.many_responses = i->decoupled;
  RETURN_IF_ERROR(error_from_abi(
      TRITONSERVER_InferenceRequestNew(&i->request, server, i->model_name, i->model_version)));
  request_users_init(&i->users);
  grpc_inference_ref(i); // for the request
  i->tensors.request = i->request;
  return NULL;
}

static void begin_trace(grpc_inference *i)
{
  const call *c = i->call;
  trace_service *service = c->server->options.trace;
  if (!trace_service_is_on(service))
    return;
  const trace_parent parent = {call_metadata(c, "traceparent"), call_metadata(c, "tracestate")};
  i->trace = trace_begin(service, i->model_name, &parent);
  trace_note(i->trace, TRACE_GRPC_WAITREAD_START, c->began_ns);
  trace_note(i->trace, TRACE_GRPC_WAITREAD_END, i->began_ns);
}

static error *take_room(void *inference_pointer, size_t sum)
{
  grpc_inference *i = inference_pointer;
  return infer_tensors_reserve(&i->tensors, sum);
}

static error *fill(grpc_inference *i, bool streamed)
{
  infer_request_proto read;
  slice text = {i->message->data, i->message->size};
  const typed_room room = {MESSAGE_MAX_BYTES, take_room, i};
  error *failure = infer_request_proto_read(text, &room, &i->arena, &read);
  i->model_name = read.model_name;
  i->id = read.id;
  if (failure != NULL)
    return failure;
  // A stream may be open for ever: what comes on it once the server stops is refused.
  if (streamed && i->call->body.late)
    return error_new(ERROR_UNAVAILABLE,
                     "GRPC server is shutting down and has stopped accepting new requests.");
  RETURN_IF_ERROR(model_version_read(read.model_version, &i->model_version));
  i->wants_empty_final = read.empty_final_response;
  RETURN_IF_ERROR(make_request(i, streamed));
  if (read.id[0] != '\0')
    RETURN_IF_ERROR(error_from_abi(TRITONSERVER_InferenceRequestSetId(i->request, read.id)));
  RETURN_IF_ERROR(infer_tensors_add(&i->tensors, i->call->server->server, i->model_name,
                                    i->model_version, read.inputs, read.input_count, read.outputs,
                                    read.output_count));
  RETURN_IF_ERROR(apply_parameters(i, &read));
  RETURN_IF_ERROR(forward_metadata(i));
  RETURN_IF_ERROR(error_from_abi(
      TRITONSERVER_InferenceRequestSetReleaseCallback(i->request, request_released, i)));
  return error_from_abi(TRITONSERVER_InferenceRequestSetResponseCallback(
      i->request, i->call->server->allocator, &i->tensors, response_complete, i));
}

static void make(call *c)
{
  grpc_inference *i = c->job.data;
  i->failure = fill(i, c->method->streams);
  if (i->failure != NULL && i->request != NULL)
    drop_request(i);
}

// What the request takes from the client's memory.
static void copy_shared(call *c)
{
  grpc_inference *i = c->job.data;
  shared_tensors_make_copies(&i->tensors.shared);
}

// Here if it is little, else by a worker; then `done`, here.
static void work_on(call *c, bool is_long, void (*work)(call *c), void (*done)(call *c))
{
  if (is_long) {
    call_run_work(c, work, done);
  } else {
    work(c);
    done(c);
  }
}

static void made(call *c)
{
  grpc_inference *i = c->job.data;
  if (i->failure != NULL || call_is_ended(c))
    i->filled(c);
  else
    work_on(c, i->tensors.shared.copy_bytes > JOBS_LOOP_BYTES, copy_shared, i->filled);
}

void grpc_inference_fill(grpc_inference *i, void (*filled)(call *c))
{
  call *c = i->call;
  slice text = {i->message->data, i->message->size};
  c->job.data = i;
  i->filled = filled;
  work_on(c, text.size > JOBS_LOOP_BYTES && infer_request_proto_is_long(text, JOBS_LOOP_BYTES),
          make, made);
}

error *grpc_inference_submit(grpc_inference *i, bool *at_once)
{
  int open = HANDOVER_OPEN;
  *at_once = false;
  if (call_is_ended(i->call)) {
    drop_request(i);
    return error_new(ERROR_CANCELLED, "the call ended while its message was read");
  }
  request_users_join(&i->users); // so that it outlives what is done here
  if (i->decoupled)
    request_users_join(&i->users); // for its responses
  atomic_store_explicit(&i->awaited, i->tensors.shared.span_count > 0 ? 2 : 1,
                        memory_order_relaxed);
  begin_trace(i);
  TRITONSERVER_InferenceTrace *trace = i->trace == NULL ? NULL : trace_hand_over(i->trace);
  error *failure =
      error_from_abi(TRITONSERVER_ServerInferAsync(i->call->server->server, i->request, trace));
  if (failure != NULL) {
    if (i->decoupled)
      drop_request(i);
    drop_request(i); // the core's: it did not take it
    drop_request(i);
    return failure;
  }
  if (request_users_submitted(&i->users))
    grpc_inference_cancel(i);
  drop_request(i);
  *at_once =
      !i->decoupled && !atomic_compare_exchange_strong(&i->handover, &open, HANDOVER_WAITING);
  return NULL;
}

// ---- from a response to a message ----

static error *write_reply(grpc_inference *i, TRITONSERVER_InferenceResponse *response,
                          bool streamed, bool final, arena *a, message_parts *parts)
{
  infer_response_json read = {0};
  RETURN_IF_ERROR(infer_tensors_read(&i->tensors, response, a, &read));
  if (streamed)
    infer_stream_response_proto_write(&read, final ? FINAL_RESPONSE_TRUE : FINAL_RESPONSE_FALSE, "",
                                      parts);
  else
    infer_response_proto_write(&read, FINAL_RESPONSE_UNSAID, parts);
  if (!message_parts_finish(parts))
    return error_no_memory();
  if (parts->size > MESSAGE_MAX_BYTES)
    return error_new(ERROR_INVALID_ARG,
                     "Response has byte size %zu which exceeds gRPC's byte size limit %d.",
                     parts->size, MESSAGE_MAX_BYTES);
  return NULL;
}

error *grpc_inference_make_reply(grpc_inference *i, TRITONSERVER_InferenceResponse *response_owned,
                                 bool streamed, bool final, outgoing **reply)
{
  arena memory;
  message_parts parts;
  arena_init(&memory, NULL, 0);
  arena *a = i->decoupled ? &memory : &i->arena;
  message_parts_init(&parts, a);
  trace_note_now(i->trace, TRACE_GRPC_SEND_START);
  error *failure = write_reply(i, response_owned, streamed, final, a, &parts);
  if (failure == NULL) {
    i->bytes_out += parts.size;
    *reply =
        call_make_outgoing(i->call, parts.items, parts.count, &parts.text, response_owned, &memory);
    if (*reply == NULL)
      failure = error_no_memory();
  } else {
    lose(response_owned);
  }
  message_parts_fini(&parts);
  arena_fini(&memory);
  return failure;
}

// ---- ModelInfer ----

static void heard(grpc_inference *i)
{
  grpc_loop_wake_call(i->call->loop, i->call);
}

// The load report of ORCA as trailing metadata, for clients that ask for it.
static void add_load(call *c)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  slice format = call_metadata(c, LOAD_METRICS_REQUEST_HEADER);
  if (format.data == NULL || !load_metrics_write(c->server->server, format, &text))
    return;
  c->load_report = arena_copy_text(&c->arena, buffer_view(&text));
}

static void reply(call *c)
{
  grpc_inference *i = c->handler_data;
  answer *a = grpc_inference_take_answers(i);
  if (call_is_ended(c)) {
    if (a != NULL)
      grpc_inference_free_answer(i, a);
    return;
  }
  if (a == NULL || atomic_load(&i->response_count) != 1) {
    call_fail(c, GRPC_INTERNAL, "expected a single response, got %u",
              atomic_load(&i->response_count));
  } else {
    TRITONSERVER_InferenceResponse *response = a->response;
    a->response = NULL;
    if (!call_fail_if_error(c, grpc_inference_make_reply(i, response, false, true, &c->reply)))
      c->status = GRPC_OK;
    add_load(c);
  }
  if (a != NULL)
    grpc_inference_free_answer(i, a);
  shared_tensors_release(&i->tensors.shared);
  call_end(c);
}

static void describe(call *c, access_record *record)
{
  if (c->handler_data != NULL)
    grpc_access_describe(c->handler_data, record);
}

// The inference stays until the call is closed, for the access log, and until it is over.
static void closed(call *c)
{
  if (c->handler_data == NULL || c->cancelled != NULL)
    return;
  grpc_inference_unref(c->handler_data);
  c->handler_data = NULL;
}

static void settle(call *c)
{
  c->cancelled = NULL;
  if (c->connection == NULL)
    closed(c);
}

// The core is done.
static void woken(call *c)
{
  grpc_loop_took_back(c->loop);
  reply(c);
  settle(c);
}

static void cancelled(call *c)
{
  grpc_inference_cancel(c->handler_data);
}

static void filled(call *c)
{
  bool at_once = false;
  grpc_inference *i = c->handler_data = c->job.data;
  error *failure = i->failure;
  c->woken = woken;
  i->failure = NULL;
  if (failure == NULL)
    failure = grpc_inference_submit(i, &at_once);
  if (failure == NULL && !at_once) {
    c->cancelled = cancelled;
    grpc_loop_handed_over(c->loop);
    return;
  }
  if (failure != NULL)
    call_fail_if_error(c, failure);
  else
    reply(c);
  settle(c);
}

void grpc_handle_model_infer(call *c)
{
  grpc_inference *i = grpc_inference_new(c, c->body.message, heard);
  if (i == NULL) {
    call_fail(c, GRPC_RESOURCE_EXHAUSTED, GRPC_INFERENCE_REFUSED);
    return;
  }
  c->body.message = NULL;
  c->describe = describe;
  c->closed = closed;
  grpc_inference_fill(i, filled);
}

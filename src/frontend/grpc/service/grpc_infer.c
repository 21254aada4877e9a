// SPDX-License-Identifier: Apache-2.0
// Inferences over gRPC. Loop threads make requests and replies, workers those of long messages; the
// core's threads call the hooks.
#include "frontend/grpc/service/grpc_infer.h"

#include "base/base64.h"
#include "base/clock.h"
#include "base/text.h"
#include "frontend/common/infer/model_version.h"
#include "frontend/common/json/request_parameter.h"
#include "frontend/common/net/jobs.h"
#include "frontend/common/net/pinned_body.h"
#include "frontend/common/observe/abi_error.h"
#include "frontend/common/observe/load_metrics.h"
#include "frontend/common/policy/header_forward.h"
#include "frontend/grpc/call/call.h"
#include "frontend/grpc/codec/infer_request_proto.h"
#include "frontend/grpc/transport/connection.h"
#include "frontend/grpc/transport/loop.h"

#include <stdlib.h>
#include <string.h>

// Memory of an inference besides its tensors, here and in the core, roughly.
#define INFERENCE_COST_BYTES ((size_t)6 << 10)

#define MAX_NAME_BYTES 255 // of a model whose messages may be pinned

// ---- life ----

grpc_inference *grpc_inference_new(call *c, grpc_message *message_owned,
                                   const inference_hooks *hooks)
{
  const listener *server = c->server;
  budget_share *share = &c->kept_connection->share;
  c->kept_connection->used++;
  // Each inference is counted, because a stream has any number, and a request of a few bytes may
  // wait long for its model.
  const size_t cost = INFERENCE_COST_BYTES + message_share(message_owned->size);
  if (!budget_share_take(share, cost, budget_take_input))
    return NULL;
  grpc_inference *i = malloc(sizeof(*i));
  if (i == NULL) {
    budget_share_give_back(share, cost);
    return NULL;
  }
  memset(i, 0, offsetof(grpc_inference, arena));
  arena_init(&i->arena, i->arena_memory, sizeof(i->arena_memory));
  refcount_init(&i->references);
  inference_init(&i->life, hooks, &i->arena, &c->server->budget, server->options.shared_memory);
  i->life.is_timed = server->options.access_log != NULL;
  i->life.tensors.fallback.binary = true;
  i->cost = cost;
  i->call = c;
  call_ref(c);
  i->message = message_owned;
  i->life.tensors.pinned = body_in_pool(message_owned);
  i->began_ns = c->loop->now_ns;
  return i;
}

void grpc_inference_ref(inference *life)
{
  refcount_take(&grpc_inference_of(life)->references);
}

void grpc_inference_unref(inference *life)
{
  grpc_inference *i = grpc_inference_of(life);
  if (!refcount_drop(&i->references))
    return;
  call *c = i->call;
  if (i->is_sending)
    trace_record_now(life->trace, TRACE_GRPC_SEND_END);
  inference_fini(life);
  error_free(i->failure);
  grpc_message_free(i->message);
  arena_fini(&i->arena);
  budget_share_give_back(&c->kept_connection->share, i->cost);
  free(i);
  call_unref(c);
}

// ---- before the message ----

static bool copy_name(slice from, char to[MAX_NAME_BYTES + 1])
{
  if (from.size > MAX_NAME_BYTES)
    return false;
  if (from.size > 0)
    memcpy(to, from.data, from.size);
  to[from.size] = '\0';
  return true;
}

void grpc_infer_message_begins(void *call_pointer, grpc_message *m, slice first)
{
  const call *c = call_pointer;
  TRITONSERVER_Server *server = c->server->server;
  slice names[2];
  int64_t version;
  char model[MAX_NAME_BYTES + 1], text[MAX_NAME_BYTES + 1];
  if (m->max_size < PINNED_BODY_MIN_BYTES)
    return;
  infer_request_proto_peek(first, &names[0], &names[1]);
  if (!copy_name(names[0], model) || !copy_name(names[1], text))
    return;
  AUTO_ERROR error *e = model_version_read(server, model, text, &version);
  if (e == NULL)
    pinned_body_prefer(m, server, model, version, m->max_size);
}

// ---- from the message to the request ----

static error *apply_parameters(grpc_inference *i, const infer_request_proto *read, uint32_t *flags)
{
  *flags = 0;
  for (size_t k = 0; k < read->parameter_count; k++)
    RETURN_IF_ERROR(request_parameter_apply(i->life.request, &read->parameters[k], flags));
  return NULL;
}

// A "-bin" field is base64 on the wire. As a parameter it ends at its first zero byte, as in
// Triton.
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
        i->life.request, c->metadata[k].name.data, text)));
  }
  return NULL;
}

static error *choose_version(inference *life, bool streamed)
{
  uint32_t transactions = inference_choose_version(life);
  life->decoupled = life->sends_each = (transactions & TRITONSERVER_TXN_DECOUPLED) != 0;
  return life->decoupled && !streamed
             ? error_new(ERROR_UNSUPPORTED, "ModelInfer RPC doesn't support models with decoupled "
                                            "transaction policy")
             : NULL;
}

static error *make_request(grpc_inference *i)
{
  if (i->life.wait != NULL)
    RETURN_IF_ERROR(inference_take_model(&i->life));
  return inference_make_request(&i->life, i->call->server->server);
}

static void begin_trace(grpc_inference *i)
{
  static const char *const names[] = {TRACE_GRPC_WAITREAD_START, TRACE_GRPC_WAITREAD_END};
  const call *c = i->call;
  trace_service *service = c->server->options.trace;
  if (!trace_service_is_on(service))
    return;
  const trace_parent parent = {call_metadata(c, "traceparent"), call_metadata(c, "tracestate")};
  inference_begin_trace(&i->life, service, &parent, names, c->began_ns, i->began_ns);
}

static error *take_room(void *inference_pointer, size_t sum)
{
  grpc_inference *i = inference_pointer;
  return infer_tensors_reserve(&i->life.tensors, sum);
}

static error *read_message(grpc_inference *i, bool streamed)
{
  slice text = {i->message->data, i->message->size};
  const typed_room room = {MESSAGE_MAX_BYTES, take_room, i};
  error *failure = infer_request_proto_read(text, &room, &i->arena, &i->read);
  i->life.model_name = i->read.model_name;
  i->life.request_id = i->read.id;
  if (failure != NULL)
    return failure;
  // A stream may stay open for ever, so its requests are refused once the server stops.
  if (streamed && i->call->body.late)
    return error_new(ERROR_UNAVAILABLE,
                     "GRPC server is shutting down and has stopped accepting new requests.");
  i->wants_empty_final = i->read.empty_final_response;
  return model_version_read(i->call->server->server, i->life.model_name, i->read.model_version,
                            &i->life.model_version);
}

static error *fill(grpc_inference *i, bool streamed)
{
  uint32_t flags;
  const infer_request_proto *read = &i->read;
  RETURN_IF_ERROR(make_request(i));
  if (read->id[0] != '\0')
    RETURN_IF_ERROR(error_from_abi(TRITONSERVER_InferenceRequestSetId(i->life.request, read->id)));
  RETURN_IF_ERROR(apply_parameters(i, read, &flags));
  RETURN_IF_ERROR(choose_version(&i->life, streamed));
  RETURN_IF_ERROR(infer_tensors_add(&i->life.tensors, i->life.model_name, i->life.model_version,
                                    read->inputs, read->input_count, read->outputs,
                                    read->output_count));
  flags |= inference_run_here_flag(&i->life, i->message->size);
  RETURN_IF_ERROR(error_from_abi(TRITONSERVER_InferenceRequestSetFlags(i->life.request, flags)));
  RETURN_IF_ERROR(forward_metadata(i));
  return inference_set_callbacks(&i->life, i->call->server->allocator);
}

// Runs when the message has come, and again after the wait for a model.
static void make(call *c)
{
  grpc_inference *i = c->job.data;
  bool streamed = c->method->streams;
  if (i->life.wait == NULL)
    i->failure = read_message(i, streamed);
  i->is_read = i->failure == NULL;
  if (i->is_read)
    i->failure = fill(i, streamed);
  if (i->failure != NULL && i->life.request != NULL)
    inference_abandon(&i->life);
}

// Copies inputs out of the client's memory.
static void copy_shared(call *c)
{
  grpc_inference *i = c->job.data;
  i->failure = inference_make_copies(&i->life);
  if (i->failure != NULL)
    inference_abandon(&i->life);
}

// Runs `work` here, or on a job thread if it is long; then `done` on the loop.
static void work_on(call *c, bool is_long, job_kind kind, void (*work)(call *c),
                    void (*done)(call *c))
{
  if (is_long) {
    call_run_work(c, kind, work, done);
  } else {
    work(c);
    done(c);
  }
}

static bool is_long(const grpc_inference *i)
{
  slice text = {i->message->data, i->message->size};
  return text.size > JOBS_LOOP_BYTES && infer_request_proto_is_long(text, JOBS_LOOP_BYTES);
}

// ---- a model that has to be loaded first ----

static void awaited(NEREID_ModelWait *wait, void *call_pointer)
{
  (void)wait;
  call_awaited(call_pointer);
}

static void stop_waiting(call *c)
{
  grpc_inference *i = c->job.data;
  inference_cancel(&i->life);
}

static void made(call *c);

static void model_came(call *c)
{
  grpc_inference *i = c->job.data;
  if (i->failure != NULL) // there was no wait
    i->filled(c);
  else
    work_on(c, is_long(i), JOB_COMPUTES, make, made);
}

static uint64_t timeout_us_of(const infer_request_proto *read)
{
  for (size_t k = 0; k < read->parameter_count; k++) {
    const request_parameter *p = &read->parameters[k];
    if (strcmp(p->name, "timeout") == 0 && p->type == REQUEST_PARAMETER_INT64)
      return p->value.integer > 0 ? (uint64_t)p->value.integer : 0;
  }
  return 0;
}

static void await_model(call *c, grpc_inference *i)
{
  bool waits;
  error_free(i->failure);
  call_await(c, model_came, stop_waiting);
  i->failure = inference_await_model(&i->life, c->server->server, timeout_us_of(&i->read), awaited,
                                     c, &waits);
  if (!waits)
    call_awaited(c);
}

// ---- the request is made ----

static bool may_await(const call *c, const grpc_inference *i)
{
  return i->failure != NULL && i->is_read && i->life.request == NULL && i->life.wait == NULL &&
         !call_is_ended(c) && inference_may_await(c->server->server, i->failure);
}

static void made(call *c)
{
  grpc_inference *i = c->job.data;
  if (i->failure == NULL && !call_is_ended(c)) {
    begin_trace(i);
    work_on(c, inference_copy_work(&i->life) > JOBS_LOOP_BYTES, inference_copy_kind(&i->life),
            copy_shared, i->filled);
  } else if (may_await(c, i)) {
    await_model(c, i);
  } else {
    i->filled(c);
  }
}

void grpc_inference_fill(grpc_inference *i, void (*filled)(call *c))
{
  call *c = i->call;
  c->job.data = i;
  i->filled = filled;
  work_on(c, is_long(i), JOB_COMPUTES, make, made);
}

error *grpc_inference_submit(grpc_inference *i, bool *at_once)
{
  *at_once = false;
  if (call_is_ended(i->call)) {
    inference_abandon(&i->life);
    return error_new(ERROR_CANCELLED, "the call ended while its message was read");
  }
  RETURN_IF_ERROR(inference_submit(&i->life, i->call->server->server));
  *at_once = !inference_wait(&i->life);
  return NULL;
}

// ---- from a response to a message ----

static error *write_reply(grpc_inference *i, TRITONSERVER_InferenceResponse *response,
                          bool streamed, bool final, arena *a, message_parts *parts)
{
  infer_response_json read = {0};
  RETURN_IF_ERROR(infer_tensors_read(&i->life.tensors, response, a, &read));
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
                                 bool streamed, bool final, grpc_reply **reply)
{
  reply_sources from = {.response = response_owned};
  arena *a = i->life.decoupled ? &from.memory : &i->arena;
  message_parts parts = {.arena = a};
  if (!i->is_sending) // a stream has one pair of moments, as over HTTP
    trace_record_now(i->life.trace, TRACE_GRPC_SEND_START);
  i->is_sending = true;
  error *failure = write_reply(i, response_owned, streamed, final, a, &parts);
  from.text = parts.text;
  if (failure != NULL) {
    reply_sources_fini(&from);
    return failure;
  }
  i->bytes_out += parts.size;
  *reply = call_make_reply(i->call, parts.items, parts.count, &from);
  return *reply == NULL ? error_no_memory() : NULL;
}

// ---- ModelInfer ----

static void wake(inference *life)
{
  call *c = grpc_inference_of(life)->call;
  call_wake(c);
}

// Adds ORCA's load report as trailing metadata, if the client asks for it.
static void add_load(call *c)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  slice format = call_metadata(c, LOAD_METRICS_REQUEST_HEADER);
  if (format.data == NULL || !load_metrics_write(c->server->server, format, &text))
    return;
  c->trailer_name = LOAD_METRICS_REPLY_HEADER;
  c->trailer_value = arena_copy_text(&c->arena, buffer_view(&text));
}

static grpc_inference *inference_of(const call *c)
{
  return c->handler_data;
}

static void reply(call *c)
{
  grpc_inference *i = inference_of(c);
  uint32_t count = atomic_load(&i->life.response_count);
  if (!call_is_ended(c) && count != 1) {
    call_fail(c, GRPC_INTERNAL, "expected a single response, got %u", count);
  } else if (!call_is_ended(c)) {
    if (!call_fail_if_error(c, grpc_inference_make_reply(i, inference_take_response(&i->life),
                                                         false, true, &c->reply)))
      c->status = GRPC_OK;
    add_load(c);
  }
  inference_settle(&i->life);
  if (!call_is_ended(c))
    call_end(c);
}

void grpc_inference_describe(const grpc_inference *i, access_record *record)
{
  record->model = i->life.model_name;
  record->request_id = i->life.request_id;
  access_times_print(&i->life.times, i->life.model_version, record);
}

static void describe(call *c, access_record *record)
{
  grpc_inference_describe(inference_of(c), record);
}

// Drops the reference that kept the inference for the access log.
static void closed(call *c)
{
  grpc_inference_unref(&inference_of(c)->life);
}

// The core is done.
static void woken(call *c)
{
  loop_core_took_back(&c->loop->core);
  reply(c);
  grpc_inference_unref(&inference_of(c)->life);
}

static void cancelled(call *c)
{
  inference_cancel(&inference_of(c)->life);
}

static void filled(call *c)
{
  bool at_once = false;
  grpc_inference *i = inference_of(c);
  error *failure = i->failure;
  c->describe = describe; // not earlier: a worker was writing these fields
  i->failure = NULL;
  if (failure == NULL)
    failure = grpc_inference_submit(i, &at_once);
  if (failure == NULL && !at_once) {
    c->woken = woken;
    c->cancelled = cancelled;
    loop_core_handed_over(&c->loop->core);
    return;
  }
  if (!call_fail_if_error(c, failure))
    reply(c);
  grpc_inference_unref(&i->life);
}

void grpc_handle_model_infer(call *c)
{
  static const inference_hooks hooks = {
      .ref = grpc_inference_ref, .unref = grpc_inference_unref, .done = wake};
  grpc_inference *i = grpc_inference_new(c, c->body.message, &hooks);
  if (i == NULL) {
    call_fail(c, GRPC_RESOURCE_EXHAUSTED, GRPC_INFERENCE_REFUSED);
    return;
  }
  c->body.message = NULL;
  c->handler_data = i;
  c->closed = closed;
  grpc_inference_ref(&i->life); // one for `closed`, one until the reply is made
  grpc_inference_fill(i, filled);
}

// SPDX-License-Identifier: Apache-2.0
// ModelStreamInfer: many requests in flight. Responses are sent in the order of their requests,
// those of decoupled models as they come, as in Triton. A failed request is answered by a message
// with its error, and the stream goes on; with the metadata triton_grpc_error: true the stream ends
// with the error's status instead.
#include "base/clock.h"
#include "frontend/common/observe/access_log.h"
#include "frontend/grpc/call/call.h"
#include "frontend/grpc/service/grpc_infer.h"
#include "frontend/grpc/transport/connection.h"
#include "frontend/grpc/transport/loop.h"

#include <stdlib.h>

#define MAX_IN_FLIGHT 4096               // requests of a stream; then it is not read on
#define MAX_UNREAD    ((size_t)64 << 20) // bytes of replies that the client has not taken

// In the call's arena.
typedef struct infer_stream {
  mpsc events;   // stream_event objects; each references its inference
  list in_order; // inferences, referenced, in the order of their requests
  list loose;    // decoupled inferences, referenced
  size_t in_flight;
  bool ends_with_errors; // triton_grpc_error
} infer_stream;

static infer_stream *stream_of(const call *c)
{
  return c->handler_data;
}

// ---- events, from any thread ----

static void push(grpc_inference *i, stream_event *e)
{
  call *c = i->call;
  e->inference = i;
  grpc_inference_ref(&i->life);
  mpsc_push(&stream_of(c)->events, &e->node);
  call_wake(c);
}

static void done(inference *life)
{
  grpc_inference *i = grpc_inference_of(life);
  push(i, &i->event);
}

// The memory of a response. Large tensors do not count here, because they counted when the model
// wrote them.
static size_t cost_of(TRITONSERVER_InferenceResponse *response)
{
  size_t cost = REPLY_COST_BYTES;
  uint32_t outputs = 0;
  TRITONSERVER_ErrorDelete(TRITONSERVER_InferenceResponseOutputCount(response, &outputs));
  for (uint32_t i = 0; i < outputs; i++) {
    const char *name;
    TRITONSERVER_DataType datatype;
    const int64_t *shape;
    uint64_t dim_count;
    const void *base;
    size_t size = 0;
    TRITONSERVER_MemoryType memory_type;
    int64_t memory_type_id;
    void *user;
    TRITONSERVER_ErrorDelete(
        TRITONSERVER_InferenceResponseOutput(response, i, &name, &datatype, &shape, &dim_count,
                                             &base, &size, &memory_type, &memory_type_id, &user));
    cost += size < BUDGET_MIN_BYTES ? size : 0;
  }
  return cost;
}

// Counts a response for the budget until the loop takes it: a model may be faster than the loop.
// False when the budget has no room.
static bool count_response(grpc_inference *i, stream_event *e)
{
  size_t cost = e->response == NULL ? 0 : cost_of(e->response);
  if (!budget_share_take(&i->call->kept_connection->share, cost, budget_take_work))
    return false;
  e->cost = cost;
  return true;
}

// The first response that is dropped counts as refused, unless the stream is over.
static void drop_response(grpc_inference *i, stream_event *e)
{
  inference_delete_response(&i->life, e->response);
  e->response = NULL;
  e->refused = !atomic_exchange(&i->drops, true);
}

static void respond(inference *life, TRITONSERVER_InferenceResponse *response_owned, bool final)
{
  grpc_inference *i = grpc_inference_of(life);
  stream_event *e = malloc(sizeof(*e));
  if (e == NULL) {
    inference_delete_response(life, response_owned);
    atomic_store(&i->lost, true);
    inference_cancel(life);
    return;
  }
  *e = (stream_event){.response = response_owned, .final = final};
  if (atomic_load(&i->drops) || !count_response(i, e))
    drop_response(i, e);
  if (e->response != NULL || e->final || e->refused)
    push(i, e);
  else
    free(e); // it says nothing
}

// ---- messages ----

static void cut(call *c, const grpc_inference *i, const char *why)
{
  const NEREID_LogSubject about = {.request_id = i->life.request_id,
                                   .model = i->life.model_name,
                                   .version = i->life.model_version};
  call_cut(c, &about, why);
}

// Queues a message. Requests that are not decoupled wait when the client does not read (is_full); a
// decoupled model may send any number of responses, so these have a limit.
static void queue(call *c, const grpc_inference *i, grpc_reply *message_owned)
{
  bool has_room = !i->is_loose || call_unsent(c) <= MAX_UNREAD;
  if (!has_room) {
    grpc_reply_unref(message_owned);
    cut(c, i, "the client left too many bytes of responses unread: its requests were cancelled");
  } else if (!call_queue(c, message_owned)) {
    cut(c, i, BUDGET_ANSWERS_FULL);
  }
}

// Sends a message without a response: an error, or the end of a decoupled request.
static void send_note(call *c, const grpc_inference *i, const char *error_message, bool final)
{
  reply_sources from = {0};
  message_parts parts = {.arena = &from.memory};
  const infer_response_json about = {.id = i->life.request_id,
                                     .model_name = i->life.model_name,
                                     .model_version = i->life.model_version};
  infer_stream_response_proto_write(&about, final ? FINAL_RESPONSE_TRUE : FINAL_RESPONSE_FALSE,
                                    error_message, &parts);
  const bool whole = message_parts_finish(&parts);
  from.text = parts.text;
  grpc_reply *made = whole ? call_make_reply(c, parts.items, parts.count, &from) : NULL;
  if (made != NULL)
    queue(c, i, made);
  else
    call_end_early(c, GRPC_RESOURCE_EXHAUSTED, "out of memory");
  if (!whole)
    reply_sources_fini(&from);
}

// Sends an error. `final`: it is the last message; a decoupled model may send more after an error.
static void send_failure(call *c, grpc_inference *i, error *failure_owned, bool final)
{
  i->status = grpc_status_of((TRITONSERVER_Error_Code)error_get_code(failure_owned));
  if (stream_of(c)->ends_with_errors && !call_is_ended(c)) {
    call_fail_if_error(c, failure_owned);
    call_end(c);
    c->cancelled(c);
    return;
  }
  send_note(c, i, error_message(failure_owned), final);
  error_free(failure_owned);
}

static void send_response(call *c, grpc_inference *i,
                          TRITONSERVER_InferenceResponse *response_owned, bool final)
{
  grpc_reply *made = NULL;
  if (call_is_ended(c)) {
    inference_delete_response(&i->life, response_owned);
  } else if (response_owned != NULL) {
    error *failure = grpc_inference_make_reply(i, response_owned, true, final, &made);
    if (failure != NULL)
      send_failure(c, i, failure, final);
    else
      queue(c, i, made);
  } else if (final && i->wants_empty_final) {
    send_note(c, i, "", true);
  }
}

// ---- requests in flight ----

// Each request has its own line in the access log.
static void write_access_log(const call *c, const grpc_inference *i)
{
  access_log *log = c->server->options.access_log;
  if (log == NULL)
    return;
  access_record record = call_access_record(c, i->status);
  grpc_inference_describe(i, &record);
  record.total_ns = clock_monotonic_ns() - i->began_ns;
  record.bytes_in = i->message->size;
  record.bytes_out = i->bytes_out;
  access_log_write(log, &record);
}

static void forget(call *c, grpc_inference *i)
{
  stream_of(c)->in_flight--;
  list_remove(&i->node);
  write_access_log(c, i);
  inference_settle(&i->life);
  loop_core_took_back(&c->loop->core);
  grpc_inference_unref(&i->life);
}

// Sends the replies that are due. If a model that is not decoupled responds more than once, the
// first response counts, as in Triton.
static void send_in_order(call *c)
{
  list_node *node;
  while ((node = list_first(&stream_of(c)->in_order)) != NULL) {
    grpc_inference *i = container_of(node, grpc_inference, node);
    error *failure = i->failure;
    if (!i->done)
      return;
    i->failure = NULL;
    if (failure != NULL)
      send_failure(c, i, failure, true);
    else if (atomic_load(&i->life.response_count) == 0)
      send_failure(c, i, error_new(ERROR_INTERNAL, "expected a single response, got 0"), true);
    else
      send_response(c, i, inference_take_response(&i->life), true);
    forget(c, i);
  }
}

// Sends a response of a decoupled model; drops it after the end, or after a lost response.
static void take_response(call *c, grpc_inference *i, const stream_event *e)
{
  budget_share_give_back(&c->kept_connection->share, e->cost);
  if (i->over || atomic_load(&i->lost)) {
    inference_delete_response(&i->life, e->response);
    return;
  }
  i->over = e->final;
  if (e->refused && !call_is_ended(c)) // the loop may have cut it meanwhile
    cut(c, i, BUDGET_ANSWERS_FULL);
  else
    send_response(c, i, e->response, e->final);
}

// Forgets a decoupled inference only when the core is done: the model may read inputs in the
// client's memory after its final response.
static void forget_if_over(call *c, grpc_inference *i)
{
  if (!list_is_linked(&i->node) || !i->done || (!i->over && !atomic_load(&i->lost)))
    return;
  if (!i->over)
    send_failure(c, i, error_no_memory(), true);
  i->over = true;
  forget(c, i);
}

// Ends the call when the client sends no more and has all replies.
static void end_if_done(call *c)
{
  infer_stream *s = c->handler_data;
  if (!c->stream.half_closed || call_is_ended(c) || c->body.paused || s->in_flight > 0)
    return;
  c->status = GRPC_OK;
  call_end(c);
}

static bool is_full(const call *c)
{
  return stream_of(c)->in_flight >= MAX_IN_FLIGHT || call_unsent(c) >= MAX_UNREAD;
}

static void woken(call *c)
{
  mpsc_node *next;
  for (mpsc_node *node = mpsc_take_all(&stream_of(c)->events); node != NULL; node = next) {
    next = node->next;
    stream_event *e = container_of(node, stream_event, node);
    grpc_inference *i = e->inference;
    if (e == &i->event) {
      i->done = true;
    } else {
      take_response(c, i, e);
      free(e);
    }
    if (i->is_loose)
      forget_if_over(c, i);
    grpc_inference_unref(&i->life);
  }
  send_in_order(c);
  if (c->body.paused && !is_full(c))
    call_resume(c);
  end_if_done(c);
}

// ---- the stream ----

static void filled(call *c)
{
  bool at_once = false;
  infer_stream *s = stream_of(c);
  grpc_inference *i = c->job.data;
  if (i->failure == NULL)
    i->failure = grpc_inference_submit(i, &at_once);
  i->is_loose = i->life.sends_each && i->failure == NULL; // an error waits for its turn
  i->done = at_once || i->failure != NULL;
  list_append(i->is_loose ? &s->loose : &s->in_order, &i->node);
  s->in_flight++;
  loop_core_handed_over(&c->loop->core);
  if (i->is_loose)
    forget_if_over(c, i);
  send_in_order(c);
  if (is_full(c))
    call_pause(c);
}

static void take_message(call *c, grpc_message *message_owned)
{
  static const inference_hooks hooks = {
      .ref = grpc_inference_ref, .unref = grpc_inference_unref, .done = done, .respond = respond};
  grpc_inference *i = grpc_inference_new(c, message_owned, &hooks);
  if (i == NULL) {
    grpc_message_free(message_owned);
    call_end_early(c, GRPC_RESOURCE_EXHAUSTED, GRPC_INFERENCE_REFUSED);
    return;
  }
  grpc_inference_fill(i, filled);
}

static void half_close(call *c)
{
  end_if_done(c);
}

// Cancels the requests; responses that still come are dropped.
static void cancel_all(const list *l)
{
  for (list_node *node = list_first(l); node != NULL; node = list_next(l, node)) {
    grpc_inference *i = container_of(node, grpc_inference, node);
    atomic_store(&i->drops, true);
    inference_cancel(&i->life);
  }
}

static void cancelled(call *c)
{
  cancel_all(&stream_of(c)->in_order);
  cancel_all(&stream_of(c)->loose);
}

void grpc_handle_model_stream_infer(call *c)
{
  infer_stream *s = c->handler_data = arena_allocate_array(&c->arena, 1, sizeof(*s));
  if (s == NULL) {
    call_fail(c, GRPC_RESOURCE_EXHAUSTED, "out of memory");
    return;
  }
  *s = (infer_stream){.ends_with_errors =
                          slice_equal(call_metadata(c, "triton_grpc_error"), SLICE("true"))};
  list_init(&s->in_order);
  list_init(&s->loose);
  c->take_message = take_message;
  c->half_close = half_close;
  c->cancelled = cancelled;
  c->woken = woken;
}

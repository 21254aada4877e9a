// ModelStreamInfer: requests as they come, many in flight. Answers of models that are not decoupled
// go in the order of their requests, those of decoupled models as they come, as in Triton. A
// request that fails is a message with its error, and the stream goes on; a client that sends the
// metadata triton_grpc_error: true has the stream end with the error's status instead.
#include "frontend/common/observe/frontend_log.h"
#include "frontend/grpc/call/access_note.h"
#include "frontend/grpc/call/call.h"
#include "frontend/grpc/call/server.h"
#include "frontend/grpc/service/infer.h"
#include "frontend/grpc/transport/loop.h"

#include <stdlib.h>

#define MAX_IN_FLIGHT 4096               // requests of a stream; then it is not read
#define MAX_UNREAD    ((size_t)64 << 20) // bytes of replies that the client has not taken

// Of the call, in its arena.
typedef struct infer_stream {
  _Atomic(grpc_inference *) news; // those with answers, newest first; each referenced
  grpc_inference *first, *last;   // not decoupled, in the order of requests; each referenced
  grpc_inference *loose;          // decoupled; each referenced
  size_t in_flight;
  bool ends_with_errors; // triton_grpc_error
} infer_stream;

static infer_stream *stream_of(const call *c)
{
  return c->handler_data;
}

// A response on its way from the thread that made it to the loop.
struct stream_response {
  stream_response *next;
  TRITONSERVER_InferenceResponse *response; // owned; NULL: an end without a response
  bool final;
};

// ---- responses come ----

static void tell(inference *life)
{
  grpc_inference *i = grpc_inference_of(life);
  call *c = i->call;
  infer_stream *s = c->handler_data;
  if (atomic_exchange(&i->in_news, true))
    return;
  grpc_inference_ref(life);
  i->next_news = atomic_load(&s->news);
  while (!atomic_compare_exchange_weak(&s->news, &i->next_news, i))
    ;
  grpc_loop_wake_call(c->loop, c);
}

static void respond(inference *life, TRITONSERVER_InferenceResponse *response_owned, bool final)
{
  grpc_inference *i = grpc_inference_of(life);
  stream_response *r = malloc(sizeof(*r));
  if (r == NULL) {
    inference_delete_response(life, response_owned);
    atomic_store(&i->lost, true);
  } else {
    *r = (stream_response){atomic_load(&i->responses), response_owned, final};
    while (!atomic_compare_exchange_weak(&i->responses, &r->next, r))
      ;
  }
  tell(life);
}

// Those that came since the last time, oldest first.
static stream_response *take_responses(grpc_inference *i)
{
  stream_response *ordered = NULL;
  stream_response *next;
  for (stream_response *r = atomic_exchange(&i->responses, NULL); r != NULL; r = next) {
    next = r->next;
    r->next = ordered;
    ordered = r;
  }
  return ordered;
}

static void drop_responses(grpc_inference *i)
{
  stream_response *next;
  for (stream_response *r = take_responses(i); r != NULL; r = next) {
    next = r->next;
    inference_delete_response(&i->life, r->response);
    free(r);
  }
}

// ---- messages ----

// A model that is not decoupled waits when the client does not read (is_full). A decoupled one
// answers as it likes: what it has to say is not kept for ever.
static void queue(call *c, const grpc_inference *i, outgoing *message_owned)
{
  if (!i->is_loose || call_unsent(c) <= MAX_UNREAD) {
    call_queue(c, message_owned);
    return;
  }
  outgoing_unref(message_owned);
  call_end_early(c, GRPC_RESOURCE_EXHAUSTED,
                 "the client left too many bytes of responses unread: its requests were cancelled");
}

// Sends a message that is no response: an error, or the end of a decoupled request.
static void send_note(call *c, const grpc_inference *i, const char *error_message, bool final)
{
  message_parts parts;
  arena memory;
  arena_init(&memory, NULL, 0);
  message_parts_init(&parts, &memory);
  const infer_response_json about = {.id = i->life.request_id,
                                     .model_name = i->life.model_name,
                                     .model_version = i->life.model_version};
  infer_stream_response_proto_write(&about, final ? FINAL_RESPONSE_TRUE : FINAL_RESPONSE_FALSE,
                                    error_message, &parts);
  outgoing *made = message_parts_finish(&parts)
                       ? call_make_outgoing(c, parts.items, parts.count, &parts.text, NULL, &memory)
                       : NULL;
  if (made != NULL)
    queue(c, i, made);
  else
    call_end_early(c, GRPC_RESOURCE_EXHAUSTED, "out of memory");
  message_parts_fini(&parts);
  arena_fini(&memory);
}

// A decoupled model may send more after an error: `final` says whether this is the end.
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
  outgoing *made = NULL;
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

static void send_responses(call *c, grpc_inference *i)
{
  stream_response *next;
  for (stream_response *r = take_responses(i); r != NULL; r = next) {
    next = r->next;
    i->over |= r->final;
    send_response(c, i, r->response, r->final);
    free(r);
  }
  if (atomic_load(&i->lost) && !i->over) {
    i->over = true;
    inference_cancel(&i->life);
    send_failure(c, i, error_no_memory(), true);
  }
}

// ---- requests in flight ----

static void forget(call *c, grpc_inference *i)
{
  stream_of(c)->in_flight--;
  drop_responses(i);
  grpc_access_inference(i, i->status);
  inference_settle(&i->life);
  grpc_loop_took_back(c->loop);
  grpc_inference_unref(&i->life);
}

static void remove_loose(call *c, grpc_inference *i)
{
  if (i->previous != NULL)
    i->previous->next = i->next;
  else
    stream_of(c)->loose = i->next;
  if (i->next != NULL)
    i->next->previous = i->previous;
  forget(c, i);
}

// Sends what is at the front of the line. Of a model that is not decoupled and answers more than
// once the first response counts, as in Triton.
static void send_in_order(call *c)
{
  infer_stream *s = c->handler_data;
  while (s->first != NULL && s->first->done) {
    grpc_inference *i = s->first;
    s->first = i->next;
    if (s->first == NULL)
      s->last = NULL;
    error *failure = i->failure;
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

// The client sends no more, and all is answered.
static void end_if_done(call *c)
{
  infer_stream *s = c->handler_data;
  if (!c->body.half_closed || call_is_ended(c) || call_is_paused(c) || s->in_flight > 0)
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
  grpc_inference *next;
  for (grpc_inference *i = atomic_exchange(&stream_of(c)->news, NULL); i != NULL; i = next) {
    next = i->next_news;
    atomic_store(&i->in_news, false);
    if (!i->is_loose) {
      i->done = true;
    } else if (i->over) {
      drop_responses(i);
    } else {
      send_responses(c, i);
      if (i->over)
        remove_loose(c, i);
    }
    grpc_inference_unref(&i->life);
  }
  send_in_order(c);
  if (call_is_paused(c) && !is_full(c))
    call_resume(c);
  end_if_done(c);
}

// ---- the stream ----

static void add(call *c, grpc_inference *i)
{
  infer_stream *s = c->handler_data;
  s->in_flight++;
  grpc_loop_handed_over(c->loop);
  if (i->is_loose) {
    i->next = s->loose;
    if (i->next != NULL)
      i->next->previous = i;
    s->loose = i;
  } else if (s->last == NULL) {
    s->first = s->last = i;
  } else {
    s->last->next = i;
    s->last = i;
  }
}

static void filled(call *c)
{
  bool at_once = false;
  grpc_inference *i = c->job.data;
  if (i->failure == NULL)
    i->failure = grpc_inference_submit(i, &at_once);
  i->is_loose = i->life.sends_each && i->failure == NULL; // an error waits for its turn
  i->done = at_once || i->failure != NULL;
  add(c, i);
  send_in_order(c);
  if (is_full(c))
    call_pause(c);
}

static void take_message(call *c, message *message_owned)
{
  static const inference_hooks hooks = {
      .ref = grpc_inference_ref, .unref = grpc_inference_unref, .done = tell, .respond = respond};
  grpc_inference *i = grpc_inference_new(c, message_owned, &hooks);
  if (i == NULL) {
    message_free(message_owned);
    call_end_early(c, GRPC_RESOURCE_EXHAUSTED, GRPC_INFERENCE_REFUSED);
    return;
  }
  grpc_inference_fill(i, filled);
}

static void half_close(call *c)
{
  end_if_done(c);
}

// Nobody takes answers any more; those that still come are dropped.
static void cancelled(call *c)
{
  for (grpc_inference *i = stream_of(c)->first; i != NULL; i = i->next)
    inference_cancel(&i->life);
  for (grpc_inference *i = stream_of(c)->loose; i != NULL; i = i->next)
    inference_cancel(&i->life);
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
  c->take_message = take_message;
  c->half_close = half_close;
  c->cancelled = cancelled;
  c->woken = woken;
}

// SPDX-License-Identifier: Apache-2.0
// Streamed replies. Backend threads turn responses into text at once; the loop thread, which runs
// the rest, takes the text when the client has read the earlier text.
#include "frontend/http/service/http_inference.h"

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/thread.h"
#include "frontend/common/json/generate_json.h"
#include "frontend/http/exchange/exchange.h"
#include "frontend/http/exchange/exchange_log.h"
#include "frontend/http/exchange/exchange_server.h"
#include "frontend/http/transport/connections.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#define BLOCK_BYTES (16u << 10) // the most that libmicrohttpd asks for at once
#define MUCH_UNREAD (1u << 20)  // after more unread text than this, malloc must give memory back

// Bytes of events that may wait for a client. When they would become more, the request is
// cancelled; the client gets what waits, then an event with an error.
#define MAX_UNREAD_BYTES (64u << 20)
#define EVENT_BYTES      1024 // counted for each event beside its text

struct stream {
  exchange *exchange; // referenced by the request until the final response, and by the reply

  pthread_mutex_t mutex; // guards what follows up to the blank line
  buffer coming;         // events that the loop has not taken
  size_t reserved;       // from the budget, for `coming`
  bool much;             // more than MUCH_UNREAD were unread
  bool final;            // no more responses come
  bool waiting;          // the connection is suspended until something comes
  unsigned status;       // of the first event; 0: none yet

  _Atomic size_t unread; // counted bytes of events that are not sent
  _Atomic bool closed;   // no more events: the stream was cut, or has no reader; set with the mutex
                         // held

  size_t sent;    // bytes of the exchange's text
  bool began;     // the reply's status is decided
  bool suspended; // suspended after `began`
};

// The loop's next step.
typedef enum stream_step {
  STREAM_TEXT,    // there is text to send
  STREAM_WAIT,    // the connection is suspended
  STREAM_END,     // all is sent
  STREAM_STOPPED, // the server is stopping
} stream_step;

stream *stream_new(exchange *x)
{
  stream *s = arena_allocate_array(&x->arena, 1, sizeof(*s));
  if (s != NULL)
    *s = (stream){.exchange = x, .mutex = PTHREAD_MUTEX_INITIALIZER};
  return s;
}

// ---- responses come ----

static void append_failure(buffer *events, const char *text)
{
  buffer_append_text(events, "data: ");
  exchange_append_failure(events, "%s", text);
  buffer_append_text(events, "\n\n");
}

static error *append_response(stream *s, TRITONSERVER_InferenceResponse *response, arena *a,
                              buffer *event)
{
  infer_response_json json = {0};
  RETURN_IF_ERROR(infer_tensors_read(&s->exchange->inference->tensors, response, a, &json));
  buffer_append_text(event, "data: ");
  RETURN_IF_ERROR(generate_response_json_write(&json, a, event));
  buffer_append_text(event, "\n\n");
  return NULL;
}

// Writes an event. An error of the response, or of writing, becomes the event. Returns its status.
static unsigned write_event(stream *s, TRITONSERVER_InferenceResponse *response, buffer *event)
{
  arena a;
  char memory[1024];
  arena_init(&a, memory, sizeof(memory));
  AUTO_ERROR error *failure = append_response(s, response, &a, event);
  arena_fini(&a);
  if (failure == NULL)
    return MHD_HTTP_OK;
  buffer_fini(event);
  *event = BUFFER_EMPTY;
  append_failure(event, error_message(failure));
  return exchange_status_of((TRITONSERVER_Error_Code)error_get_code(failure));
}

// Adds an event. Returns the reason when it cannot, else NULL. The mutex is held.
static const char *add(stream *s, const buffer *event)
{
  assert(lock_is_held(&s->mutex));
  byte_budget *budget = &s->exchange->http->budget;
  size_t unread = atomic_load(&s->unread), weight = event->size + EVENT_BYTES;
  if (unread > 0 && unread + weight > MAX_UNREAD_BYTES)
    return "the client left too many bytes of responses unread: the request was cancelled";
  if (event->failed)
    return "out of memory";
  if (!budget_take_work(budget, weight))
    return BUDGET_ANSWERS_FULL;
  s->reserved += weight;
  buffer_append_slice(&s->coming, buffer_view(event));
  return s->coming.failed ? "out of memory" : NULL;
}

// Ends the stream with an error event. The mutex is held.
static void cut(stream *s, const char *why)
{
  assert(lock_is_held(&s->mutex) && !atomic_load(&s->closed));
  s->coming.failed = false;
  append_failure(&s->coming, why);
  if (s->status == 0)
    s->status = MHD_HTTP_SERVICE_UNAVAILABLE;
  atomic_store(&s->closed, true);
}

// Adds an event (status 0: none). Returns the reason if the stream is cut now, else NULL.
static const char *put(stream *s, const buffer *event, unsigned status, bool final, bool *wake)
{
  LOCK_SCOPE(&s->mutex);
  size_t before = s->coming.size;
  s->final = s->final || final;
  *wake = s->waiting;
  s->waiting = false;
  if (status == 0 || atomic_load(&s->closed))
    return NULL;
  const char *why = add(s, event);
  if (why != NULL)
    cut(s, why);
  else if (s->status == 0)
    s->status = status;
  size_t weight = s->coming.size - before + EVENT_BYTES;
  size_t unread = weight + atomic_fetch_add(&s->unread, weight);
  s->much = s->much || unread > MUCH_UNREAD;
  return why;
}

void stream_respond(inference *life, TRITONSERVER_InferenceResponse *response_owned, bool final)
{
  stream *s = http_inference_of(life)->stream;
  exchange *x = s->exchange;
  AUTO_BUFFER buffer event = BUFFER_EMPTY;
  unsigned status = 0;
  bool wake;
  if (response_owned == NULL)
    trace_record_now(life->trace, TRACE_INFER_RESPONSE_COMPLETE); // at the end, too
  else if (!atomic_load(&s->closed))
    status = write_event(s, response_owned, &event);
  inference_delete_response(life, response_owned);
  const char *why = put(s, &event, status, final, &wake);
  if (why != NULL) {
    exchange_log_warning(x, "the stream is cut: %s", why);
    inference_cancel(life);
  }
  if (wake)
    exchange_resume(x);
}

// ---- the loop ----

// Moves what came to the exchange's text. The mutex is held.
static void take_events(stream *s)
{
  assert(lock_is_held(&s->mutex) && s->exchange->reserved == 0);
  s->exchange->text = s->coming;
  s->exchange->reserved = s->reserved;
  s->coming = BUFFER_EMPTY;
  s->reserved = 0;
}

// The stream has no reader any more: cancels the request, if it is not over.
static void close_stream(stream *s)
{
  assert(!s->suspended);
  exchange *x = s->exchange;
  exchange_drop_text(x);
  pthread_mutex_lock(&s->mutex);
  take_events(s);
  s->waiting = false;
  atomic_store(&s->closed, true);
  bool final = s->final, much = s->much;
  pthread_mutex_unlock(&s->mutex);
  exchange_drop_text(x);
  if (much)
    connections_record_freed(http_server_of(x->http)->connections);
  if (!final)
    inference_cancel(x->inference);
}

// Suspends the connection; false when the server is stopping. The mutex is held.
static bool suspend(stream *s)
{
  assert(lock_is_held(&s->mutex) && !s->waiting && !s->suspended);
  exchange *x = s->exchange;
  if (!s->began) {
    exchange_suspend(x, stream_begin);
    return true;
  }
  if (!http_server_handling_began(x->http)) // the stop waits for suspended connections
    return false;
  s->suspended = true;
  connection_enter(x->connection, CONNECTION_RUNNING);
  MHD_suspend_connection(x->mhd);
  return true;
}

static void resumed(stream *s)
{
  if (s->suspended)
    listener_done(s->exchange->http);
  s->suspended = false;
}

// When the earlier text is sent, takes new events, or suspends until some come.
static stream_step take(stream *s)
{
  exchange *x = s->exchange;
  if (s->sent < x->text.size)
    return STREAM_TEXT;
  exchange_drop_text(x);
  s->sent = 0;
  LOCK_SCOPE(&s->mutex);
  if (s->coming.size == 0 && (s->final || atomic_load(&s->closed)))
    return STREAM_END;
  if (s->coming.size == 0) {
    atomic_store(&s->unread, 0);
    s->waiting = suspend(s);
    return s->waiting ? STREAM_WAIT : STREAM_STOPPED;
  }
  take_events(s);
  return STREAM_TEXT;
}

// Called by libmicrohttpd for the reply's next bytes.
static ssize_t read_text(void *stream_pointer, uint64_t position, char *to, size_t room)
{
  (void)position;
  stream *s = stream_pointer;
  exchange *x = s->exchange;
  resumed(s);
  switch (take(s)) {
  case STREAM_WAIT:
    return 0;
  case STREAM_END:
    return MHD_CONTENT_READER_END_OF_STREAM;
  case STREAM_STOPPED:
    return MHD_CONTENT_READER_END_WITH_ERROR;
  case STREAM_TEXT:
    break;
  }
  const char *text = x->text.data + s->sent;
  size_t left = x->text.size - s->sent;
  size_t size = left < room ? left : room;
  // A short event is one chunk. Half of its end "\n\n" may be sent already.
  size_t before = s->sent > 0 ? 1 : 0;
  const char *end = memmem(text - before, size + before, "\n\n", 2);
  if (end != NULL)
    size = (size_t)(end + 2 - text);
  memcpy(to, text, size);
  s->sent += size;
  atomic_fetch_sub(&s->unread, end != NULL ? size + EVENT_BYTES : size);
  x->reply_bytes += size;
  connection_enter(x->connection, CONNECTION_REPLY);
  return (ssize_t)size;
}

static void reply_gone(void *stream_pointer)
{
  stream *s = stream_pointer;
  resumed(s);
  close_stream(s);
  exchange_unref(s->exchange); // and maybe frees `s`
}

static void reply(exchange *x, stream *s)
{
  unsigned status = s->status;
  assert(!s->began);
  s->began = true;
  exchange_ref(x);
  struct MHD_Response *response =
      MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_text, s, reply_gone);
  if (response == NULL)
    reply_gone(s);
  response =
      response_with(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/event-stream; charset=utf-8");
  response = response_with_load(response, x);
  exchange_reply_with(x, response);
  if (response != NULL && status != 0)
    x->status = status;
}

void stream_begin(exchange *x)
{
  stream *s = http_inference_of(x->inference)->stream;
  if (exchange_is_over(x))
    close_stream(s);
  else if (take(s) != STREAM_WAIT)
    reply(x, s);
}

// Streamed replies. The queue is shared by the backend's threads and the loop; the rest is the
// loop's, or that of the worker that it waits for.
#include "frontend/http/service/stream.h"

#include "base/arena.h"
#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/refcount.h"
#include "frontend/common/json/generate_json.h"
#include "frontend/http/exchange/exchange.h"
#include "frontend/http/exchange/response.h"
#include "frontend/http/exchange/server.h"
#include "frontend/http/service/http_inference.h"
#include "frontend/http/transport/connections.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES (16u << 10) // of text that libmicrohttpd asks for at once
#define MUCH_UNREAD (1u << 20)  // what malloc should not keep

// A response that waits for its client.
typedef struct stream_item {
  struct stream_item *next;
  TRITONSERVER_InferenceResponse *response; // owned
  size_t bytes;                             // what it counts
  size_t reserved;                          // from the budget
} stream_item;

struct stream {
  refcount references;
  exchange *exchange; // referenced by the inference and by the reply

  pthread_mutex_t mutex; // guards what follows up to the blank line
  stream_item *first, *last;
  size_t unread;   // bytes of all items
  bool much;       // more than MUCH_UNREAD were unread
  bool final;      // no more responses come
  bool waiting;    // the connection is suspended until something comes
  bool closed;     // nobody takes anything any more
  const char *cut; // why what came behind the items was dropped; NULL: nothing was

  stream_item *current; // to be made into text
  buffer text;          // an event
  size_t sent;          // bytes of it
  size_t reserved;      // from the budget, for it
  bool began;           // the status is said
  bool last_event;      // the text is the end of the stream, whatever the core says
  bool suspended;       // since the reply began
  unsigned status;
};

// What the loop finds.
typedef enum stream_step {
  STREAM_TEXT,    // there is text to send
  STREAM_WAIT,    // the connection is suspended
  STREAM_END,     // all is sent
  STREAM_STOPPED, // the server may not wait any more
} stream_step;

// ---- items ----

static void free_item(stream *s, stream_item *item)
{
  inference_delete_response(s->exchange->inference, item->response);
  budget_give_back(&s->exchange->http->budget, item->reserved);
  free(item);
}

static void free_items(stream *s, stream_item *first)
{
  while (first != NULL) {
    stream_item *next = first->next;
    free_item(s, first);
    first = next;
  }
}

// Weighs the outputs; those from BUDGET_MIN_BYTES on are in the budget since they were allocated.
static void weigh(stream_item *item)
{
  uint32_t count = 0;
  item->bytes = item->reserved = STREAM_RESPONSE_BYTES;
  TRITONSERVER_ErrorDelete(TRITONSERVER_InferenceResponseOutputCount(item->response, &count));
  for (uint32_t i = 0; i < count; i++) {
    const char *name;
    TRITONSERVER_DataType type;
    const int64_t *shape;
    uint64_t dim_count;
    const void *data;
    size_t size = 0;
    TRITONSERVER_MemoryType memory;
    int64_t memory_id;
    void *tag;
    TRITONSERVER_ErrorDelete(TRITONSERVER_InferenceResponseOutput(item->response, i, &name, &type,
                                                                  &shape, &dim_count, &data, &size,
                                                                  &memory, &memory_id, &tag));
    item->bytes += size;
    if (size < BUDGET_MIN_BYTES)
      item->reserved += size;
  }
}

// NULL when memory or the budget is short: the response is gone, and *why says what is missing.
static stream_item *make_item(stream *s, TRITONSERVER_InferenceResponse *response_owned,
                              const char **why)
{
  stream_item *item = calloc(1, sizeof(*item));
  if (item == NULL) {
    *why = "out of memory";
    inference_delete_response(s->exchange->inference, response_owned);
    return NULL;
  }
  item->response = response_owned;
  weigh(item);
  if (budget_take_work(&s->exchange->http->budget, item->reserved))
    return item;
  *why = BUDGET_ANSWERS_FULL;
  item->reserved = 0;
  free_item(s, item);
  return NULL;
}

// ---- life ----

stream *stream_new(exchange *x)
{
  stream *s = calloc(1, sizeof(*s));
  if (s == NULL)
    return NULL;
  refcount_init(&s->references);
  refcount_take(&s->references);
  s->exchange = x;
  s->status = MHD_HTTP_OK;
  pthread_mutex_init(&s->mutex, NULL);
  return s;
}

void stream_unref(stream *s)
{
  if (!refcount_drop(&s->references))
    return;
  pthread_mutex_destroy(&s->mutex);
  free(s);
}

static void release_text(stream *s)
{
  buffer_fini(&s->text);
  s->text = BUFFER_EMPTY;
  s->sent = 0;
  if (s->reserved > 0)
    budget_give_back(&s->exchange->http->budget, s->reserved);
  s->reserved = 0;
}

// Nobody reads any more: the request is cancelled if it is not over.
static void close_stream(stream *s)
{
  pthread_mutex_lock(&s->mutex);
  stream_item *first = s->first;
  bool over = s->final, much = s->much;
  s->first = s->last = NULL;
  s->closed = true;
  s->waiting = false;
  pthread_mutex_unlock(&s->mutex);
  free_items(s, first);
  release_text(s);
  if (much)
    connections_record_freed(http_server_of(s->exchange->http)->connections);
  if (!over)
    inference_cancel(s->exchange->inference);
}

void stream_abandon(stream *s)
{
  close_stream(s);
  stream_unref(s);
}

// ---- responses come ----

static const char too_much[] = "the client left too many bytes of responses unread: the request "
                               "was cancelled";

// Queues the item or gives it back. *why: in, why there is none; out, why the stream is cut now.
static stream_item *put(stream *s, stream_item *item, bool final, const char **why, bool *wake)
{
  LOCK_SCOPE(&s->mutex);
  s->final = s->final || final;
  *wake = s->waiting;
  s->waiting = false;
  if (s->closed || s->cut != NULL) {
    *why = NULL;
    return item;
  }
  if (item != NULL && s->first != NULL && s->unread + item->bytes > STREAM_MAX_UNREAD_BYTES)
    *why = too_much;
  s->cut = *why;
  if (item == NULL || *why != NULL)
    return item;
  if (s->last == NULL)
    s->first = item;
  else
    s->last->next = item;
  s->last = item;
  s->unread += item->bytes;
  s->much = s->much || s->unread > MUCH_UNREAD;
  return NULL;
}

void stream_respond(stream *s, TRITONSERVER_InferenceResponse *response_owned, bool final)
{
  exchange *x = s->exchange;
  const char *why = NULL;
  bool wake;
  stream_item *item = response_owned == NULL ? NULL : make_item(s, response_owned, &why);
  stream_item *dropped = put(s, item, final, &why, &wake);
  free_items(s, dropped);
  if (why != NULL) {
    exchange_log_warning(x, "the stream is cut: %s", why);
    inference_cancel(x->inference);
  }
  if (wake)
    exchange_resume(x);
}

// ---- events ----

// The stream's last event.
static void write_failure(stream *s, unsigned status, const char *text)
{
  release_text(s);
  buffer_append_text(&s->text, "data: ");
  exchange_append_failure(&s->text, "%s", text);
  buffer_append_text(&s->text, "\n\n");
  if (!s->began)
    s->status = status;
}

static void end_with(stream *s, const char *why)
{
  write_failure(s, MHD_HTTP_SERVICE_UNAVAILABLE, why);
  s->last_event = true;
}

// An error of the response, or of writing it, is its event.
static void write_response(stream *s, TRITONSERVER_InferenceResponse *response, arena *a)
{
  infer_response_json json = {0};
  AUTO_ERROR error *failure =
      infer_tensors_read(&s->exchange->inference->tensors, response, a, &json);
  if (failure != NULL) {
    write_failure(s, exchange_status_of((TRITONSERVER_Error_Code)error_get_code(failure)),
                  error_message(failure));
    return;
  }
  buffer_append_text(&s->text, "data: ");
  AUTO_ERROR error *e = generate_response_json_write(&json, a, &s->text);
  buffer_append_text(&s->text, "\n\n");
  if (e != NULL)
    write_failure(s, exchange_status_of((TRITONSERVER_Error_Code)error_get_code(e)),
                  error_message(e));
}

// Makes s->current into text.
static void format(stream *s)
{
  arena a;
  char memory[1024];
  stream_item *item = s->current;
  s->current = NULL;
  arena_init(&a, memory, sizeof(memory));
  write_response(s, item->response, &a);
  arena_fini(&a);
  free_item(s, item);
  size_t size = s->text.size < BUDGET_MIN_BYTES ? 0 : s->text.size;
  if (s->text.failed)
    end_with(s, "out of memory");
  else if (size > 0 && !budget_take_work(&s->exchange->http->budget, size))
    end_with(s, BUDGET_ANSWERS_FULL);
  else
    s->reserved = size;
}

static void format_job(exchange *x)
{
  format(http_inference_of(x->inference)->stream);
}

// ---- the loop ----

// Suspends the connection; false when the server stops. The mutex may be held.
static bool suspend(stream *s)
{
  exchange *x = s->exchange;
  if (!s->began) {
    exchange_suspend(x, stream_begin);
    return true;
  }
  if (!http_server_handling_began(x->http)) // it waits for suspended connections
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

// Takes the next response, or suspends until there is one. STREAM_TEXT: s->current, if any.
static stream_step take(stream *s)
{
  LOCK_SCOPE(&s->mutex);
  stream_item *item = s->first;
  if (item == NULL && !s->final && s->cut == NULL) {
    s->waiting = suspend(s);
    return s->waiting ? STREAM_WAIT : STREAM_STOPPED;
  }
  if (item == NULL && s->cut == NULL)
    return STREAM_END;
  s->current = item;
  if (item == NULL) {
    end_with(s, s->cut);
    return STREAM_TEXT;
  }
  s->first = item->next;
  item->next = NULL;
  if (s->first == NULL)
    s->last = NULL;
  s->unread -= item->bytes;
  return STREAM_TEXT;
}

// Long texts are made by a worker.
static stream_step format_aside(stream *s)
{
  exchange *x = s->exchange;
  x->job = format_job;
  if (!suspend(s)) {
    free_item(s, s->current);
    s->current = NULL;
    return STREAM_STOPPED;
  }
  error *failure = exchange_submit_job(x, JOB_FINISHES);
  if (failure != NULL) {
    error_free(failure);
    format(s);
    exchange_resume(x);
  }
  return STREAM_WAIT;
}

static stream_step advance(stream *s)
{
  if (s->sent < s->text.size)
    return STREAM_TEXT;
  if (s->last_event)
    return STREAM_END;
  release_text(s);
  stream_step step = take(s);
  if (step != STREAM_TEXT || s->current == NULL)
    return step;
  if (s->current->bytes > JOBS_LOOP_BYTES)
    return format_aside(s);
  format(s);
  return STREAM_TEXT;
}

// libmicrohttpd's reader of replies.
static ssize_t read_text(void *stream_pointer, uint64_t position, char *to, size_t room)
{
  (void)position;
  stream *s = stream_pointer;
  resumed(s);
  switch (advance(s)) {
  case STREAM_WAIT:
    return 0;
  case STREAM_END:
    return MHD_CONTENT_READER_END_OF_STREAM;
  case STREAM_STOPPED:
    return MHD_CONTENT_READER_END_WITH_ERROR;
  case STREAM_TEXT:
    break;
  }
  size_t left = s->text.size - s->sent;
  size_t size = left < room ? left : room;
  memcpy(to, s->text.data + s->sent, size);
  s->sent += size;
  s->exchange->reply_bytes += size;
  connection_enter(s->exchange->connection, CONNECTION_REPLY);
  return (ssize_t)size;
}

static void reply_gone(void *stream_pointer)
{
  stream *s = stream_pointer;
  exchange *x = s->exchange;
  resumed(s);
  stream_abandon(s);
  exchange_unref(x);
}

static void reply(exchange *x, stream *s)
{
  unsigned status = s->status;
  s->began = true;
  exchange_ref(x);
  struct MHD_Response *response =
      MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_text, s, reply_gone);
  if (response == NULL)
    reply_gone(s); // and maybe the stream
  response =
      response_with(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/event-stream; charset=utf-8");
  response = response_with_load(response, x->http->server, x->mhd);
  exchange_reply_with(x, response);
  if (response != NULL)
    x->status = status;
}

void stream_begin(exchange *x)
{
  stream *s = http_inference_of(x->inference)->stream;
  if (exchange_is_abandoned(x))
    stream_abandon(s);
  else if (advance(s) != STREAM_WAIT)
    reply(x, s);
}

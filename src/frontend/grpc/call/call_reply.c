// SPDX-License-Identifier: Apache-2.0
// A call's reply messages and its end: made, queued, given to HTTP/2. Loop thread, except that the
// thread that has the call makes the reply.
#include "base/checked.h"
#include "frontend/common/net/compress.h"
#include "frontend/common/observe/frontend_log.h"
#include "frontend/grpc/call/call_parts.h"
#include "frontend/grpc/transport/connection.h"
#include "frontend/grpc/transport/loop.h"

#include <assert.h>
#include <stdlib.h>

#define MIN_PACKED_BYTES 64 // shorter replies are not compressed

static const int zlib_levels[] = {0, 1, 6, 9}; // index: listener_options.compression_level

// ---- messages ----

// A queued message: prefix and parts, sent from where they are. Referenced by its call's queue
// until HTTP/2 has taken it, and by the output until it is written.
struct grpc_reply {
  list_node node; // in the call's queue
  output_source source;
  slice *parts; // the first is the prefix; allocated with this object
  size_t part_count;
  size_t part; // the first part that HTTP/2 has not taken wholly
  size_t part_taken;
  size_t size; // of all parts
  size_t taken;
  reply_sources from;
  call *call;   // referenced
  size_t cost;  // in its connection's share; 0: not counted yet
  bool refused; // by the budget: it has no memory any more, and is not sent
  char prefix[MESSAGE_PREFIX_BYTES];
};

void reply_sources_fini(reply_sources *s)
{
  if (s->response != NULL)
    frontend_log_failure(NULL, "deleting a response",
                         TRITONSERVER_InferenceResponseDelete(s->response));
  buffer_fini(&s->text);
  arena_fini(&s->memory);
}

static void free_reply(output_source *source)
{
  grpc_reply *o = container_of(source, grpc_reply, source);
  reply_sources_fini(&o->from);
  budget_share_give_back(&o->call->kept_connection->share, o->cost);
  call_unref(o->call);
  free(o);
}

// Makes a message of `count` parts, which stay where they are, and takes over `from`. NULL when
// memory is short.
static grpc_reply *make_message(call *c, const slice *parts, size_t count,
                                reply_sources *from_owned, bool compressed)
{
  size_t bytes;
  grpc_reply *o =
      checked_array_size(sizeof(grpc_reply) + sizeof(slice), count, sizeof(slice), &bytes)
          ? malloc(bytes)
          : NULL;
  if (o == NULL) {
    reply_sources_fini(from_owned);
    return NULL;
  }
  *o = (grpc_reply){.parts = (slice *)(o + 1), .part_count = count + 1, .from = *from_owned};
  refcount_init(&o->source.references);
  o->source.free = free_reply;
  size_t size = 0;
  for (size_t i = 0; i < count; i++) {
    o->parts[i + 1] = parts[i];
    size += parts[i].size;
  }
  o->prefix[0] = compressed ? 1 : 0;
  for (int i = 0; i < 4; i++)
    o->prefix[i + 1] = (char)(size >> (24 - 8 * i));
  o->parts[0] = (slice){o->prefix, sizeof(o->prefix)};
  o->size = size + sizeof(o->prefix);
  o->call = c;
  call_ref(c);
  return o;
}

void grpc_reply_unref(grpc_reply *r)
{
  output_source_unref(&r->source);
}

// ---- the queue ----

// Counts bytes of this queue, and of all queues of the connection.
static void count_added(call *c, size_t bytes)
{
  c->replies.unsent_bytes += bytes;
  c->kept_connection->unsent += bytes;
}

static void count_removed(call *c, size_t bytes)
{
  assert(bytes <= c->replies.unsent_bytes && bytes <= c->kept_connection->unsent);
  c->replies.unsent_bytes -= bytes;
  c->kept_connection->unsent -= bytes;
}

static void drop(call *c, grpc_reply *r)
{
  assert(c->replies.unsent_count > 0);
  list_remove(&r->node);
  c->replies.unsent_count--;
  count_removed(c, r->size - r->taken);
  grpc_reply_unref(r);
}

// Drops the messages that HTTP/2 has not begun to take.
static void drop_unsent(call *c)
{
  list_foreach_safe (grpc_reply, r, node, &c->replies.unsent)
    if (r->taken == 0)
      drop(c, r);
}

void call_drop_replies(call *c)
{
  list_foreach_safe (grpc_reply, r, node, &c->replies.unsent)
    drop(c, r);
  assert(c->replies.unsent_bytes == 0 && c->replies.unsent_count == 0);
}

// Was the part counted when the model wrote it? Large tensors were.
static bool is_counted(const grpc_reply *o, slice part)
{
  const buffer *text = &o->from.text;
  bool is_text = part.data >= text->data && part.data < text->data + text->size;
  return o->from.response != NULL && !is_text && part.size >= BUDGET_MIN_BYTES;
}

// Counts a reply for the budget by the memory that it takes while it is unread. A reply that is
// counted, or refused, stays so.
static bool reserve(const call *c, grpc_reply *o)
{
  if (o->cost > 0 || o->refused)
    return !o->refused;
  size_t cost = REPLY_COST_BYTES;
  for (size_t i = 0; i < o->part_count; i++)
    cost += is_counted(o, o->parts[i]) ? 0 : o->parts[i].size;
  if (!budget_share_take(&c->kept_connection->share, cost, budget_take_work))
    return false;
  o->cost = cost;
  return true;
}

size_t call_unsent(const call *c)
{
  return c->replies.unsent_bytes + c->replies.unsent_count * REPLY_COST_BYTES;
}

// HTTP/2 cannot take the reply: resets the stream.
static void reset(call *c)
{
  nghttp2_submit_rst_stream(c->stream.connection->session, NGHTTP2_FLAG_NONE, c->stream.id,
                            NGHTTP2_INTERNAL_ERROR);
}

bool call_queue(call *c, grpc_reply *message_owned)
{
  bool is_ended = call_is_ended(c);
  if (is_ended || !reserve(c, message_owned)) {
    grpc_reply_unref(message_owned);
    return is_ended;
  }
  list_append(&c->replies.unsent, &message_owned->node);
  c->replies.unsent_count++;
  c->stream.connection->used++;
  count_added(c, message_owned->size);
  c->replies.bytes += message_owned->size - MESSAGE_PREFIX_BYTES;
  if (c->replies.begun)
    nghttp2_session_resume_data(c->stream.connection->session, c->stream.id);
  else if (!call_submit_header(c))
    reset(c);
  c->replies.begun = true;
  grpc_loop_mark(c->loop, c->stream.connection);
  return true;
}

// Gives the message's next `size` bytes to the output.
static bool give_part(grpc_reply *o, output *to, size_t size)
{
  bool done = true;
  o->taken += size;
  while (size > 0 && done) {
    slice part = o->parts[o->part];
    size_t left = part.size - o->part_taken;
    size_t step = size < left ? size : left;
    done = output_refer(to, part.data + o->part_taken, step, &o->source);
    o->part_taken += step;
    size -= step;
    if (o->part_taken == part.size) {
      o->part++;
      o->part_taken = 0;
    }
  }
  return done;
}

bool call_give_data(grpc_stream *s, output *to, size_t size)
{
  call *c = call_of_stream(s);
  bool done = true;
  count_removed(c, size);
  for (list_node *node; done && (node = list_first(&c->replies.unsent)) != NULL;) {
    grpc_reply *r = container_of(node, grpc_reply, node);
    size_t left = r->size - r->taken;
    size_t step = size < left ? size : left;
    done = give_part(r, to, step);
    size -= step;
    if (r->taken < r->size)
      break;
    drop(c, r);
  }
  if (c->body.paused) // there may be room for replies again
    call_wake(c);
  return done && size == 0;
}

// Gives the status to HTTP/2, after the queued messages.
static void submit_end(call *c, grpc_status status, const char *failure)
{
  if (call_is_ended(c))
    return;
  call_set_state(c, CALL_ENDED);
  c->replies.status = status;
  c->replies.failure = failure;
  conn_timer_cancel(&c->loop->timers, &c->deadline);
  if (c->replies.begun)
    nghttp2_session_resume_data(c->stream.connection->session, c->stream.id);
  else if (!call_submit_status(c))
    reset(c);
  grpc_loop_mark(c->loop, c->stream.connection);
}

void call_end(call *c)
{
  assert(c->status != GRPC_UNDECIDED);
  if (c->reply != NULL && c->status == GRPC_OK) {
    grpc_reply *reply = c->reply;
    c->reply = NULL;
    if (!call_queue(c, reply))
      call_cut(c, NULL, BUDGET_ANSWERS_FULL);
  }
  submit_end(c, c->status, c->failure);
}

void call_end_early(call *c, grpc_status status, const char *text)
{
  if (call_is_ended(c))
    return;
  drop_unsent(c);
  submit_end(c, status, text);
  call_cancel_job(c);
  if (c->cancelled != NULL)
    c->cancelled(c);
}

// Logs each stream that is cut, but other calls only once a minute, because they may be many.
void call_cut(call *c, const NEREID_LogSubject *about, const char *why)
{
  const char *peer = c->kept_connection->peer;
  if (c->method->streams)
    FRONTEND_LOG_AT(TRITONSERVER_LOG_WARN, about, "the stream of %s is cut: %s", peer, why);
  else if (loop_may_log(&c->loop->all->last_cut_ns))
    FRONTEND_LOG_AT(TRITONSERVER_LOG_WARN, about, "calls such as one of %s get no answer: %s", peer,
                    why);
  call_end_early(c, GRPC_RESOURCE_EXHAUSTED, why);
}

// The reply of a job whose call ended otherwise is dropped, because it refers to the call.
void call_settle(call *c)
{
  // Look at the job's state first: while it runs, the job's thread may write the status.
  if (atomic_load(&c->job.state) != CALL_JOB_NONE || c->status == GRPC_UNDECIDED)
    return;
  if (!call_is_ended(c))
    call_end(c);
  if (c->reply != NULL)
    grpc_reply_unref(c->reply);
  c->reply = NULL;
}

// Compresses the parts into one. False when memory is short.
static bool pack(const call *c, reply_sources *from, slice *whole, const slice *parts, size_t count)
{
  buffer packed = BUFFER_EMPTY;
  const int level = zlib_levels[c->server->options.compression_level];
  const bool done = compress_parts(c->reply_coding, level, parts, count, &packed);
  reply_sources_fini(from); // the compressed reply needs none of it
  *from = (reply_sources){.text = packed};
  *whole = buffer_view(&packed);
  return done;
}

grpc_reply *call_make_reply(call *c, const slice *parts, size_t count, reply_sources *from_owned)
{
  size_t size = 0;
  slice whole;
  for (size_t i = 0; i < count; i++)
    size += parts[i].size;
  if (c->reply_coding == CODING_IDENTITY || size < MIN_PACKED_BYTES)
    return make_message(c, parts, count, from_owned, false);
  if (pack(c, from_owned, &whole, parts, count))
    return make_message(c, &whole, 1, from_owned, true);
  reply_sources_fini(from_owned);
  return NULL;
}

// Makes a reply of one message. NULL when memory is short.
static grpc_reply *reply_of(call *c, buffer *message_owned)
{
  const slice whole = buffer_view(message_owned);
  if (message_owned->failed)
    return NULL;
  reply_sources from = {.text = *message_owned};
  *message_owned = BUFFER_EMPTY;
  return call_make_reply(c, &whole, 1, &from);
}

// Counts the reply before the loop gets it: jobs make replies faster than a busy loop takes them.
static void reserve_early(const call *c, grpc_reply *o)
{
  o->refused = !reserve(c, o);
  if (!o->refused)
    return;
  reply_sources_fini(&o->from);
  o->from = (reply_sources){0};
}

void call_reply_packed(call *c, buffer *message_owned)
{
  if (c->status != GRPC_UNDECIDED)
    return;
  c->reply = reply_of(c, message_owned);
  if (c->reply == NULL) {
    call_fail(c, GRPC_RESOURCE_EXHAUSTED, "out of memory for a reply");
    return;
  }
  reserve_early(c, c->reply);
  c->status = GRPC_OK; // if the reply is refused, the loop cuts the call
}

void call_queue_packed(call *c, buffer *message_owned)
{
  grpc_reply *made = reply_of(c, message_owned);
  if (made == NULL)
    call_end_early(c, GRPC_RESOURCE_EXHAUSTED, "out of memory");
  else if (!call_queue(c, made))
    call_cut(c, NULL, BUDGET_ANSWERS_FULL);
}

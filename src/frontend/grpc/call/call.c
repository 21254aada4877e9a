// Calls: from the header to the message, to the method, and back. What a method does is in the
// files that methods.c names.
#include "frontend/grpc/call/call.h"

#include "base/checked.h"
#include "base/clock.h"
#include "frontend/common/observe/frontend_log.h"
#include "frontend/grpc/call/access.h"
#include "frontend/grpc/call/access_note.h"
#include "frontend/grpc/call/call_life.h"
#include "frontend/grpc/call/server.h"
#include "frontend/grpc/service/infer.h"
#include "frontend/grpc/transport/connection.h"
#include "frontend/grpc/transport/loop.h"
#include "frontend/grpc/transport/session.h"
#include "frontend/grpc/transport/timeout.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELD_OVERHEAD   32   // that HPACK counts for each field
#define FAILURE_BYTES    1024 // longer texts are cut
#define FIRST_METADATA   16
#define PACK_LEAST_BYTES 64 // shorter replies are not worth packing

static const int zlib_levels[] = {0, 1, 6, 9}; // by grpc_server_options.compression_level

// ---- life ----

call *call_open(grpc_connection *connection, int32_t stream_id)
{
  call *c = malloc(sizeof(*c));
  if (c == NULL)
    return NULL;
  memset(c, 0, offsetof(call, arena));
  arena_init(&c->arena, c->arena_memory, sizeof(c->arena_memory));
  refcount_init(&c->references);
  c->server = connection->server;
  c->loop = connection->loop;
  c->connection = connection;
  c->kept_connection = connection;
  c->stream_id = stream_id;
  c->began_ns = grpc_loop_now_ns(c->loop);
  c->reader.budget = &c->server->budget;
  grpc_connection_ref(connection);
  atomic_fetch_add_explicit(&connection->alive, 1, memory_order_relaxed);
  grpc_server_call_began(c->server);
  c->next = connection->calls;
  if (c->next != NULL)
    c->next->previous = c;
  connection->calls = c;
  connection->call_count++;
  connection->used++;
  grpc_connection_call_opened(connection);
  grpc_loop_request_began(c->loop);
  return c;
}

void call_ref(call *c)
{
  refcount_take(&c->references);
}

// Of the queue, and of all queues of the connection.
static void count_added(call *c, size_t bytes)
{
  c->outgoing_bytes += bytes;
  c->kept_connection->unsent += bytes;
}

static void count_removed(call *c, size_t bytes)
{
  c->outgoing_bytes -= bytes;
  c->kept_connection->unsent -= bytes;
}

// Messages of which nothing is on its way yet.
static void drop_unsent(call *c)
{
  outgoing *kept =
      c->first_outgoing != NULL && c->first_outgoing->taken > 0 ? c->first_outgoing : NULL;
  outgoing *o = kept != NULL ? kept->next : c->first_outgoing;
  while (o != NULL) {
    outgoing *next = o->next;
    count_removed(c, o->size);
    c->outgoing_count--;
    outgoing_unref(o);
    o = next;
  }
  c->first_outgoing = c->last_outgoing = kept;
  if (kept != NULL)
    kept->next = NULL;
}

static void drop_outgoing(call *c)
{
  outgoing *next;
  for (outgoing *o = c->first_outgoing; o != NULL; o = next) {
    next = o->next;
    outgoing_unref(o);
  }
  c->first_outgoing = c->last_outgoing = NULL;
  c->outgoing_count = 0;
  count_removed(c, c->outgoing_bytes);
}

void call_unref(call *c)
{
  if (!refcount_drop(&c->references))
    return;
  grpc_server *g = c->server;
  message_reader_fini(&c->reader);
  message_free(c->message);
  buffer_fini(&c->held);
  infer_stream_free(c->stream);
  if (c->reply != NULL)
    outgoing_unref(c->reply);
  atomic_fetch_sub_explicit(&c->kept_connection->alive, 1, memory_order_relaxed);
  grpc_connection_unref(c->kept_connection);
  arena_fini(&c->arena);
  free(c);
  grpc_server_call_ended(g);
}

// What a paused call was sent and did not read: the connection's window is not to shrink by it.
static void drop_held(call *c)
{
  if (c->held_window > 0)
    http2.session_consume_connection(c->kept_connection->session, c->held_window);
  c->held_window = 0;
  c->held_read = 0;
  buffer_fini(&c->held);
}

void call_close(call *c)
{
  grpc_connection *connection = c->connection;
  http2.session_set_stream_user_data(connection->session, c->stream_id, NULL);
  if (c->previous != NULL)
    c->previous->next = c->next;
  else
    connection->calls = c->next;
  if (c->next != NULL)
    c->next->previous = c->previous;
  connection->call_count--;
  c->connection = NULL;
  conn_timer_cancel(grpc_loop_timers(c->loop), &c->deadline);
  bool unheard = !c->ended || c->outgoing_bytes > 0;
  if (!c->ended)
    c->end_status = GRPC_CANCELLED;
  grpc_access_call(c);
  c->ended = true;
  drop_outgoing(c);
  drop_held(c);
  if (unheard && c->cancelled != NULL)
    c->cancelled(c);
  grpc_drop_answered(c);
  call_unref(c);
}

// ---- the header ----

static bool copy_slice(arena *a, slice from, slice *to)
{
  char *copy = arena_copy_text(a, from);
  *to = (slice){copy, from.size};
  return copy != NULL;
}

// "application/grpc", "application/grpc+proto"; "application/grpc-web" has other messages.
static bool is_grpc(slice content_type)
{
  const slice name = SLICE("application/grpc");
  return content_type.size >= name.size && memcmp(content_type.data, name.data, name.size) == 0 &&
         (content_type.size == name.size || content_type.data[name.size] == '+' ||
          content_type.data[name.size] == ';');
}

static bool take_coding(call *c, slice value)
{
  c->coding = message_coding_of(value);
  return c->coding != MESSAGE_UNKNOWN || copy_slice(&c->arena, value, &c->odd_coding);
}

// Fields that steer the call; false for those that are the client's own.
static bool take_known(call *c, slice name, slice value)
{
  if (slice_equal(name, SLICE(":path")))
    c->refused |= !copy_slice(&c->arena, value, &c->path);
  else if (slice_equal(name, SLICE(":method")))
    c->is_post = slice_equal(value, SLICE("POST"));
  else if (slice_equal(name, SLICE(":authority")))
    c->refused |= !copy_slice(&c->arena, value, &c->authority);
  else if (slice_equal(name, SLICE("content-type")))
    c->is_grpc = is_grpc(value);
  else if (slice_equal(name, SLICE("grpc-timeout")))
    c->deadline_ns = timeout_deadline(value, grpc_loop_now_ns(c->loop));
  else if (slice_equal(name, SLICE("grpc-encoding")))
    c->refused |= !take_coding(c, value);
  else if (slice_equal(name, SLICE("grpc-accept-encoding")))
    c->reply_coding = message_coding_is_listed(value, MESSAGE_GZIP)      ? MESSAGE_GZIP
                      : message_coding_is_listed(value, MESSAGE_DEFLATE) ? MESSAGE_DEFLATE
                                                                         : MESSAGE_IDENTITY;
  else
    return slice_equal(name, SLICE("te")) || (name.size > 0 && name.data[0] == ':');
  return true;
}

void call_take_header(call *c, slice name, slice value)
{
  c->metadata_bytes += name.size + value.size + FIELD_OVERHEAD;
  if (c->metadata_bytes > CONNECTION_HEADER_BYTES || take_known(c, name, value))
    return;
  metadata *fields =
      c->metadata_count == 0 ? arena_allocate_array(&c->arena, FIRST_METADATA, sizeof(metadata))
      : c->metadata_count < FIRST_METADATA
          ? c->metadata
          : arena_grow_array(&c->arena, c->metadata, c->metadata_count, sizeof(metadata));
  if (fields == NULL) {
    c->refused = true;
    return;
  }
  c->metadata = fields;
  metadata *added = &fields[c->metadata_count];
  if (copy_slice(&c->arena, name, &added->name) && copy_slice(&c->arena, value, &added->value))
    c->metadata_count++;
  else
    c->refused = true;
}

slice call_metadata(const call *c, const char *name)
{
  for (size_t i = 0; i < c->metadata_count; i++)
    if (slice_equal_text(c->metadata[i].name, name))
      return c->metadata[i].value;
  return (slice){NULL, 0};
}

static void deadline_passed(conn_timer *elapsed)
{
  call *c = container_of(elapsed, call, deadline);
  call_end_early(c, GRPC_DEADLINE_EXCEEDED, "Deadline Exceeded");
}

// A reply that a job made while its call ended otherwise is nobody's: it refers to the call.
static void settle(call *c)
{
  if (c->in_job || !c->finished)
    return;
  if (!c->ended)
    call_end(c);
  if (c->reply != NULL)
    outgoing_unref(c->reply);
  c->reply = NULL;
}

// True when the call cannot be: it has failed then, and the text says why.
static bool is_refused(call *c)
{
  if (c->refused)
    call_fail(c, GRPC_RESOURCE_EXHAUSTED, "out of memory");
  else if (c->metadata_bytes > CONNECTION_HEADER_BYTES)
    call_fail(c, GRPC_RESOURCE_EXHAUSTED, "received metadata of %zu bytes, at most %u are taken",
              c->metadata_bytes, CONNECTION_HEADER_BYTES);
  else if (c->coding == MESSAGE_UNKNOWN)
    call_fail(c, GRPC_UNIMPLEMENTED,
              "grpc-encoding '%.*s' is not supported, expected identity, deflate or gzip",
              (int)(c->odd_coding.size < 256 ? c->odd_coding.size : 256), c->odd_coding.data);
  else if (c->method == NULL)
    call_fail(c, GRPC_UNIMPLEMENTED, "unknown method '%.*s'",
              (int)(c->path.size < 256 ? c->path.size : 256), c->path.data);
  else
    grpc_access_admit(c);
  return c->finished;
}

void call_begin(call *c)
{
  c->is_foreign = !c->is_post || !c->is_grpc;
  if (c->is_foreign) { // it is told so when it has said everything
    c->finished = true;
    return;
  }
  c->method = methods_find(c->path);
  if (is_refused(c)) {
    settle(c);
    return;
  }
  c->deadline.fire = deadline_passed;
  if (c->deadline_ns != 0)
    conn_timer_set(grpc_loop_timers(c->loop), &c->deadline, c->deadline_ns);
  if (c->server->options.compression_level == 0)
    c->reply_coding = MESSAGE_IDENTITY;
  if (c->method->streams) {
    c->method->handle(c);
    settle(c);
  }
}

// ---- messages ----

static void fail_message(call *c, message_fault fault)
{
  switch (fault) {
  case MESSAGE_TOO_LARGE:
    call_end_early(c, GRPC_RESOURCE_EXHAUSTED,
                   "Received message larger than max (2147483647 bytes)");
    break;
  case MESSAGE_OVER_BUDGET:
    call_end_early(c, GRPC_RESOURCE_EXHAUSTED, BUDGET_REQUESTS_FULL);
    break;
  case MESSAGE_NO_MEMORY:
    call_end_early(c, GRPC_RESOURCE_EXHAUSTED, "out of memory for a message");
    break;
  case MESSAGE_BOMB:
    call_end_early(c, GRPC_RESOURCE_EXHAUSTED,
                   "a message unpacks to more than 64 MiB and more than 32 times its size");
    break;
  case MESSAGE_BAD_FLAG:
    call_end_early(c, GRPC_INTERNAL, "a message's compression flag is neither 0 nor 1");
    break;
  case MESSAGE_NO_CODING:
    call_end_early(c, GRPC_INTERNAL, "a message is compressed, but there is no grpc-encoding");
    break;
  default:
    call_end_early(c, GRPC_INTERNAL, "a message is not what its grpc-encoding says");
  }
}

static void take_message(call *c, message *complete_owned)
{
  c->bytes_in += complete_owned->size;
  if (c->method->streams && c->take_message != NULL) {
    c->take_message(c, complete_owned);
  } else if (c->message == NULL) {
    c->message = complete_owned;
  } else {
    message_free(complete_owned);
    call_end_early(c, GRPC_INTERNAL, "a unary call has more than one message");
  }
}

static void unpack(call *c)
{
  c->unpack_fault = message_reader_unpack(&c->reader, &c->unpacked);
}

static void unpacked(call *c)
{
  message *complete = c->unpacked;
  c->unpacked = NULL;
  if (complete == NULL)
    fail_message(c, c->unpack_fault);
  else if (c->ended)
    message_free(complete);
  else
    take_message(c, complete);
}

// Takes messages until there are no more bytes, or the method wants no more now. Returns how many
// bytes are left.
static size_t parse(call *c, const char *data, size_t size)
{
  while (size > 0 && !c->is_foreign && !c->ended && !c->dispatched && !c->paused) {
    size_t taken;
    message *complete;
    bool between = c->reader.current == NULL;
    message_fault fault = message_reader_take(&c->reader, c->coding, data, size, &taken, &complete);
    if (between && c->reader.current != NULL && c->connection != NULL) {
      session_widen(c, c->reader.current->size);
      grpc_connection_call_receives(c->connection);
      grpc_loop_note_large(c->loop);
    }
    data += taken;
    size -= taken;
    if (complete != NULL || message_reader_is_unpacking(&c->reader))
      c->late = drain_has_begun(&c->server->drain);
    if (complete != NULL)
      take_message(c, complete);
    if (fault != MESSAGE_OK)
      fail_message(c, fault);
    else if (message_reader_is_unpacking(&c->reader))
      call_run_work(c, unpack, unpacked);
  }
  return c->paused && !c->ended ? size : 0;
}

bool call_take_data(call *c, const char *data, size_t size)
{
  c->moved_ns = grpc_loop_now_ns(c->loop);
  size_t left = c->held.size > 0 && !c->ended ? size : parse(c, data, size);
  if (left == 0)
    return true;
  buffer_append(&c->held, data + size - left, left);
  if (c->held.failed)
    call_end_early(c, GRPC_RESOURCE_EXHAUSTED, "out of memory");
  // The whole piece counts as not taken: it is, when what is held of it has been.
  c->held_window += size;
  return false;
}

void call_pause(call *c)
{
  c->paused = true;
}

bool call_is_receiving(const call *c)
{
  return !c->paused && !c->ended && message_reader_is_inside(&c->reader);
}

bool call_is_paused(const call *c)
{
  return c->paused;
}

// The rest moves to the front when it is the smaller part: one message may be all that was read.
static void keep_unread(call *c, size_t left)
{
  c->held_read = c->held.size - left;
  if (c->held_read < left)
    return;
  memmove(c->held.data, c->held.data + c->held_read, left);
  c->held.size = left;
  c->held_read = 0;
}

void call_resume(call *c)
{
  if (c->working)
    return;
  c->paused = false;
  c->moved_ns = grpc_loop_now_ns(c->loop); // it is not the client that did not go on
  size_t unread = c->held.size - c->held_read;
  size_t left = unread == 0 ? 0 : parse(c, c->held.data + c->held_read, unread);
  if (left > 0) {
    keep_unread(c, left);
    return;
  }
  c->held_read = 0;
  buffer_fini(&c->held);
  if (c->connection != NULL && c->held_window > 0) {
    http2.session_consume(c->connection->session, c->stream_id, c->held_window);
    grpc_loop_mark(c->loop, c->connection);
  }
  c->held_window = 0;
  if (c->half_closed)
    call_half_close(c);
}

// The last message may be complete with nothing in it, which call_take_data does not get to see.
void call_half_close(call *c)
{
  c->half_closed = true;
  if (c->is_foreign)
    settle(c);
  if (c->ended || c->dispatched || c->paused)
    return;
  if (message_reader_is_inside(&c->reader)) {
    call_end_early(c, GRPC_INTERNAL, "the client's last message is not complete");
    return;
  }
  if (c->method->streams) {
    if (c->half_close != NULL)
      c->half_close(c);
  } else if (c->message == NULL) {
    call_end_early(c, GRPC_INTERNAL, "a unary call has no message");
    return;
  } else {
    c->dispatched = true;
    c->method->handle(c);
  }
  settle(c);
}

slice call_request(const call *c)
{
  return (slice){c->message->data, c->message->size};
}

// ---- replies ----

// Replies that a client leaves unread count for the budget; large tensors do so already.
static bool reserve(const call *c, outgoing *o)
{
  if (c->connection->unsent < BUDGET_LEAST_BYTES)
    return true;
  size_t bytes = OUTGOING_COST_BYTES + (o->size < BUDGET_LEAST_BYTES ? o->size : 0);
  if (!budget_take_work(&c->server->budget, bytes))
    return false;
  o->reserved = bytes;
  return true;
}

void call_queue(call *c, outgoing *message_owned)
{
  if (c->ended || c->connection == NULL) {
    outgoing_unref(message_owned);
    return;
  }
  if (!reserve(c, message_owned)) {
    outgoing_unref(message_owned);
    call_end_early(c, GRPC_RESOURCE_EXHAUSTED, BUDGET_ANSWERS_FULL);
    return;
  }
  message_owned->next = NULL;
  if (c->last_outgoing == NULL)
    c->first_outgoing = message_owned;
  else
    c->last_outgoing->next = message_owned;
  c->last_outgoing = message_owned;
  c->outgoing_count++;
  c->connection->used++;
  count_added(c, message_owned->size);
  c->bytes_out += message_owned->size - MESSAGE_PREFIX_BYTES;
  if (c->replied)
    session_resume(c);
  else if (!session_submit_header(c))
    session_reset(c, NGHTTP2_INTERNAL_ERROR);
  c->replied = true;
  grpc_loop_mark(c->loop, c->connection);
}

// Takes `size` bytes off the front of the queue's first message.
static bool give_part(outgoing *o, output *to, size_t size)
{
  bool done = true;
  o->taken += size;
  while (size > 0 && done) {
    slice part = o->parts[o->part];
    size_t left = part.size - o->part_taken;
    size_t step = size < left ? size : left;
    done = output_refer(to, part.data + o->part_taken, step, o);
    o->part_taken += step;
    size -= step;
    if (o->part_taken == part.size) {
      o->part++;
      o->part_taken = 0;
    }
  }
  return done;
}

bool call_give_data(call *c, output *to, size_t size)
{
  bool done = true;
  count_removed(c, size);
  while (done && c->first_outgoing != NULL) {
    outgoing *o = c->first_outgoing;
    size_t left = o->size - o->taken;
    size_t step = size < left ? size : left;
    done = give_part(o, to, step);
    size -= step;
    if (o->taken < o->size)
      break;
    c->first_outgoing = o->next;
    if (c->first_outgoing == NULL)
      c->last_outgoing = NULL;
    c->outgoing_count--;
    outgoing_unref(o);
  }
  if (c->paused) // there may be room for answers again
    grpc_loop_wake_call(c->loop, c);
  return done && size == 0;
}

// Gives the status to HTTP/2, behind what is queued.
static void submit_end(call *c, grpc_status status, const char *failure)
{
  if (c->ended || c->connection == NULL)
    return;
  c->ended = true;
  c->end_status = status;
  c->end_failure = failure;
  conn_timer_cancel(grpc_loop_timers(c->loop), &c->deadline);
  if (c->replied)
    session_resume(c);
  else if (!session_submit_status_only(c))
    session_reset(c, NGHTTP2_INTERNAL_ERROR);
  grpc_loop_mark(c->loop, c->connection);
}

void call_end(call *c)
{
  if (c->reply != NULL && c->status == GRPC_OK) {
    outgoing *reply = c->reply;
    c->reply = NULL;
    call_queue(c, reply);
  }
  submit_end(c, c->status, c->failure);
}

void call_end_early(call *c, grpc_status status, const char *text)
{
  if (c->ended)
    return;
  drop_unsent(c);
  submit_end(c, status, text);
  if (c->cancelled != NULL)
    c->cancelled(c);
}

// ---- for handlers ----

void call_fail(call *c, grpc_status status, const char *format, ...)
{
  char text[FAILURE_BYTES];
  if (c->finished)
    return;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  c->finished = true;
  c->status = status;
  slice whole = slice_of(text);
  size_t most;
  char *escaped =
      checked_array_size(1, whole.size, 3, &most) ? arena_allocate(&c->arena, most) : NULL;
  if (escaped != NULL)
    escaped[grpc_status_escape(whole, escaped)] = '\0';
  c->failure = escaped;
}

bool call_fail_if(call *c, TRITONSERVER_Error *failure_owned)
{
  if (failure_owned == NULL)
    return false;
  call_fail(c, grpc_status_of(TRITONSERVER_ErrorCode(failure_owned)), "%s",
            TRITONSERVER_ErrorMessage(failure_owned));
  TRITONSERVER_ErrorDelete(failure_owned);
  return true;
}

bool call_fail_if_error(call *c, error *failure_owned)
{
  if (failure_owned == NULL)
    return false;
  call_fail(c, grpc_status_of((TRITONSERVER_Error_Code)error_get_code(failure_owned)), "%s",
            error_message(failure_owned));
  error_free(failure_owned);
  return true;
}

// Packs the parts into one. False when memory is short.
static bool pack(call *c, const slice *parts, size_t count, buffer *packed)
{
  return message_deflate(c->reply_coding, zlib_levels[c->server->options.compression_level], parts,
                         count, packed);
}

// A packed reply needs nothing of what it was made of.
static outgoing *make_packed(call *c, const slice *parts, size_t count)
{
  AUTO_BUFFER buffer packed = BUFFER_EMPTY;
  if (!pack(c, parts, count, &packed))
    return NULL;
  slice whole = buffer_view(&packed);
  return outgoing_new(c, &whole, 1, &packed, NULL, NULL, true);
}

outgoing *call_make_outgoing(call *c, const slice *parts, size_t count, buffer *text_owned,
                             TRITONSERVER_InferenceResponse *response_owned, arena *memory_owned)
{
  size_t size = 0;
  for (size_t i = 0; i < count; i++)
    size += parts[i].size;
  bool packs = c->reply_coding != MESSAGE_IDENTITY && size >= PACK_LEAST_BYTES;
  outgoing *made =
      packs ? make_packed(c, parts, count)
            : outgoing_new(c, parts, count, text_owned, response_owned, memory_owned, false);
  if (made != NULL && !packs)
    return made;
  buffer_fini(text_owned);
  if (memory_owned != NULL)
    arena_fini(memory_owned);
  if (response_owned != NULL)
    frontend_log_failure(NULL, "deleting a response",
                         TRITONSERVER_InferenceResponseDelete(response_owned));
  return made;
}

void call_reply_message(call *c, const ProtobufCMessage *reply)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  size_t size = protobuf_c_message_get_packed_size(reply);
  char *to = buffer_reserve(&text, size + 1);
  if (c->finished)
    return;
  if (to != NULL)
    text.size = protobuf_c_message_pack(reply, (uint8_t *)to);
  slice whole = buffer_view(&text);
  c->reply = to == NULL ? NULL : call_make_outgoing(c, &whole, 1, &text, NULL, NULL);
  if (c->reply == NULL)
    call_fail(c, GRPC_RESOURCE_EXHAUSTED, "out of memory for a reply");
  c->finished = true;
}

// ---- jobs ----

static void run_queued(job *queued)
{
  call *c = (call *)((char *)queued - offsetof(call, queued));
  c->job(c);
  grpc_loop_wake_call(c->loop, c);
  call_unref(c);
}

static void job_is_done(call *c)
{
  c->in_job = false;
  grpc_loop_took_back(c->loop);
  settle(c);
}

void call_run_job(call *c, jobs *pool, void (*job)(call *c))
{
  c->job = job;
  c->woken = job_is_done;
  c->queued.run = run_queued;
  c->in_job = true;
  call_ref(c);
  grpc_loop_handed_over(c->loop);
  error *failure = jobs_submit(pool, JOB_BEGINS, &c->queued);
  if (failure == NULL)
    return;
  c->in_job = false;
  grpc_loop_took_back(c->loop);
  call_unref(c);
  call_fail_if_error(c, failure);
}

// ---- work on messages ----

static void run_work(job *queued)
{
  call *c = (call *)((char *)queued - offsetof(call, queued));
  c->job(c);
  atomic_store(&c->worked, true);
  grpc_loop_wake_call(c->loop, c);
  call_unref(c);
}

// A call has at most one job: nothing is dispatched while a worker has a message.
void call_run_work(call *c, void (*work)(call *c), void (*done)(call *c))
{
  c->working = true;
  c->job = work;
  c->work_done = done;
  c->queued.run = run_work;
  call_pause(c);
  call_ref(c);
  grpc_loop_handed_over(c->loop);
  error *failure = jobs_submit(c->server->workers, JOB_BEGINS, &c->queued);
  if (failure == NULL)
    return;
  error_free(failure); // there is no other thread than this
  run_work(&c->queued);
}

static void end_work(call *c)
{
  c->working = false;
  c->paused = false;
  atomic_store(&c->worked, false);
  grpc_loop_took_back(c->loop);
  c->work_done(c);
  settle(c);
  if (!c->paused)
    call_resume(c);
}

void call_woken(call *c)
{
  void (*woken)(call * c) = c->woken; // not what the end of the work sets: nobody can wake that yet
  if (c->working && atomic_load(&c->worked))
    end_work(c);
  if (woken != NULL)
    woken(c);
}

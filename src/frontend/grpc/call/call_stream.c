// SPDX-License-Identifier: Apache-2.0
// A call as its stream drives it, from the header to the method and to its end. service/methods.c
// names the methods. Loop thread.
#include "base/clock.h"
#include "frontend/common/observe/access_log.h"
#include "frontend/grpc/call/call_parts.h"
#include "frontend/grpc/call/call_server.h"
#include "frontend/grpc/call/grpc_access.h"
#include "frontend/grpc/transport/connection.h"
#include "frontend/grpc/transport/timeout.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define FIELD_OVERHEAD 32 // HPACK's count for each field

// ---- life ----

static grpc_stream *open_call(grpc_connection *connection, int32_t stream_id)
{
  if (!budget_share_take(&connection->share, CALL_COST_BYTES, budget_take_refusal))
    return NULL;
  call *c = malloc(sizeof(*c));
  if (c == NULL) {
    budget_share_give_back(&connection->share, CALL_COST_BYTES);
    return NULL;
  }
  memset(c, 0, offsetof(call, arena));
  arena_init(&c->arena, c->arena_memory, sizeof(c->arena_memory));
  refcount_init(&c->references);
  c->loop = connection->loop;
  c->server = c->loop->all->listener;
  c->kept_connection = connection;
  c->cost = CALL_COST_BYTES;
  c->stream.id = stream_id;
  c->began_ns = c->loop->now_ns;
  c->body.reader.budget = &c->server->budget;
  c->status = GRPC_UNDECIDED;
  list_init(&c->replies.unsent);
  grpc_connection_ref(connection);
  atomic_fetch_add_explicit(&connection->alive, 1, memory_order_relaxed);
  listener_ref(c->server);
  listener_busy(c->server);
  grpc_connection_add(connection, &c->stream);
  loop_core_request_began(&c->loop->core);
  return &c->stream;
}

static void write_access_line(call *c)
{
  access_log *log = c->server->options.access_log;
  if (log == NULL)
    return;
  access_record record = call_access_record(c, c->replies.status);
  if (c->describe != NULL)
    c->describe(c, &record);
  record.total_ns = clock_monotonic_ns() - c->began_ns;
  record.bytes_in = c->body.bytes;
  record.bytes_out = c->replies.bytes;
  access_log_write(log, &record);
}

static void close_call(grpc_stream *stream)
{
  call *c = call_of_stream(stream);
  grpc_connection_remove(stream);
  conn_timer_cancel(&c->loop->timers, &c->deadline);
  bool unheard = c->state != CALL_ENDED || c->replies.unsent_bytes > 0;
  if (c->state != CALL_ENDED) {
    c->replies.status = GRPC_CANCELLED;
    call_set_state(c, CALL_ENDED);
  }
  write_access_line(c);
  call_drop_replies(c);
  call_drop_held(c);
  call_cancel_job(c);
  if (unheard && c->cancelled != NULL)
    c->cancelled(c);
  if (c->closed != NULL)
    c->closed(c);
  call_unref(c);
}

// ---- the header ----

// Copies to the arena. False when memory is short: the call has failed.
static bool copy_field(call *c, slice from, slice *to)
{
  char *copy = arena_copy_text(&c->arena, from);
  *to = (slice){copy, copy == NULL ? 0 : from.size};
  if (copy == NULL)
    call_fail(c, GRPC_RESOURCE_EXHAUSTED, "out of memory");
  return copy != NULL;
}

// "application/grpc" or "application/grpc+proto", but not "application/grpc-web", whose messages
// differ.
static bool is_grpc(slice content_type)
{
  const slice name = SLICE("application/grpc");
  return content_type.size >= name.size && memcmp(content_type.data, name.data, name.size) == 0 &&
         (content_type.size == name.size || content_type.data[name.size] == '+' ||
          content_type.data[name.size] == ';');
}

static void take_coding(call *c, slice value)
{
  c->coding = message_coding_of(value);
  if (c->coding == CODING_UNKNOWN)
    copy_field(c, value, &c->odd_coding);
}

// Takes fields that steer the call; false for the client's own metadata.
static bool take_known(call *c, slice name, slice value)
{
  if (slice_equal(name, SLICE(":path")))
    copy_field(c, value, &c->path);
  else if (slice_equal(name, SLICE(":method")))
    c->is_post = slice_equal(value, SLICE("POST"));
  else if (slice_equal(name, SLICE(":authority")))
    copy_field(c, value, &c->authority);
  else if (slice_equal(name, SLICE("content-type")))
    c->is_grpc = is_grpc(value);
  else if (slice_equal(name, SLICE("grpc-timeout")))
    c->deadline_ns = timeout_deadline(value, c->loop->now_ns);
  else if (slice_equal(name, SLICE("grpc-encoding")))
    take_coding(c, value);
  else if (slice_equal(name, SLICE("grpc-accept-encoding")))
    c->reply_coding = message_coding_is_listed(value, CODING_GZIP)      ? CODING_GZIP
                      : message_coding_is_listed(value, CODING_DEFLATE) ? CODING_DEFLATE
                                                                        : CODING_IDENTITY;
  else
    return slice_equal(name, SLICE("te")) || (name.size > 0 && name.data[0] == ':');
  return true;
}

static void take_header(grpc_stream *s, slice name, slice value)
{
  call *c = call_of_stream(s);
  c->metadata_bytes += name.size + value.size + FIELD_OVERHEAD;
  if (c->metadata_bytes > CONNECTION_HEADER_BYTES || take_known(c, name, value))
    return;
  metadata *fields = arena_grow_array(&c->arena, c->metadata, c->metadata_count, sizeof(metadata));
  if (fields == NULL) {
    call_fail(c, GRPC_RESOURCE_EXHAUSTED, "out of memory");
    return;
  }
  c->metadata = fields;
  metadata *added = &fields[c->metadata_count];
  if (copy_field(c, name, &added->name) && copy_field(c, value, &added->value))
    c->metadata_count++;
}

static void deadline_passed(conn_timer *elapsed)
{
  call *c = container_of(elapsed, call, deadline);
  call_end_early(c, GRPC_DEADLINE_EXCEEDED, "Deadline Exceeded");
}

// True when the call is refused: it has failed with a text.
static bool is_refused(call *c)
{
  if (c->metadata_bytes > CONNECTION_HEADER_BYTES)
    call_fail(c, GRPC_RESOURCE_EXHAUSTED, "received metadata of %zu bytes, at most %u are taken",
              c->metadata_bytes, CONNECTION_HEADER_BYTES);
  else if (c->coding == CODING_UNKNOWN)
    call_fail(c, GRPC_UNIMPLEMENTED,
              "grpc-encoding '%.*s' is not supported, expected identity, deflate or gzip",
              (int)(c->odd_coding.size < 256 ? c->odd_coding.size : 256), c->odd_coding.data);
  else if (c->method == NULL)
    call_fail(c, GRPC_UNIMPLEMENTED, "unknown method '%.*s'",
              (int)(c->path.size < 256 ? c->path.size : 256), c->path.data);
  else
    grpc_access_admit(c);
  return c->status != GRPC_UNDECIDED;
}

static void begin(grpc_stream *s)
{
  call *c = call_of_stream(s);
  budget_share_take(&c->kept_connection->share, c->metadata_bytes, budget_take_anyway);
  c->cost += c->metadata_bytes;
  if (call_is_foreign(c)) { // the reply follows when the client has sent everything
    c->status = GRPC_OK;
    return;
  }
  c->method = grpc_server_of(c->server)->find_method(c->path);
  if (is_refused(c)) {
    call_settle(c);
    return;
  }
  c->body.reader.begins = c->method->message_begins;
  c->body.reader.begins_context = c;
  c->deadline.fire = deadline_passed;
  if (c->deadline_ns != 0)
    conn_timer_set(&c->loop->timers, &c->deadline, c->deadline_ns);
  if (c->server->options.compression_level == 0)
    c->reply_coding = CODING_IDENTITY;
  if (c->method->streams) {
    c->method->handle(c);
    call_settle(c);
  }
}
// ---- waking ----

static void end_job(call *c)
{
  call_take_back(c);
  c->body.paused = false;
  if (c->job.done != NULL)
    c->job.done(c);
  call_settle(c);
  if (!c->body.paused)
    call_resume(c);
}

static void woken(grpc_stream *s)
{
  call *c = call_of_stream(s);
  void (*then)(call * c) = c->woken; // before end_job, which may set another that nobody can have
                                     // woken yet
  atomic_store(&c->wanted, false);
  if (atomic_load(&c->job.state) == CALL_JOB_DONE)
    end_job(c);
  if (then != NULL)
    then(c);
  call_unref(c);
}

const stream_handlers call_stream_handlers = {
    .open = open_call,
    .take_header = take_header,
    .begin = begin,
    .take_data = call_take_data,
    .half_close = call_half_close,
    .give_data = call_give_data,
    .check = call_check,
    .woken = woken,
    .close = close_call,
};

// SPDX-License-Identifier: Apache-2.0
// A call's request messages: assembled from HTTP/2's data, held while the method is busy, and given
// to it. Loop thread; a worker unpacks long ones.
#include "frontend/grpc/call/call_parts.h"
#include "frontend/grpc/transport/connection.h"
#include "frontend/grpc/transport/loop.h"

#include <assert.h>
#include <string.h>

static void fail_message(call *c, message_fault fault)
{
  static const struct {
    grpc_status status;
    const char *text;
  } ends[] = {
      [MESSAGE_TOO_LARGE] = {GRPC_RESOURCE_EXHAUSTED,
                             "Received message larger than max (2147483647 bytes)"},
      [MESSAGE_OVER_BUDGET] = {GRPC_RESOURCE_EXHAUSTED, BUDGET_REQUESTS_FULL},
      [MESSAGE_NO_MEMORY] = {GRPC_RESOURCE_EXHAUSTED, "out of memory for a message"},
      [MESSAGE_BOMB] = {GRPC_RESOURCE_EXHAUSTED,
                        "a message unpacks to more than 64 MiB and more than 32 times its size"},
      [MESSAGE_BAD_FLAG] = {GRPC_INTERNAL, "a message's compression flag is neither 0 nor 1"},
      [MESSAGE_NO_CODING] = {GRPC_INTERNAL,
                             "a message is compressed, but there is no grpc-encoding"},
      [MESSAGE_CORRUPT] = {GRPC_INTERNAL, "a message is not what its grpc-encoding says"},
  };
  call_end_early(c, ends[fault].status, ends[fault].text);
}

// Counts a short message that has begun and may never end. False: the budget is full.
static bool count_part(call *c, size_t size)
{
  size_t cost = message_share(size);
  if (!budget_share_take(&c->kept_connection->share, cost, budget_take_input))
    return false;
  c->body.part_cost = cost;
  return true;
}

static void take_message(call *c, grpc_message *complete_owned)
{
  c->body.bytes += complete_owned->size;
  budget_share_give_back(&c->kept_connection->share, c->body.part_cost);
  c->body.part_cost = 0; // an inference counts its message itself
  if (c->method->streams && c->take_message != NULL) {
    c->take_message(c, complete_owned);
  } else if (c->body.message == NULL) {
    budget_share_take(&c->kept_connection->share, message_share(complete_owned->size),
                      budget_take_anyway);
    c->cost += message_share(complete_owned->size);
    c->body.message = complete_owned;
  } else {
    grpc_message_free(complete_owned);
    call_end_early(c, GRPC_INTERNAL, "a unary call has more than one message");
  }
}

static void unpack(call *c)
{
  c->body.fault = message_reader_unpack(&c->body.reader, &c->body.unpacked);
}

static void unpacked(call *c)
{
  grpc_message *complete = c->body.unpacked;
  c->body.unpacked = NULL;
  if (complete == NULL)
    fail_message(c, c->body.fault);
  else if (call_is_ended(c))
    grpc_message_free(complete);
  else
    take_message(c, complete);
}

// Widens the stream's window to the message's size, at most to the connection's window, so that the
// client need not wait for window updates.
static void widen(call *c, size_t size)
{
  size_t window = size < CONNECTION_BYTES ? size : CONNECTION_BYTES;
  if (window > CONNECTION_STREAM_BYTES)
    nghttp2_session_set_local_window_size(c->stream.connection->session, NGHTTP2_FLAG_NONE,
                                          c->stream.id, (int32_t)window);
}

// Takes messages until no bytes are left or the call is paused. Returns how many bytes are left.
static size_t parse(call *c, const char *data, size_t size)
{
  while (size > 0 && c->state == CALL_RECEIVING && !c->body.paused && !call_is_foreign(c)) {
    size_t taken;
    grpc_message *complete;
    bool between = c->body.reader.current == NULL;
    message_fault fault =
        message_reader_take(&c->body.reader, c->coding, data, size, &taken, &complete);
    if (between && c->body.reader.current != NULL) {
      widen(c, c->body.reader.current->max_size);
      grpc_connection_stream_receives(c->stream.connection);
      grpc_loop_record_large(c->loop);
      if (!count_part(c, c->body.reader.current->max_size))
        fault = MESSAGE_OVER_BUDGET;
    }
    data += taken;
    size -= taken;
    if (complete != NULL || message_reader_is_unpacking(&c->body.reader))
      c->body.late = drain_has_begun(&c->server->drain);
    if (complete != NULL)
      take_message(c, complete);
    if (fault != MESSAGE_OK)
      fail_message(c, fault);
    else if (message_reader_is_unpacking(&c->body.reader))
      call_run_work(c, JOB_COMPUTES, unpack, unpacked);
  }
  return c->body.paused && !call_is_ended(c) ? size : 0;
}

bool call_take_data(grpc_stream *s, const char *data, size_t size)
{
  call *c = call_of_stream(s);
  c->body.moved_ns = c->loop->now_ns;
  size_t left = c->body.held.size > 0 && !call_is_ended(c) ? size : parse(c, data, size);
  if (left == 0)
    return true;
  if (!budget_share_take(&c->kept_connection->share, left, budget_take_input)) {
    call_end_early(c, GRPC_RESOURCE_EXHAUSTED, BUDGET_REQUESTS_FULL);
    return true;
  }
  c->body.held_cost += left;
  buffer_append(&c->body.held, data + size - left, left);
  if (c->body.held.failed)
    call_end_early(c, GRPC_RESOURCE_EXHAUSTED, "out of memory");
  // The window lacks the whole piece until its held part is taken.
  c->body.held_window += size;
  return false;
}

void call_pause(call *c)
{
  c->body.paused = true;
}

uint64_t call_check(grpc_stream *s, uint64_t now_ns)
{
  call *c = call_of_stream(s);
  if (c->body.paused || call_is_ended(c) || !message_reader_is_inside(&c->body.reader))
    return UINT64_MAX;
  uint64_t end_ns = connection_due(c->body.moved_ns, c->server->options.body_timeout_ms);
  if (now_ns < end_ns)
    return end_ns;
  call_end_early(c, GRPC_DEADLINE_EXCEEDED, "the request's message does not come on");
  return UINT64_MAX;
}

static void free_held(call *c)
{
  budget_share_give_back(&c->kept_connection->share, c->body.held_cost);
  c->body.held_cost = 0;
  c->body.held_read = 0;
  buffer_fini(&c->body.held);
}

void call_drop_held(call *c)
{
  if (c->body.held_window > 0)
    nghttp2_session_consume_connection(c->kept_connection->session, c->body.held_window);
  c->body.held_window = 0;
  free_held(c);
}

// Moves the unread bytes to the front once they are the smaller part, so that many short messages
// do not copy them again and again.
static void keep_unread(call *c, size_t left)
{
  c->body.held_read = c->body.held.size - left;
  if (c->body.held_read < left)
    return;
  memmove(c->body.held.data, c->body.held.data + c->body.held_read, left);
  c->body.held.size = left;
  c->body.held_read = 0;
}

void call_resume(call *c)
{
  if (atomic_load(&c->job.state) != CALL_JOB_NONE)
    return;
  c->body.paused = false;
  c->body.moved_ns = c->loop->now_ns; // the pause was not the client's
  size_t unread = c->body.held.size - c->body.held_read;
  size_t left = unread == 0 ? 0 : parse(c, c->body.held.data + c->body.held_read, unread);
  if (left > 0) {
    keep_unread(c, left);
    return;
  }
  free_held(c);
  if (c->stream.connection != NULL && c->body.held_window > 0) {
    nghttp2_session_consume(c->stream.connection->session, c->stream.id, c->body.held_window);
    grpc_loop_mark(c->loop, c->stream.connection);
  }
  c->body.held_window = 0;
  if (c->stream.half_closed)
    call_half_close(&c->stream);
}

// The last message may be empty, which call_take_data does not see.
void call_half_close(grpc_stream *s)
{
  call *c = call_of_stream(s);
  c->stream.half_closed = true;
  if (call_is_foreign(c))
    call_settle(c);
  if (c->state != CALL_RECEIVING || c->body.paused)
    return;
  if (message_reader_is_inside(&c->body.reader)) {
    call_end_early(c, GRPC_INTERNAL, "the client's last message is not complete");
    return;
  }
  if (c->method->streams) {
    if (c->half_close != NULL)
      c->half_close(c);
  } else if (c->body.message == NULL) {
    call_end_early(c, GRPC_INTERNAL, "a unary call has no message");
    return;
  } else {
    call_set_state(c, CALL_DISPATCHED);
    c->method->handle(c);
  }
  call_settle(c);
}

slice call_request(const call *c)
{
  return (slice){c->body.message->data, c->body.message->size};
}

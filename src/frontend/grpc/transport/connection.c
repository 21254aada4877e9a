// SPDX-License-Identifier: Apache-2.0
// A connection between its socket and its HTTP/2 session.
#include "frontend/grpc/transport/connection.h"

#include "frontend/common/net/peer.h"
#include "frontend/common/observe/frontend_log.h"
#include "frontend/grpc/transport/loop.h"
#include "frontend/grpc/transport/session.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NS_PER_MS      UINT64_C(1000000)
#define LEAVE_NS       UINT64_C(1000000000)  // for calls on their way when the client must leave
#define RETIRE_NS      UINT64_C(10000000000) // the same after an upgrade
#define YOUNG_NS       UINT64_C(1000000000)  // for the first call of who has just connected
#define READS_AT_ONCE  16                    // then other connections have their turn
#define WRITES_AT_ONCE 16 // the same: a client that takes all at once may get a large reply

static const uint8_t goodbye[8] = "goodbye";

// ---- life ----

void grpc_connection_ref(grpc_connection *c)
{
  refcount_take(&c->references);
}

void grpc_connection_unref(grpc_connection *c)
{
  if (!refcount_drop(&c->references))
    return;
  assert(atomic_load(&c->share.held) == 0);
  grpc_loop_freed(c->loop);
  free(c);
}

static void look_after(conn_timer *elapsed);

grpc_connection *grpc_connection_open(grpc_loop *l, int socket_fd,
                                      const struct sockaddr_storage *address)
{
  grpc_connection *c = calloc(1, sizeof(*c));
  if (c == NULL) {
    close(socket_fd);
    return NULL;
  }
  refcount_init(&c->references);
  list_init(&c->streams);
  c->loop = l;
  c->share.budget = &l->all->listener->budget;
  c->timer.fire = look_after;
  c->began_ns = c->heard_ns = c->moved_ns = l->now_ns;
  c->is_local = peer_is_local((const struct sockaddr *)address);
  c->is_unix = address->ss_family == AF_UNIX;
  peer_print((const struct sockaddr *)address, c->peer, sizeof(c->peer));
  if (conn_wire_init(&c->wire, socket_fd, c->loop->all->tls) && session_begin(c)) {
    conn_timer_set(&l->timers, &c->timer, c->began_ns); // run in this pass, when the loop knows the
                                                        // connection
    return c;
  }
  nghttp2_session_del(c->session);
  conn_wire_fini(&c->wire);
  free(c);
  return NULL;
}

static void close_streams(grpc_connection *c)
{
  while (!list_is_empty(&c->streams))
    c->loop->all->handlers->close(container_of(list_first(&c->streams), grpc_stream, node));
  assert(c->stream_count == 0);
}

// Counts the bytes copied for the socket. Parts that are not copied count with their reply.
static void count_output(grpc_connection *c)
{
  const size_t size = c->output.text.size - c->output.text_sent;
  if (size > c->output_counted)
    budget_share_take(&c->share, size - c->output_counted, budget_take_anyway);
  else
    budget_share_give_back(&c->share, c->output_counted - size);
  c->output_counted = size;
}

void grpc_connection_close(grpc_connection *c)
{
  if (connection_is_closed(c))
    return;
  connection_set_state(c, CONNECTION_CLOSED);
  conn_timer_cancel(&c->loop->timers, &c->timer);
  close_streams(c);
  nghttp2_session_del(c->session);
  c->session = NULL;
  output_fini(&c->output);
  count_output(c);
  grpc_loop_forget(c->loop, c);
  conn_wire_fini(&c->wire);
}

// ---- time ----

static void wake_at(grpc_connection *c, uint64_t due_ns)
{
  if (!conn_timer_is_set(&c->timer) || due_ns < c->timer.node.when_ns)
    conn_timer_set(&c->loop->timers, &c->timer, due_ns);
}

uint64_t connection_due(uint64_t since, uint64_t timeout_ms)
{
  return timeout_ms == 0 || timeout_ms > (UINT64_MAX - since) / NS_PER_MS
             ? UINT64_MAX
             : since + timeout_ms * NS_PER_MS;
}

// When the client is due for a keepalive ping, or its answer is.
static uint64_t sign_due(const grpc_connection *c)
{
  const listener_options *o = &c->loop->all->listener->options;
  if (c->pinged_ns != 0)
    return connection_due(c->pinged_ns, o->keepalive_timeout_ms);
  return c->stream_count > 0 || o->keepalive_without_calls
             ? connection_due(c->heard_ns, o->keepalive_time_ms)
             : UINT64_MAX;
}

// When a connection that was asked to leave is closed even with open calls, because it is too old.
static uint64_t cut_due(const grpc_connection *c)
{
  const listener_options *o = &c->loop->all->listener->options;
  uint64_t old = connection_due(c->began_ns, o->max_connection_age_ms);
  uint64_t late = connection_due(c->left_ns, o->max_connection_age_grace_ms);
  return late < old ? old : late;
}

// How long a client may take to answer the ping behind the first GOAWAY. Where another process goes
// on to serve there is time, and no call shall be turned away.
static uint64_t leave_ns(const grpc_connection *c)
{
  return atomic_load(&c->loop->all->retiring) ? RETIRE_NS : LEAVE_NS;
}

static uint64_t age_due(const grpc_connection *c)
{
  if (c->left_ns == 0)
    return connection_due(c->began_ns, c->loop->all->listener->options.max_connection_age_ms);
  uint64_t gone = c->state == CONNECTION_LEFT ? UINT64_MAX : c->left_ns + leave_ns(c);
  uint64_t cut = cut_due(c);
  return gone < cut ? gone : cut;
}

// The reason to close the connection now, or NULL.
static const char *overdue(const grpc_connection *c, uint64_t now)
{
  const listener_options *o = &c->loop->all->listener->options;
  if (c->state == CONNECTION_BEGINS && now >= connection_due(c->began_ns, o->handshake_timeout_ms))
    return "it did not begin in time";
  if (c->waits && now >= connection_due(c->moved_ns, o->write_timeout_ms))
    return "it does not take what it is sent";
  if (c->pinged_ns != 0 && now >= connection_due(c->pinged_ns, o->keepalive_timeout_ms))
    return "it gives no sign";
  if (c->left_ns != 0 && now >= cut_due(c))
    return "it is too old";
  return NULL;
}

// LEAVING: asks the client to leave. One that has just connected is asked behind its first call:
// gRPC 1.85 may otherwise try that call again and again, without a pause and in ever more memory.
static void give_notice(grpc_connection *c)
{
  if (c->used == 0 && c->loop->now_ns < c->began_ns + YOUNG_NS) {
    wake_at(c, c->began_ns + YOUNG_NS);
    return;
  }
  connection_set_state(c, CONNECTION_TOLD);
  // The ping's answer comes behind all calls that the client has sent already, so these are
  // accepted.
  nghttp2_submit_shutdown_notice(c->session);
  nghttp2_submit_ping(c->session, NGHTTP2_FLAG_NONE, goodbye);
  grpc_loop_mark(c->loop, c);
}

void grpc_connection_leave(grpc_connection *c)
{
  if (c->state == CONNECTION_BEGINS) {
    if (atomic_load(&c->loop->all->retiring))
      grpc_loop_mark(c->loop, c); // it leaves once it has begun
    else
      grpc_connection_close(c);
  }
  if (c->state != CONNECTION_OPEN)
    return;
  connection_set_state(c, CONNECTION_LEAVING);
  c->left_ns = c->loop->now_ns;
  wake_at(c, c->left_ns + leave_ns(c));
  give_notice(c);
}

static void ask_for_sign(grpc_connection *c, uint64_t now)
{
  c->pinged_ns = now;
  nghttp2_submit_ping(c->session, NGHTTP2_FLAG_NONE, NULL);
  grpc_loop_mark(c->loop, c);
}

// Checks the streams' timeouts. Returns when the next check is due.
static uint64_t check_streams(grpc_connection *c, uint64_t now)
{
  uint64_t first = UINT64_MAX;
  list_foreach_safe (grpc_stream, s, node, &c->streams) {
    uint64_t next = c->loop->all->handlers->check(s, now);
    if (next < first)
      first = next;
  }
  return first;
}

// Does what is due, and sets the timer for what is next.
static void look_after(conn_timer *elapsed)
{
  grpc_connection *c = container_of(elapsed, grpc_connection, timer);
  const listener_options *o = &c->loop->all->listener->options;
  uint64_t now = c->loop->now_ns;
  if (c->state == CONNECTION_ENDING) {
    if (now >= c->ended_ns + LEAVE_NS)
      grpc_connection_close(c);
    else
      wake_at(c, c->ended_ns + LEAVE_NS);
    return;
  }
  if (c->state == CONNECTION_FAILED) // the flush of this pass closes it, or begins its end
    return;
  const char *why = overdue(c, now);
  if (why != NULL) {
    frontend_log_verbose("the connection of %s is closed: %s", c->peer, why);
    grpc_connection_close(c);
    return;
  }
  if (c->pinged_ns == 0 && now >= sign_due(c))
    ask_for_sign(c, now);
  if (c->left_ns == 0 && now >= connection_due(c->began_ns, o->max_connection_age_ms))
    grpc_connection_leave(c);
  if (connection_is_closed(c))
    return;
  if (c->state == CONNECTION_LEAVING)
    give_notice(c);
  if (c->state == CONNECTION_TOLD && now >= c->left_ns + leave_ns(c))
    session_say_goodbye(c);
  wake_at(c, check_streams(c, now));
  if (c->state == CONNECTION_BEGINS)
    wake_at(c, connection_due(c->began_ns, o->handshake_timeout_ms));
  if (c->waits)
    wake_at(c, connection_due(c->moved_ns, o->write_timeout_ms));
  wake_at(c, sign_due(c));
  wake_at(c, age_due(c));
}

void grpc_connection_stream_receives(grpc_connection *c)
{
  wake_at(c, connection_due(c->loop->now_ns, c->loop->all->listener->options.body_timeout_ms));
}

void grpc_connection_add(grpc_connection *c, grpc_stream *s)
{
  s->connection = c;
  list_prepend(&c->streams, &s->node);
  c->used++;
  if (++c->stream_count == 1)
    wake_at(c, sign_due(c));
  if (c->state == CONNECTION_LEAVING)
    give_notice(c);
}

void grpc_connection_remove(grpc_stream *s)
{
  grpc_connection *c = s->connection;
  assert(c->stream_count > 0);
  nghttp2_session_set_stream_user_data(c->session, s->id, NULL);
  list_remove(&s->node);
  c->stream_count--;
  s->connection = NULL;
}

// ---- input ----

// Reads and drops input: a close with unread input would discard replies that the client has not
// read yet.
static void drop_input(grpc_connection *c)
{
  for (int i = 0; i < READS_AT_ONCE; i++) {
    ssize_t size = conn_wire_read(&c->wire, c->loop->read_buffer, LOOP_READ_BYTES);
    if (size < 0 && errno == EAGAIN)
      return;
    if (size <= 0) {
      grpc_connection_close(c);
      return;
    }
  }
}

void grpc_connection_readable(grpc_connection *c)
{
  char *buffer = c->loop->read_buffer;
  if (c->state == CONNECTION_ENDING) {
    drop_input(c);
    return;
  }
  for (int i = 0; i < READS_AT_ONCE && c->state < CONNECTION_FAILED; i++) {
    ssize_t size = conn_wire_read(&c->wire, buffer, LOOP_READ_BYTES);
    if (size < 0 && errno == EAGAIN)
      break;
    if (size <= 0) { // the client is gone
      grpc_connection_close(c);
      return;
    }
    c->heard_ns = c->loop->now_ns;
    ssize_t taken = nghttp2_session_mem_recv(c->session, (const uint8_t *)buffer, (size_t)size);
    if (taken < 0) {
      frontend_log_verbose("the connection of %s is closed: %s", c->peer,
                           nghttp2_strerror((int)taken));
      if (taken == NGHTTP2_ERR_BAD_CLIENT_MAGIC)
        loop_group_log_protocol(&c->loop->all->group);
      if (c->state < CONNECTION_FAILED)
        connection_set_state(c, CONNECTION_FAILED);
    }
    if ((size_t)size < LOOP_READ_BYTES && !conn_wire_holds_input(&c->wire))
      break;
  }
  if (c->loop->is_draining && c->state == CONNECTION_OPEN) // it has begun since then
    grpc_connection_leave(c);
  grpc_loop_mark(c->loop, c);
}

// ---- output ----

// Takes frames from nghttp2 until enough output waits. False when memory is short or nghttp2 fails.
static bool take_frames(grpc_connection *c)
{
  while (c->output.pending < OUTPUT_BYTES) {
    const uint8_t *data;
    ssize_t size = nghttp2_session_mem_send(c->session, &data);
    if (size <= 0)
      return size == 0;
    if (!output_copy(&c->output, data, (size_t)size))
      return false;
  }
  return true;
}

static bool is_over(grpc_connection *c)
{
  return c->state == CONNECTION_FAILED ||
         (nghttp2_session_want_read(c->session) == 0 &&
          nghttp2_session_want_write(c->session) == 0) ||
         (c->state == CONNECTION_LEFT && c->stream_count == 0);
}

void grpc_connection_writable(grpc_connection *c)
{
  if (c->wire.handshaking)
    grpc_connection_readable(c);
  grpc_loop_mark(c->loop, c);
}

// Sends the end of the stream, and gives the client a moment to close.
static void end(grpc_connection *c)
{
  connection_set_state(c, CONNECTION_ENDING);
  c->ended_ns = c->loop->now_ns;
  close_streams(c);
  conn_wire_end(&c->wire);
  if (c->watches_output && !grpc_loop_watch(c->loop, c, false)) {
    grpc_connection_close(c);
    return;
  }
  wake_at(c, c->ended_ns + LEAVE_NS);
}

void grpc_connection_flush(grpc_connection *c)
{
  if (c->state == CONNECTION_ENDING)
    return;
  output_result result = OUTPUT_EMPTY;
  bool moved = true, whole = true;
  int writes = 0;
  while (!c->wire.handshaking && moved && result == OUTPUT_EMPTY && writes++ < WRITES_AT_ONCE) {
    whole = take_frames(c);
    if (c->output.pending == 0)
      break;
    result = output_write(&c->output, &c->wire, &moved);
    if (moved)
      c->moved_ns = c->loop->now_ns;
  }
  count_output(c);
  bool blocked = result == OUTPUT_BLOCKED || writes > WRITES_AT_ONCE;
  // A failed connection is not read any more, so it cannot wait in epoll: its unread input would
  // wake the loop until the last byte is sent.
  if (result == OUTPUT_FAILED || !whole || (blocked && c->state == CONNECTION_FAILED)) {
    grpc_connection_close(c);
    return;
  }
  if (!blocked && !c->wire.handshaking && is_over(c)) {
    end(c);
    return;
  }
  bool waits = blocked || c->unsent > 0; // for the socket, or for an HTTP/2 window
  if (waits && !c->waits) {
    c->moved_ns = c->loop->now_ns;
    wake_at(c, connection_due(c->moved_ns, c->loop->all->listener->options.write_timeout_ms));
  }
  c->waits = waits;
  bool watch = blocked || c->wire.wants_output;
  if (watch != c->watches_output && !grpc_loop_watch(c->loop, c, watch))
    grpc_connection_close(c);
}

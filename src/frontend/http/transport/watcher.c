// SPDX-License-Identifier: Apache-2.0
// The thread that watches a listener's connections ("http-watch"). It accepts, gives each
// connection to a loop, notices clients that leave while their request runs, enforces timeouts, and
// reads on from clients that were refused within a body.
//
// libmicrohttpd could accept and time out itself, but it wakes every loop for each new connection,
// cannot stop accepting without a race, does not see a client leave while the connection is
// suspended, and has one timeout for everything.
#include "base/blocks.h"
#include "base/cleanup.h"
#include "base/thread.h"
#include "base/wakeup.h"
#include "frontend/common/observe/frontend_log.h"
#include "frontend/http/transport/http_loop.h"
#include "frontend/http/transport/http_registry.h"

#include <assert.h>
#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h> // glibc's tcp_info ends before tcpi_bytes_acked
#include <malloc.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define TICK_MS          1000 // between checks of timeouts
#define ACCEPT_RUN       32   // connections accepted before other events have their turn
#define EVENTS_PER_WAIT  64
#define MANY_CONNECTIONS 64
#define LEFT_GRACE_MS    500 // the loop has this long to read what the client sent before it left
#define QUIET_TICKS      3   // without connections, until memory is given back

// --- Accepting

static bool is_full(const connections *all)
{
  unsigned limit = all->options->connection_limit;
  return (limit != 0 && atomic_load(&all->count) >= (size_t)limit + CONNECTIONS_RESERVED) ||
         !room_is_left(ROOM_KEPT, all->acceptor.last_fd);
}

static void give_way(room_giver *g)
{
  connections *all = container_of(g, connections, giver);
  atomic_store(&all->giving, true);
  connections_wake(all);
}

// Closes the oldest connections that have never sent a byte.
static void close_silent(connections *all)
{
  const size_t waiting = atomic_load(&all->crowded) ? acceptor_waiting(&all->acceptor) : 0;
  const bool is_crowd = waiting > ROOM_GIVEN;
  const uint64_t silent_ms = is_crowd ? ROOM_CROWD_MS : ROOM_SILENT_MS;
  size_t left = is_crowd ? waiting : ROOM_GIVEN;
  const uint64_t now = connections_now_ms();
  LOCK_SCOPE(&all->mutex);
  for (list_node *node = list_last(&all->open); node != NULL && left > 0;
       node = list_previous(&all->open, node)) {
    connection *c = container_of(node, connection, node);
    if (atomic_load(&c->state) != CONNECTION_HEADERS || atomic_load(&c->closing) ||
        now < atomic_load(&c->since_ms) + silent_ms || !room_is_silent(c->socket_fd))
      continue;
    atomic_store(&c->closing, true);
    shutdown(c->socket_fd, SHUT_RDWR);
    left--;
  }
}

// Called at each arrival, because many connections may come and go between two ticks.
static size_t record_count(connections *all)
{
  size_t count = atomic_load(&all->count);
  if (count > all->peak_count)
    all->peak_count = count;
  return count;
}

// False when no more can be accepted now.
static bool accept_some(connections *all)
{
  for (int i = 0; i < ACCEPT_RUN; i++) {
    bool waits;
    arrival *a = acceptor_take(&all->acceptor, is_full(all), &waits);
    if (waits || (a != NULL && !room_has(ROOM_CLIENTS, a->socket_fd)))
      room_ask();
    if (waits) {
      atomic_store(&all->crowded, true);
      acceptor_watch(&all->acceptor, false);
    }
    if (a == NULL)
      return false;
    all->quiet_ticks = 0;
    loop_core_adopt(&all->adopters->loops[loop_group_next(&all->adopters->group)].core, a);
    record_count(all);
  }
  return true;
}

// While clients wait. When accepting paused, connections may have been silent for too short a time.
static void ask_for_room(connections *all)
{
  if (!atomic_load(&all->crowded))
    return;
  const uint64_t now = connections_now_ms();
  if (now < all->next_ask_ms || !is_full(all))
    return;
  all->next_ask_ms = now + ROOM_CROWD_MS;
  room_ask();
}

// Resumes accepting when there is room, at most one tick later.
static void reconsider_accepting(connections *all)
{
  if (!atomic_load(&all->crowded) || atomic_load(&all->held) || is_full(all) ||
      !acceptor_is_open(&all->acceptor))
    return;
  if (acceptor_watch(&all->acceptor, true))
    atomic_store(&all->crowded, false);
}

static void close_listener(connections *all)
{
  if (!acceptor_is_open(&all->acceptor))
    return;
  if (atomic_load(&all->quiet_ms) == 0) // else another process takes the clients in the backlog
    for (unsigned i = 0; i <= LISTEN_BACKLOG / ACCEPT_RUN && accept_some(all); i++)
      ;
  acceptor_close(&all->acceptor);
  atomic_store(&all->accepted, true);
}

// --- Timeouts

// Has the client taken enough of its reply since the last check? A Unix socket does not tell how
// much was taken, so any change counts, and is checked at each tick.
static bool reply_moves(connection *c, uint64_t min_bytes)
{
  struct tcp_info info = {0};
  socklen_t size = sizeof(info);
  if (getsockopt(c->socket_fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) {
    int unsent = 0;
    bool moves = ioctl(c->socket_fd, SIOCOUTQ, &unsent) == 0 && unsent != c->unsent_bytes;
    c->unsent_bytes = unsent;
    return moves;
  }
  uint64_t acknowledged = info.tcpi_bytes_acked - c->acknowledged_bytes;
  if (acknowledged >= min_bytes)
    c->acknowledged_bytes = info.tcpi_bytes_acked;
  return acknowledged >= min_bytes;
}

static unsigned timeout_of(const listener_options *options, connection_state state)
{
  switch (state) {
  case CONNECTION_IDLE:
    return options->idle_timeout_ms;
  case CONNECTION_HEADERS:
    return options->header_timeout_ms;
  case CONNECTION_BODY:
    return options->body_timeout_ms;
  case CONNECTION_REPLY:
    return options->write_timeout_ms;
  case CONNECTION_RUNNING:
  case CONNECTION_CLOSED:
    break;
  }
  return 0;
}

static bool has_left(connection *c)
{
  LOCK_SCOPE(&c->exchange_mutex);
  return c->left;
}

// Shuts down a connection that has waited too long; its loop then sees the end of the stream and
// closes it. The registry's mutex is held, so the descriptor is still this connection's.
static void check_timeout(connection *c, uint64_t now)
{
  assert(lock_is_held(&c->all->mutex));
  const listener_options *options = c->all->options;
  connection_state state = atomic_load(&c->state);
  unsigned timeout = timeout_of(options, state);
  uint64_t since = atomic_load(&c->since_ms);
  bool reading = state != CONNECTION_RUNNING && state != CONNECTION_REPLY;
  // The loop misses an end of the stream that comes at the same moment as data.
  if (reading && now >= since + LEFT_GRACE_MS && has_left(c)) {
    shutdown(c->socket_fd, SHUT_RDWR);
    return;
  }
  bool due = timeout != 0 && now >= since && now - since >= timeout;
  bool looked_at = state == CONNECTION_REPLY && timeout != 0 && (due || c->all->is_unix);
  if (looked_at && reply_moves(c, connection_min_bytes(options, timeout)))
    atomic_compare_exchange_strong(&c->since_ms, &since, now);
  else if (due)
    shutdown(c->socket_fd, SHUT_RDWR);
}

static void check_timeouts(connections *all)
{
  uint64_t now = connections_now_ms();
  LOCK_SCOPE(&all->mutex);
  list_foreach (connection, c, node, &all->open)
    check_timeout(c, now);
}

// --- The thread

static void handle_event(connections *all, const struct epoll_event *event)
{
  if (event->data.ptr == &all->acceptor)
    accept_some(all);
  else if (event->data.ptr != all)
    connections_client_left(all, event->data.u64);
  else if (wakeup_take(all->wake_fd) == 0)
    frontend_log_verbose("%s", "the watcher was woken without a reason");
}

static int wait_ms(const connections *all, uint64_t next_tick)
{
  bool lingers = linger_is_busy(all->lingering);
  if (atomic_load(&all->count) == 0 && !lingers && !atomic_load(&all->crowded) &&
      all->quiet_ticks >= QUIET_TICKS)
    return -1;
  uint64_t now = connections_now_ms();
  if (lingers)
    return LINGER_POLL_MS;
  if (atomic_load(&all->crowded) && next_tick > now + ROOM_CROWD_MS)
    return ROOM_CROWD_MS;
  return now >= next_tick ? 0 : (int)(next_tick - now);
}

// After a burst of large requests, waiting responses or many clients, gives malloc's free pages
// back too, which are scattered between used ones.
static void give_memory_back(connections *all)
{
  size_t count = record_count(all);
  bool kept_before = all->blocks_kept;
  all->quiet_ticks = count == 0 ? all->quiet_ticks + 1 : 0;
  all->blocks_kept = blocks_trim();
  bool freed = atomic_exchange(&all->freed, false) || (kept_before && !all->blocks_kept);
  if (freed || all->peak_count > 2 * count + MANY_CONNECTIONS) {
    malloc_trim(0);
    all->peak_count = count;
  }
}

static void *watch(void *argument)
{
  connections *all = argument;
  linger_list *lingering = all->lingering;
  struct epoll_event events[EVENTS_PER_WAIT];
  uint64_t next_tick = connections_now_ms() + TICK_MS;
  while (!atomic_load(&all->stopping)) {
    int count = epoll_wait(all->epoll_fd, events, EVENTS_PER_WAIT, wait_ms(all, next_tick));
    for (int i = 0; i < count; i++)
      handle_event(all, &events[i]);
    if (atomic_exchange(&all->giving, false))
      close_silent(all);
    if (atomic_load(&all->draining))
      close_listener(all);
    linger_read(lingering, connections_now_ms());
    if (connections_now_ms() >= next_tick) {
      linger_expire(lingering, connections_now_ms());
      check_timeouts(all);
      give_memory_back(all);
      next_tick = connections_now_ms() + TICK_MS;
    }
    ask_for_room(all);
    reconsider_accepting(all);
  }
  return NULL;
}

// --- Life

static error *cannot_watch(const char *what)
{
  return error_new(ERROR_UNAVAILABLE, "cannot watch %s: %s", what, strerror(errno));
}

error *connections_watch(connections *all, loops *adopters)
{
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = all};
  assert(!all->watched);
  all->adopters = adopters;
  if (epoll_ctl(all->epoll_fd, EPOLL_CTL_ADD, all->wake_fd, &event) != 0)
    return cannot_watch("connections");
  atomic_store(&all->held, all->options->held);
  atomic_store(&all->crowded, all->options->held); // as if there were no room: accepting resumes
  if (!all->options->held && !acceptor_watch(&all->acceptor, true))
    return cannot_watch("the listener");
  blocks_keep(all->options->max_inflight_bytes);
  RETURN_IF_ERROR(thread_start(&all->watcher, "http-watch", watch, all));
  all->watched = true;
  all->giver.give = give_way;
  room_join(&all->giver);
  return NULL;
}

void connections_accept(connections *all)
{
  atomic_store(&all->held, false);
  connections_wake(all);
}

void connections_retire(connections *all, unsigned quiet_ms)
{
  atomic_store(&all->quiet_ms, quiet_ms);
  atomic_store(&all->draining, true);
  connections_wake(all);
}

void connections_stop_accepting(connections *all)
{
  atomic_store(&all->quiet_ms, 0);
  atomic_store(&all->draining, true);
  connections_wake(all);
}

void connections_unwatch(connections *all)
{
  if (!all->watched)
    return;
  room_leave(&all->giver);
  atomic_store(&all->stopping, true);
  connections_wake(all);
  pthread_join(all->watcher, NULL);
  all->watched = false;
  acceptor_close(&all->acceptor);
}

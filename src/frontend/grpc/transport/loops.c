// SPDX-License-Identifier: Apache-2.0
// The loop threads. A loop handles what is ready, polls for a moment if its client comes back at
// once, and else sleeps until a socket is ready, a timer is due, or a thread wakes it.
#include "frontend/grpc/transport/loops.h"

#include "base/checked.h"
#include "base/clock.h"
#include "frontend/common/observe/frontend_log.h"
#include "frontend/grpc/transport/connection.h"
#include "frontend/grpc/transport/session.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define EVENTS_AT_ONCE  64
#define ACCEPTS_AT_ONCE 64
#define NS_PER_MS       UINT64_C(1000000)
#define ACCEPT_PAUSE_NS (100 * NS_PER_MS) // when descriptors are short, or the limit is reached

// ---- a pass ----

static void run_woken(grpc_loop *l)
{
  mpsc_node *next;
  for (mpsc_node *node = mpsc_take_all(&l->woken); node != NULL; node = next) {
    next = node->next;
    l->all->handlers->woken(container_of(node, grpc_stream, woken));
  }
}

static void drop_forgotten(grpc_loop *l)
{
  for (list_node *node; (node = list_take_first(&l->forgotten)) != NULL;)
    grpc_connection_unref(container_of(node, grpc_connection, node));
}

static void take_on(loop_core *core, const arrival *a)
{
  grpc_loop *l = container_of(core, grpc_loop, core);
  grpc_connection *c = grpc_connection_open(l, a->socket_fd, &a->address);
  if (c == NULL) {
    frontend_log_warning("a connection was dropped: %s", "out of memory");
    grpc_loops_record_closed(l->all);
    return;
  }
  list_prepend(&l->connections, &c->node);
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
  if (epoll_ctl(l->core.epoll_fd, EPOLL_CTL_ADD, a->socket_fd, &event) != 0) {
    frontend_log_warning("a connection was dropped: %s", strerror(errno));
    grpc_connection_close(c);
  } else if (l->is_draining) {
    grpc_connection_leave(c);
  } else {
    grpc_loop_mark(l, c);
  }
}

static void flush_marked(grpc_loop *l)
{
  for (list_node *node; (node = list_take_first(&l->marked)) != NULL;)
    grpc_connection_flush(container_of(node, grpc_connection, marked));
}

// ---- accepting, on the first loop ----

static void accept_later(grpc_loops *all)
{
  conn_timer_set(&all->loops[0].timers, &all->accept_again, all->loops[0].now_ns + ACCEPT_PAUSE_NS);
}

static void accept_again(conn_timer *elapsed)
{
  grpc_loops *all = container_of(elapsed, grpc_loops, accept_again);
  if (!acceptor_watch(&all->acceptor, true))
    accept_later(all);
}

// False when no more can be accepted now.
static bool accept_one(grpc_loops *all)
{
  const listener_options *options = &all->listener->options;
  const unsigned limit = options->connection_limit;
  const room_class who = options->for_operators ? ROOM_KEPT : ROOM_CLIENTS;
  const bool is_full = (limit > 0 && atomic_load(&all->connections) >= limit) ||
                       !room_is_left(who, all->acceptor.last_fd);
  bool waits;
  arrival *a = acceptor_take(&all->acceptor, is_full, &waits);
  if (waits) {
    room_ask();
    accept_later(all);
    acceptor_watch(&all->acceptor, false);
  }
  if (a == NULL)
    return false;
  atomic_fetch_add(&all->connections, 1);
  loop_core_adopt(&all->loops[loop_group_next(&all->group)].core, a);
  return true;
}

static void accept_some(grpc_loops *all)
{
  for (int i = 0; i < ACCEPTS_AT_ONCE && accept_one(all); i++)
    ;
}

static void stop_accepting(grpc_loops *all)
{
  while (!atomic_load(&all->retiring) && accept_one(all))
    ; // accepts the backlog; these clients are asked to leave
  conn_timer_cancel(&all->loops[0].timers, &all->accept_again);
  acceptor_close(&all->acceptor);
}

static void begin_accepting(grpc_loop *l)
{
  grpc_loops *all = l->all;
  if (l == all->loops && atomic_load_explicit(&all->accepts, memory_order_relaxed) &&
      atomic_exchange(&all->accepts, false))
    accept_again(&all->accept_again);
}

// ---- giving way ----

static void give_way(room_giver *g)
{
  grpc_loops *all = container_of(g, grpc_loops, giver);
  for (unsigned i = 0; i < all->group.count; i++) {
    atomic_store(&all->loops[i].giving, true);
    loop_core_wake(&all->loops[i].core);
  }
}

// Closes the oldest connections that have never sent a byte.
static void close_silent(grpc_loop *l)
{
  size_t left = ROOM_GIVEN;
  list_node *before;
  for (list_node *node = list_last(&l->connections); node != NULL && left > 0; node = before) {
    before = list_previous(&l->connections, node);
    grpc_connection *c = container_of(node, grpc_connection, node);
    if (c->state != CONNECTION_BEGINS || l->now_ns < c->began_ns + ROOM_SILENT_MS * NS_PER_MS ||
        !room_is_silent(c->wire.fd))
      continue;
    grpc_connection_close(c);
    left--;
  }
}

// ---- stopping ----

static void begin_draining(grpc_loop *l)
{
  if (l->is_draining || !atomic_load(&l->all->draining))
    return;
  l->is_draining = true;
  if (l == l->all->loops)
    stop_accepting(l->all);
  loop_core_take_arrivals(&l->core, take_on);
  list_foreach_safe (grpc_connection, c, node, &l->connections)
    grpc_connection_leave(c);
}

void grpc_loops_accept(grpc_loops *all)
{
  atomic_store(&all->accepts, true);
  loop_core_wake(&all->loops[0].core);
}

void grpc_loops_retire(grpc_loops *all)
{
  if (!atomic_exchange(&all->retiring, true))
    grpc_loops_drain(all);
}

void grpc_loops_drain(grpc_loops *all)
{
  atomic_store(&all->draining, true);
  for (unsigned i = 0; i < all->group.count; i++)
    loop_core_wake(&all->loops[i].core);
}

// ---- the thread ----

static int milliseconds_until(const grpc_loop *l)
{
  uint64_t due = conn_timers_next(&l->timers);
  if (due == UINT64_MAX)
    return -1;
  uint64_t now = clock_monotonic_ns();
  uint64_t left = due > now ? (due - now + NS_PER_MS - 1) / NS_PER_MS : 0;
  return left > INT_MAX ? INT_MAX : (int)left;
}

// Looks at the sockets in each pass, even when models answer without a pause.
static int wait_for_events(grpc_loop *l, struct epoll_event *events)
{
  int count = -1;
  if (!loop_core_polls(&l->core))
    count = loop_core_sleep(&l->core, events, EVENTS_AT_ONCE, milliseconds_until(l));
  return count >= 0 ? count : epoll_wait(l->core.epoll_fd, events, EVENTS_AT_ONCE, 0);
}

static void handle_event(grpc_loop *l, const struct epoll_event *event)
{
  if (event->data.ptr == &l->core) // a wake-up
    return;
  if (event->data.ptr == &l->all->acceptor) {
    accept_some(l->all);
    return;
  }
  grpc_connection *c = event->data.ptr;
  if (!connection_is_closed(c) && (event->events & EPOLLOUT) != 0)
    grpc_connection_writable(c);
  if (!connection_is_closed(c) && (event->events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0)
    grpc_connection_readable(c);
}

// One pass. Returns whether it had something to do.
static bool pass(grpc_loop *l)
{
  struct epoll_event events[EVENTS_AT_ONCE];
  int count = wait_for_events(l, events);
  loop_core_begin_pass(&l->core);
  l->now_ns = clock_monotonic_ns();
  bool busy = count > 0 || !mpsc_is_empty(&l->woken);
  loop_core_take_arrivals(&l->core, take_on);
  begin_accepting(l);
  begin_draining(l);
  if (atomic_load_explicit(&l->giving, memory_order_relaxed) && atomic_exchange(&l->giving, false))
    close_silent(l);
  for (int i = 0; i < count; i++)
    handle_event(l, &events[i]);
  run_woken(l);
  conn_timers_run(&l->timers, l->now_ns);
  flush_marked(l);
  drop_forgotten(l);
  return busy;
}

static void *run(void *loop_pointer)
{
  grpc_loop *l = loop_pointer;
  while (!atomic_load(&l->all->group.stopping))
    if (pass(l))
      loop_core_progressed(&l->core);
  return NULL;
}

// ---- life ----

static error *start_loop(grpc_loop *l)
{
  bool accepts = l == l->all->loops;
  bool opened = loop_core_open(&l->core, &l->all->group);
  if (accepts)
    l->all->acceptor.epoll_fd = l->core.epoll_fd;
  if (!opened ||
      (accepts && !l->all->listener->options.held && !acceptor_watch(&l->all->acceptor, true)))
    return error_new(ERROR_UNAVAILABLE, "cannot start a gRPC loop: %s", strerror(errno));
  return loop_core_start(&l->core, "grpc-loop", run, l);
}

error *grpc_loops_new(listener *l, const stream_handlers *handlers, grpc_loops **result)
{
  const unsigned count = l->options.thread_count;
  size_t size;
  grpc_loops *all = checked_array_size(sizeof(grpc_loops), count, sizeof(grpc_loop), &size)
                        ? calloc(1, size)
                        : NULL;
  if (all == NULL)
    return error_no_memory();
  all->listener = l;
  all->handlers = handlers;
  loop_group_init(&all->group, "gRPC", "HTTP/2", count, l->options.busy_poll_us);
  all->acceptor = (acceptor){.protocol = "gRPC", .socket = &l->socket};
  all->accept_again.fire = accept_again;
  all->giver.give = give_way;
  for (unsigned i = 0; i < count; i++)
    grpc_loop_init(&all->loops[i], all);
  error *failure = session_make_shared(&all->callbacks, &all->session_options);
  if (failure == NULL)
    failure = tls_context_new(l->options.tls, &all->tls);
  for (unsigned i = count; i > 0 && failure == NULL; i--) // the first loop accepts, so it starts
                                                          // last
    failure = start_loop(&all->loops[i - 1]);
  if (failure != NULL)
    grpc_loops_free(all);
  else
    *result = all;
  if (failure == NULL)
    room_join(&all->giver);
  return failure;
}

// The threads have ended. Closing cancels the calls in the core.
static void close_connections(grpc_loop *l)
{
  for (size_t left = loop_core_take_arrivals(&l->core, NULL); left > 0; left--)
    grpc_loops_record_closed(l->all);
  while (!list_is_empty(&l->connections))
    grpc_connection_close(container_of(list_first(&l->connections), grpc_connection, node));
  drop_forgotten(l);
}

void grpc_loops_stop(grpc_loops *all)
{
  if (all == NULL || atomic_exchange(&all->group.stopping, true))
    return;
  room_leave(&all->giver);
  for (unsigned i = 0; i < all->group.count; i++)
    loop_core_join(&all->loops[i].core);
  for (unsigned i = 0; i < all->group.count; i++)
    close_connections(&all->loops[i]);
  acceptor_close(&all->acceptor);
}

void grpc_loops_run_woken(grpc_loops *all)
{
  for (unsigned i = 0; i < all->group.count; i++)
    run_woken(&all->loops[i]);
}

void grpc_loops_free(grpc_loops *all)
{
  if (all == NULL)
    return;
  grpc_loops_stop(all);
  for (unsigned i = 0; i < all->group.count; i++)
    loop_core_fini(&all->loops[i].core);
  assert(atomic_load(&all->connections) == 0);
  session_free_shared(all->callbacks, all->session_options);
  tls_context_free(all->tls);
  free(all);
}

// Loop threads: wait, handle what is ready, send. A loop alternates between handling what is ready,
// polling for a moment when its clients come back at once, and sleeping until a socket is ready, a
// timer is due, or somebody wakes it.
#include "frontend/grpc/transport/loop.h"

#include "base/blocks.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/thread.h"
#include "base/wakeup.h"
#include "frontend/common/net/busy_poll.h"
#include "frontend/common/net/listener_limits.h"
#include "frontend/common/observe/frontend_log.h"
#include "frontend/grpc/call/call_life.h"
#include "frontend/grpc/call/server.h"
#include "frontend/grpc/transport/connection.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS_AT_ONCE  64
#define ACCEPTS_AT_ONCE 64
#define NS_PER_MS       UINT64_C(1000000)
#define ACCEPT_PAUSE_NS (100 * NS_PER_MS) // when there are no descriptors, or enough connections
#define TRIM_PAUSE_NS   (1000 * NS_PER_MS)
#define TRIM_USED       1000 // calls and replies of closed connections, after which memory goes back
#define CONNECTION_USED 16   // what a connection itself counts for

// A socket on its way to its loop.
typedef struct arrival {
  struct arrival *next;
  int socket_fd;
  struct sockaddr_storage address;
} arrival;

struct grpc_loop {
  grpc_loops *all;
  pthread_t thread;
  bool started;
  int epoll_fd;
  int wake_fd;

  _Atomic bool awake;         // false: a waker must write wake_fd
  _Atomic bool wanted;        // look again before sleeping
  _Atomic(arrival *) arrived; // newest first
  _Atomic(call *) woken;      // newest first; each referenced

  conn_timers timers; // loop thread only, as what follows
  uint64_t now_ns;
  grpc_connection *connections; // list
  grpc_connection *marked;      // list
  grpc_connection *forgotten;   // list: closed in this pass
  bool is_draining;             // its connections were told
  size_t used;                  // by connections that are closed; see trim
  _Atomic size_t closed;        // connections that are, and of which there are still calls
  conn_timer trim;
  conn_timer give_back; // of large blocks

  busy_poll poll;

  char read_buffer[LOOP_READ_BYTES];
};

struct grpc_loops {
  grpc_server *server;
  int listen_fd; // of the first loop's thread; -1 once it is closed
  bool accepts;  // it is watched; the same
  conn_timer accept_again;
  _Atomic uint64_t told_ns;          // when the log was told that accepting is paused
  _Atomic uint64_t protocol_told_ns; // and of another protocol's client
  busy_poll_limits polling;
  _Atomic unsigned turn; // whose turn to get a connection it is
  _Atomic bool draining;
  _Atomic bool stopping;
  unsigned count;
  grpc_loop loops[];
};

// ---- what the loop's thread may ask ----

grpc_server *grpc_loop_server(const grpc_loop *l)
{
  return l->all->server;
}

conn_timers *grpc_loop_timers(grpc_loop *l)
{
  return &l->timers;
}

uint64_t grpc_loop_now_ns(const grpc_loop *l)
{
  return l->now_ns;
}

void grpc_loop_note_protocol(grpc_loop *l)
{
  listener_note_protocol(&l->all->protocol_told_ns, "gRPC", "HTTP/2");
}

char *grpc_loop_read_buffer(grpc_loop *l)
{
  return l->read_buffer;
}

void grpc_loop_request_began(grpc_loop *l)
{
  l->poll.begun++;
}

void grpc_loop_handed_over(grpc_loop *l)
{
  l->poll.elsewhere++;
}

void grpc_loop_took_back(grpc_loop *l)
{
  l->poll.elsewhere--;
}

// ---- waking ----

static void wake(grpc_loop *l)
{
  // Sequentially consistent against wait_for_events: either it sees `wanted`, or this thread sees
  // it asleep.
  atomic_store(&l->wanted, true);
  if (!atomic_exchange(&l->awake, true))
    wakeup_signal(l->wake_fd);
}

void grpc_loop_wake_call(grpc_loop *l, call *c)
{
  if (atomic_exchange(&c->wanted, true))
    return;
  call_ref(c);
  c->next_woken = atomic_load(&l->woken);
  while (!atomic_compare_exchange_weak(&l->woken, &c->next_woken, c))
    ;
  wake(l);
}

static void run_woken(grpc_loop *l)
{
  call *ordered = NULL;
  call *next;
  if (atomic_load(&l->woken) == NULL) // not before `wanted` was taken back
    return;
  for (call *c = atomic_exchange(&l->woken, NULL); c != NULL; c = next) {
    next = c->next_woken;
    c->next_woken = ordered;
    ordered = c;
  }
  for (call *c = ordered; c != NULL; c = next) {
    next = c->next_woken;
    atomic_store(&c->wanted, false);
    call_woken(c);
    call_unref(c);
  }
}

// ---- connections ----

void grpc_loop_mark(grpc_loop *l, grpc_connection *c)
{
  if (c->marked || c->closed)
    return;
  c->marked = true;
  c->next_marked = l->marked;
  l->marked = c;
}

bool grpc_loop_watch(grpc_loop *l, grpc_connection *c, bool for_output)
{
  struct epoll_event event = {.events = EPOLLIN | (for_output ? EPOLLOUT : 0), .data.ptr = c};
  c->watches_output = for_output;
  return epoll_ctl(l->epoll_fd, EPOLL_CTL_MOD, c->wire.fd, &event) == 0;
}

// The allocator keeps what a burst had; the system gets it back a moment later.
static void trim(conn_timer *elapsed)
{
  grpc_loop *l = container_of(elapsed, grpc_loop, trim);
  l->used = 0;
  malloc_trim(0);
  if (atomic_load_explicit(&l->closed, memory_order_relaxed) > 0) // some has yet to be freed
    conn_timer_set(&l->timers, &l->trim, l->now_ns + TRIM_PAUSE_NS);
}

// Large blocks are kept for a moment when they are freed (base/blocks.h).
static void give_back_blocks(conn_timer *elapsed)
{
  grpc_loop *l = container_of(elapsed, grpc_loop, give_back);
  if (blocks_trim() || atomic_load(&l->all->server->calls) > 0) // whose blocks are still to come
    conn_timer_set(&l->timers, &l->give_back, l->now_ns + TRIM_PAUSE_NS);
}

void grpc_loop_note_large(grpc_loop *l)
{
  if (!conn_timer_is_set(&l->give_back))
    conn_timer_set(&l->timers, &l->give_back, l->now_ns + TRIM_PAUSE_NS);
}

void grpc_loop_freed(grpc_loop *l)
{
  atomic_fetch_sub_explicit(&l->closed, 1, memory_order_relaxed);
}

static void note_used(grpc_loop *l, const grpc_connection *c)
{
  l->used += CONNECTION_USED + c->used;
  if (l->used >= TRIM_USED && !conn_timer_is_set(&l->trim))
    conn_timer_set(&l->timers, &l->trim, l->now_ns + TRIM_PAUSE_NS);
}

void grpc_loop_forget(grpc_loop *l, grpc_connection *c)
{
  note_used(l, c);
  atomic_fetch_add_explicit(&l->closed, 1, memory_order_relaxed);
  if (c->previous != NULL)
    c->previous->next = c->next;
  else
    l->connections = c->next;
  if (c->next != NULL)
    c->next->previous = c->previous;
  epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, c->wire.fd, NULL);
  c->next = l->forgotten; // events of this pass may still name it
  l->forgotten = c;
  grpc_server_connection_ended(l->all->server);
}

static void drop_forgotten(grpc_loop *l)
{
  grpc_connection *next;
  for (grpc_connection *c = l->forgotten; c != NULL; c = next) {
    next = c->next;
    grpc_connection_unref(c);
  }
  l->forgotten = NULL;
}

static void take_on(grpc_loop *l, const arrival *a)
{
  grpc_connection *c = grpc_connection_open(l, a->socket_fd, &a->address);
  if (c == NULL) {
    frontend_log_warning("a connection was dropped: %s", "out of memory");
    grpc_server_connection_ended(l->all->server);
    return;
  }
  c->next = l->connections;
  if (c->next != NULL)
    c->next->previous = c;
  l->connections = c;
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
  if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, a->socket_fd, &event) != 0) {
    frontend_log_warning("a connection was dropped: %s", strerror(errno));
    grpc_connection_close(c);
  } else if (l->is_draining) {
    grpc_connection_leave(c);
  } else {
    grpc_loop_mark(l, c);
  }
}

static void take_arrivals(grpc_loop *l, bool wanted)
{
  arrival *next;
  if (atomic_load(&l->arrived) == NULL) // the same
    return;
  for (arrival *a = atomic_exchange(&l->arrived, NULL); a != NULL; a = next) {
    next = a->next;
    if (wanted) {
      take_on(l, a);
    } else {
      close(a->socket_fd);
      grpc_server_connection_ended(l->all->server);
    }
    free(a);
  }
}

static void flush_marked(grpc_loop *l)
{
  grpc_connection *c;
  while ((c = l->marked) != NULL) {
    l->marked = c->next_marked;
    c->marked = false;
    if (!c->closed)
      grpc_connection_flush(c);
  }
}

// ---- accepting, on the first loop ----

// False when the kernel does not: all is as it was.
static bool watch_listener(grpc_loops *all, bool accepts)
{
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = all};
  if (all->listen_fd < 0 || accepts == all->accepts)
    return true;
  if (epoll_ctl(all->loops[0].epoll_fd, accepts ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, all->listen_fd,
                &event) != 0)
    return false;
  all->accepts = accepts;
  return true;
}

static void accept_later(grpc_loops *all)
{
  conn_timer_set(&all->loops[0].timers, &all->accept_again, all->loops[0].now_ns + ACCEPT_PAUSE_NS);
}

static void accept_again(conn_timer *elapsed)
{
  grpc_loops *all = container_of(elapsed, grpc_loops, accept_again);
  if (!watch_listener(all, true))
    accept_later(all);
}

static void pause_accepting(grpc_loops *all, const char *reason)
{
  listener_note_waiting(&all->told_ns, "gRPC", reason);
  accept_later(all);
  watch_listener(all, false);
}

// False when there is nothing more to accept now.
static bool accept_one(grpc_loops *all)
{
  const unsigned limit = all->server->options.connection_limit;
  if (limit > 0 && atomic_load(&all->server->connections) >= limit) {
    pause_accepting(all, "the limit of open connections is reached");
    return false;
  }
  arrival *a = malloc(sizeof(*a));
  socklen_t size = sizeof(a->address);
  if (a != NULL) {
    memset(&a->address, 0, sizeof(a->address));
    a->socket_fd = accept4(all->listen_fd, (struct sockaddr *)&a->address, &size,
                           SOCK_NONBLOCK | SOCK_CLOEXEC);
  }
  if (a == NULL || a->socket_fd < 0) {
    int reason = a == NULL ? ENOMEM : errno;
    free(a);
    if (reason == EMFILE || reason == ENFILE || reason == ENOBUFS || reason == ENOMEM)
      pause_accepting(all, strerror(reason));
    return reason == ECONNABORTED || reason == EINTR;
  }
  atomic_fetch_add(&all->server->connections, 1);
  grpc_loop *l = &all->loops[atomic_fetch_add(&all->turn, 1) % all->count];
  a->next = atomic_load(&l->arrived);
  while (!atomic_compare_exchange_weak(&l->arrived, &a->next, a))
    ;
  wake(l);
  return true;
}

static void accept_some(grpc_loops *all)
{
  for (int i = 0; i < ACCEPTS_AT_ONCE && accept_one(all); i++)
    ;
}

static void stop_accepting(grpc_loops *all)
{
  while (all->listen_fd >= 0 && accept_one(all)) // what waits is taken, and told to go
    ;
  watch_listener(all, false);
  conn_timer_cancel(&all->loops[0].timers, &all->accept_again);
  if (all->listen_fd >= 0)
    close(all->listen_fd);
  all->listen_fd = -1;
}

// ---- stopping ----

static void begin_draining(grpc_loop *l)
{
  if (l->is_draining || !atomic_load(&l->all->draining))
    return;
  l->is_draining = true;
  if (l == l->all->loops)
    stop_accepting(l->all);
  take_arrivals(l, true);
  grpc_connection *next;
  for (grpc_connection *c = l->connections; c != NULL; c = next) {
    next = c->next;
    grpc_connection_leave(c);
  }
}

void grpc_loops_drain(grpc_loops *all)
{
  atomic_store(&all->draining, true);
  for (unsigned i = 0; i < all->count; i++)
    wake(&all->loops[i]);
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

static int sleep_for_events(grpc_loop *l, struct epoll_event *events)
{
  busy_poll_asleep(&l->all->polling);
  int count = epoll_wait(l->epoll_fd, events, EVENTS_AT_ONCE, milliseconds_until(l));
  busy_poll_awake(&l->all->polling);
  atomic_store(&l->awake, true);
  return count;
}

// Sockets are looked at in each pass: models that answer without a pause must not keep it from
// them.
static int wait_for_events(grpc_loop *l, struct epoll_event *events)
{
  if (!busy_poll_is_worth_it(&l->poll, &l->all->polling)) {
    atomic_store(&l->awake, false);
    if (!atomic_load(&l->wanted))
      return sleep_for_events(l, events);
    atomic_store(&l->awake, true);
  }
  return epoll_wait(l->epoll_fd, events, EVENTS_AT_ONCE, 0);
}

static void handle_event(grpc_loop *l, const struct epoll_event *event)
{
  if (event->data.ptr == l) {
    wakeup_take(l->wake_fd);
    return;
  }
  if (event->data.ptr == l->all) {
    accept_some(l->all);
    return;
  }
  grpc_connection *c = event->data.ptr;
  if (!c->closed && (event->events & EPOLLOUT) != 0)
    grpc_connection_writable(c);
  if (!c->closed && (event->events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0)
    grpc_connection_readable(c);
}

// One pass. Returns whether there was anything to do.
static bool pass(grpc_loop *l)
{
  struct epoll_event events[EVENTS_AT_ONCE];
  l->poll.begun = 0;
  int count = wait_for_events(l, events);
  atomic_store(&l->wanted, false);
  l->now_ns = clock_monotonic_ns();
  bool busy = count > 0 || atomic_load_explicit(&l->woken, memory_order_relaxed) != NULL;
  take_arrivals(l, true);
  begin_draining(l);
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
  l->poll.worked_ns = clock_monotonic_ns();
  while (!atomic_load(&l->all->stopping))
    if (pass(l))
      busy_poll_note_progress(&l->poll, &l->all->polling);
  return NULL;
}

// ---- life ----

static error *start_loop(grpc_loop *l)
{
  l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  l->wake_fd = wakeup_new();
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = l};
  if (l->epoll_fd < 0 || l->wake_fd < 0 ||
      epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, l->wake_fd, &event) != 0 ||
      (l == l->all->loops && !watch_listener(l->all, true)))
    return error_new(ERROR_UNAVAILABLE, "cannot start a gRPC loop: %s", strerror(errno));
  RETURN_IF_ERROR(thread_start(&l->thread, "grpc-loop", run, l));
  l->started = true;
  busy_poll_awake(&l->all->polling);
  return NULL;
}

error *grpc_loops_new(grpc_server *g, int listen_fd_owned, grpc_loops **result)
{
  unsigned count = listener_loop_count(g->options.thread_count);
  size_t size;
  grpc_loops *all = checked_array_size(sizeof(grpc_loops), count, sizeof(grpc_loop), &size)
                        ? calloc(1, size)
                        : NULL;
  if (all == NULL) {
    close(listen_fd_owned);
    return error_no_memory();
  }
  all->server = g;
  all->count = count;
  all->listen_fd = listen_fd_owned;
  all->accept_again.fire = accept_again;
  busy_poll_limits_init(&all->polling, g->options.busy_poll_us);
  for (unsigned i = 0; i < count; i++) {
    all->loops[i].all = all;
    all->loops[i].trim.fire = trim;
    all->loops[i].give_back.fire = give_back_blocks;
    all->loops[i].epoll_fd = all->loops[i].wake_fd = -1;
    atomic_init(&all->loops[i].awake, true);
  }
  error *failure = NULL;
  for (unsigned i = count; i > 0 && failure == NULL; i--) // the first, which accepts, is last
    failure = start_loop(&all->loops[i - 1]);
  if (failure != NULL)
    grpc_loops_free(all);
  else
    *result = all;
  return failure;
}

// The threads are gone; closing cancels what the core has.
static void close_connections(grpc_loop *l)
{
  take_arrivals(l, false);
  while (l->connections != NULL)
    grpc_connection_close(l->connections);
  l->marked = NULL;
  drop_forgotten(l);
}

void grpc_loops_stop(grpc_loops *all)
{
  if (all == NULL || atomic_exchange(&all->stopping, true))
    return;
  for (unsigned i = 0; i < all->count; i++) {
    grpc_loop *l = &all->loops[i];
    if (!l->started)
      continue;
    wake(l);
    pthread_join(l->thread, NULL);
  }
  for (unsigned i = 0; i < all->count; i++)
    close_connections(&all->loops[i]);
  if (all->listen_fd >= 0)
    close(all->listen_fd);
  all->listen_fd = -1;
}

void grpc_loops_run_woken(grpc_loops *all)
{
  for (unsigned i = 0; i < all->count; i++)
    run_woken(&all->loops[i]);
}

void grpc_loops_free(grpc_loops *all)
{
  if (all == NULL)
    return;
  grpc_loops_stop(all);
  for (unsigned i = 0; i < all->count; i++) {
    grpc_loop *l = &all->loops[i];
    if (l->epoll_fd >= 0)
      close(l->epoll_fd);
    if (l->wake_fd >= 0)
      close(l->wake_fd);
  }
  free(all);
}

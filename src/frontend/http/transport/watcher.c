// The watcher: accepting, events, timeouts, memory. See watcher.h.
#include "frontend/http/transport/watcher.h"

#include "base/blocks.h"
#include "base/thread.h"
#include "base/wakeup.h"
#include "frontend/common/net/acceptor.h"
#include "frontend/common/observe/frontend_log.h"
#include "frontend/http/transport/registry.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#define TICK_MS          1000 // how often timeouts are looked at
#define ACCEPT_RUN       32   // connections accepted before other events get their turn
#define EVENTS_PER_WAIT  64
#define MANY_CONNECTIONS 64
#define QUIET_TICKS      3 // after the last connection, until memory is given back

struct watcher {
  connections *all;
  loops *adopters;
  pthread_t thread;
  bool is_unix; // a Unix socket
  _Atomic bool stopping;
  _Atomic bool draining;
  _Atomic bool listener_closed;

  acceptor acceptor;    // watcher only, as what follows
  size_t peak_count;    // of connections since memory was given back
  unsigned quiet_ticks; // looks without a connection since the last one came
  bool blocks_kept;     // memory waits for the next tick
};

// --- Accepting

static bool is_full(const watcher *w)
{
  unsigned limit = w->all->options->connection_limit;
  return limit != 0 && connections_count(w->all) >= (size_t)limit + CONNECTIONS_RESERVED;
}

// At each that comes, since many may come and go between two ticks.
static size_t record_count(watcher *w)
{
  size_t count = connections_count(w->all);
  if (count > w->peak_count)
    w->peak_count = count;
  return count;
}

// Returns false when nothing more can be accepted now.
static bool accept_some(watcher *w)
{
  for (int i = 0; i < ACCEPT_RUN; i++) {
    bool waits;
    arrival *a = acceptor_take(&w->acceptor, is_full(w), &waits);
    if (waits) {
      atomic_store(&w->all->crowded, true);
      acceptor_watch(&w->acceptor, false);
    }
    if (a == NULL)
      return false;
    w->quiet_ticks = 0;
    loops_adopt(w->adopters, a);
    record_count(w);
  }
  return true;
}

// Accepts again when there is room, at the latest one tick after it was paused.
static void reconsider_accepting(watcher *w)
{
  if (!atomic_load(&w->all->crowded) || is_full(w) || !acceptor_is_open(&w->acceptor))
    return;
  if (acceptor_watch(&w->acceptor, true))
    atomic_store(&w->all->crowded, false);
}

static void close_listener(watcher *w)
{
  if (!acceptor_is_open(&w->acceptor))
    return;
  for (unsigned i = 0; i <= LISTEN_BACKLOG / ACCEPT_RUN && accept_some(w); i++)
    ; // clients that were connected before
  acceptor_close(&w->acceptor);
  atomic_store(&w->listener_closed, true);
}

// --- The thread

static void handle_event(watcher *w, const struct epoll_event *event)
{
  if (event->data.ptr == &w->acceptor)
    accept_some(w);
  else if (event->data.ptr != w)
    connections_client_left(w->all, event->data.u64);
  else if (wakeup_take(w->all->wake_fd) == 0)
    frontend_log_verbose("%s", "the watcher was woken without a reason");
}

static int wait_ms(const watcher *w, uint64_t next_tick)
{
  bool lingers = linger_is_busy(w->all->lingering);
  if (connections_count(w->all) == 0 && !lingers && !atomic_load(&w->all->crowded) &&
      w->quiet_ticks >= QUIET_TICKS)
    return -1;
  uint64_t now = connections_now_ms();
  if (lingers)
    return LINGER_POLL_MS;
  return now >= next_tick ? 0 : (int)(next_tick - now);
}

// After a burst of large requests, of responses that waited, or of many clients, what malloc still
// holds of it goes back too: its pages lie between those in use.
static void give_memory_back(watcher *w)
{
  size_t count = record_count(w);
  bool kept_before = w->blocks_kept;
  w->quiet_ticks = count == 0 ? w->quiet_ticks + 1 : 0;
  w->blocks_kept = blocks_trim();
  bool freed = atomic_exchange(&w->all->freed, false) || (kept_before && !w->blocks_kept);
  if (freed || w->peak_count > 2 * count + MANY_CONNECTIONS) {
    malloc_trim(0);
    w->peak_count = count;
  }
}

static void *watch(void *argument)
{
  watcher *w = argument;
  linger_list *lingering = w->all->lingering;
  struct epoll_event events[EVENTS_PER_WAIT];
  uint64_t next_tick = connections_now_ms() + TICK_MS;
  while (!atomic_load(&w->stopping)) {
    int count = epoll_wait(w->all->epoll_fd, events, EVENTS_PER_WAIT, wait_ms(w, next_tick));
    for (int i = 0; i < count; i++)
      handle_event(w, &events[i]);
    if (atomic_load(&w->draining))
      close_listener(w);
    linger_read(lingering, connections_now_ms());
    if (connections_now_ms() >= next_tick) {
      linger_expire(lingering, connections_now_ms());
      connections_check_timeouts(w->all, w->is_unix);
      give_memory_back(w);
      next_tick = connections_now_ms() + TICK_MS;
    }
    reconsider_accepting(w);
  }
  return NULL;
}

// --- Life

static bool is_unix(int socket_fd)
{
  int domain = AF_UNSPEC;
  socklen_t size = sizeof(domain);
  getsockopt(socket_fd, SOL_SOCKET, SO_DOMAIN, &domain, &size);
  return domain == AF_UNIX;
}

static error *start(watcher *w)
{
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = w};
  if (epoll_ctl(w->all->epoll_fd, EPOLL_CTL_ADD, w->all->wake_fd, &event) != 0)
    return error_new(ERROR_UNAVAILABLE, "cannot watch connections: %s", strerror(errno));
  if (!acceptor_watch(&w->acceptor, true))
    return error_new(ERROR_UNAVAILABLE, "cannot watch the listener: %s", strerror(errno));
  blocks_keep(w->all->options->max_inflight_bytes);
  return thread_start(&w->thread, "http-watch", watch, w);
}

error *watcher_new(connections *all, int listen_fd_owned, loops *adopters, watcher **result)
{
  watcher *w = calloc(1, sizeof(*w));
  if (w == NULL) {
    close(listen_fd_owned);
    return error_no_memory();
  }
  w->all = all;
  w->adopters = adopters;
  w->is_unix = is_unix(listen_fd_owned);
  w->acceptor =
      (acceptor){.protocol = "HTTP", .listen_fd = listen_fd_owned, .epoll_fd = all->epoll_fd};
  error *failure = start(w);
  if (failure == NULL) {
    *result = w;
    return NULL;
  }
  acceptor_close(&w->acceptor);
  free(w);
  return failure;
}

void watcher_stop_accepting(watcher *w)
{
  atomic_store(&w->draining, true);
  connections_wake(w->all);
}

size_t watcher_count_open(const watcher *w)
{
  return (atomic_load(&w->listener_closed) ? 0 : 1) + loops_arriving(w->adopters) +
         connections_count_open(w->all);
}

void watcher_free(watcher *w)
{
  if (w == NULL)
    return;
  atomic_store(&w->stopping, true);
  connections_wake(w->all);
  pthread_join(w->thread, NULL);
  acceptor_close(&w->acceptor);
  free(w);
}

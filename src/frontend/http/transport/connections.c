// The registry of open connections and its watcher thread. Loop threads open, close and mark
// connections; the watcher accepts, cancels and times out.
#include "frontend/http/transport/connections.h"

#include "base/blocks.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/thread.h"
#include "base/wakeup.h"
#include "frontend/common/net/listener_limits.h"
#include "frontend/common/observe/frontend_log.h"
#include "frontend/http/exchange/exchange.h"
#include "frontend/http/transport/linger.h"
#include "frontend/http/transport/loop.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/sockios.h>
#include <linux/tcp.h> // glibc's tcp_info ends before tcpi_bytes_acked
#include <malloc.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>

#define TICK_MS           1000 // how often timeouts are looked at
#define LEFT_GRACE_MS     500  // for what a client sent before it left
#define ACCEPT_RUN        32   // connections accepted before other events get their turn
#define EVENTS_PER_WAIT   64
#define MANY_CONNECTIONS  64
#define LINGER_MOST_BYTES (UINT64_C(1) << 30)
#define LINGER_MORE_BYTES (64u << 10)
#define LOGGED_REQUESTS   20
#define QUIET_TICKS       3 // after the last connection, until memory is given back

// An event's tag: a descriptor and, for a connection, the generation that it belongs to, so that an
// event fetched before the descriptor was closed and reused is told apart.
#define TAG_WAKE            UINT64_MAX
#define TAG_LISTEN          (UINT64_MAX - 1)
#define TAG(fd, generation) ((uint64_t)(generation) << 32 | (uint32_t)(fd))

struct connection {
  connections *all;
  connection *previous; // list of all, guarded by all->mutex
  connection *next;
  int socket_fd;
  const loop *owner;
  gnutls_session_t tls; // libmicrohttpd's, or NULL; loop thread
  tls_wire wire;        // moves its bytes
  uint32_t generation;
  _Atomic connection_state state;
  _Atomic uint64_t since_ms;      // when the state was entered or last made progress
  uint64_t received_bytes;        // of a body, since it last made progress; loop thread
  _Atomic bool closing;           // this side wants it closed: a client's leaving means nothing
  uint64_t acknowledged_bytes;    // of the reply, at the last look; watcher only
  int unsent_bytes;               // the same for Unix sockets: what waits for the client
  pthread_mutex_t exchange_mutex; // guards what follows
  exchange *exchange;
  bool left;         // the client has
  exchange *request; // that it is in; loop thread
  bool surplus;      // there were as many as the limit when it was opened; loop thread
};

struct connections {
  http_server_options options; // without the address
  int epoll_fd;
  int wake_fd; // wakeup: look at `stopping`, `draining` and `crowded`
  int listen_fd;
  bool is_unix; // a Unix socket
  loops *adopters;
  linger_list *lingering; // watcher and loop threads
  pthread_t thread;

  pthread_mutex_t mutex; // guards what follows up to the blank line
  connection *newest;
  connection **by_fd; // index: descriptor
  size_t by_fd_count;
  size_t count;
  uint32_t generation;

  _Atomic bool stopping;
  _Atomic bool draining;
  _Atomic bool listener_closed;
  size_t most_count;        // of connections since memory was given back; watcher only
  unsigned quiet_ticks;     // looks without a connection since the last one came; watcher only
  bool blocks_kept;         // memory waits for the next tick; watcher only
  bool accepting;           // the listening socket is in the epoll set; watcher only
  _Atomic uint64_t told_ns; // when the log was told that accepting is paused
  _Atomic bool crowded;     // accepting was paused because of a limit
  _Atomic bool freed;       // connections_note_freed was called
};

// Coarse: a few milliseconds old, a few nanoseconds to get.
static uint64_t now_ms(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void wake(connections *all)
{
  wakeup_signal(all->wake_fd);
}

// --- Opening and closing, on loop threads

// Makes by_fd long enough for `fd`; the mutex is held.
static bool make_room(connections *all, int fd)
{
  size_t needed = (size_t)fd + 1;
  if (needed <= all->by_fd_count)
    return true;
  size_t grown = needed < 64 ? 64 : needed * 2;
  connection **by_fd = reallocarray(all->by_fd, grown, sizeof(connection *));
  if (by_fd == NULL)
    return false;
  memset(by_fd + all->by_fd_count, 0, (grown - all->by_fd_count) * sizeof(connection *));
  all->by_fd = by_fd;
  all->by_fd_count = grown;
  return true;
}

static bool add(connections *all, connection *c)
{
  LOCK_SCOPE(&all->mutex);
  if (!make_room(all, c->socket_fd))
    return false;
  c->generation = all->generation++ & INT32_MAX; // never one of the special tags
  c->next = all->newest;
  if (c->next != NULL)
    c->next->previous = c;
  all->newest = c;
  all->by_fd[c->socket_fd] = c;
  c->surplus = all->options.connection_limit != 0 && all->count >= all->options.connection_limit;
  if (all->count++ == 0)
    wake(all); // the watcher sleeps without end while there are none
  return true;
}

connection *connection_open(connections *all, loop *owner, int socket_fd, gnutls_session_t tls)
{
  connection *c = calloc(1, sizeof(*c));
  if (c == NULL)
    return NULL;
  c->all = all;
  c->socket_fd = socket_fd;
  c->tls = tls;
  c->owner = owner;
  atomic_init(&c->state, CONNECTION_HEADERS);
  atomic_init(&c->since_ms, now_ms());
  pthread_mutex_init(&c->exchange_mutex, NULL);
  if (!add(all, c)) {
    pthread_mutex_destroy(&c->exchange_mutex);
    free(c);
    return NULL;
  }
  if (tls != NULL && !tls_wire_attach(&c->wire, tls, socket_fd, loop_tls(owner))) {
    frontend_log_warning("a connection is closed: %s", strerror(errno));
    shutdown(socket_fd, SHUT_RDWR);
  }
  struct epoll_event event = {.events = EPOLLRDHUP | EPOLLET,
                              .data.u64 = TAG(socket_fd, c->generation)};
  if (epoll_ctl(all->epoll_fd, EPOLL_CTL_ADD, socket_fd, &event) != 0)
    frontend_log_verbose("cannot watch a connection for its end: %s", strerror(errno));
  return c;
}

void connection_close(connection *c)
{
  connections *all = c->all;
  tls_wire_established(&c->wire);
  epoll_ctl(all->epoll_fd, EPOLL_CTL_DEL, c->socket_fd, NULL);
  pthread_mutex_lock(&all->mutex);
  if (c->previous != NULL)
    c->previous->next = c->next;
  else
    all->newest = c->next;
  if (c->next != NULL)
    c->next->previous = c->previous;
  all->by_fd[c->socket_fd] = NULL;
  all->count--;
  pthread_mutex_unlock(&all->mutex);
  pthread_mutex_destroy(&c->exchange_mutex);
  free(c);
  if (atomic_load_explicit(&all->crowded, memory_order_relaxed))
    wake(all);
}

connection *connections_find(connections *all, int socket_fd)
{
  LOCK_SCOPE(&all->mutex);
  return socket_fd >= 0 && (size_t)socket_fd < all->by_fd_count ? all->by_fd[socket_fd] : NULL;
}

bool connection_enter(connection *c, connection_state state)
{
  c->received_bytes = 0;
  atomic_store_explicit(&c->since_ms, now_ms(), memory_order_relaxed);
  if (atomic_load_explicit(&c->state, memory_order_relaxed) == CONNECTION_CLOSED)
    return false;
  atomic_store_explicit(&c->state, state, memory_order_release);
  return true;
}

// What must move in a whole timeout to count as progress.
static uint64_t least_bytes(const http_server_options *options, unsigned timeout_ms)
{
  uint64_t bytes = (uint64_t)options->min_rate * timeout_ms / 1000;
  return bytes > 0 ? bytes : 1;
}

void connection_received(connection *c, size_t size)
{
  const http_server_options *options = &c->all->options;
  c->received_bytes += size;
  if (c->received_bytes < least_bytes(options, options->body_timeout_ms))
    return;
  c->received_bytes = 0;
  atomic_store_explicit(&c->since_ms, now_ms(), memory_order_relaxed);
}

bool connection_set_exchange(connection *c, exchange *x)
{
  LOCK_SCOPE(&c->exchange_mutex);
  c->exchange = x;
  return c->left;
}

void connection_set_request(connection *c, exchange *x)
{
  tls_wire_established(&c->wire);
  c->request = x;
}

exchange *connection_request(const connection *c)
{
  return c->request;
}

bool connection_is_surplus(connection *c)
{
  if (c->surplus)
    c->surplus = connections_count(c->all) > c->all->options.connection_limit;
  return c->surplus;
}

#define INTERRUPTED (-2)

// How many bytes went out, INTERRUPTED, or another negative number.
static ssize_t send_some(const connection *c, const char *text, size_t size)
{
  if (c->tls != NULL) {
    ssize_t sent = gnutls_record_send(c->tls, text, size);
    return sent == GNUTLS_E_INTERRUPTED ? INTERRUPTED : sent < 0 ? -1 : sent;
  }
  ssize_t sent = send(c->socket_fd, text, size, MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent < 0 && errno == EINTR ? INTERRUPTED : sent;
}

// How much of a refused client is read: of a length that was announced all of it, unless that is
// absurd. TLS makes it a little more.
static uint64_t lingering_bytes(const connection *c, uint64_t announced)
{
  bool known = announced > 0 && announced <= LINGER_MOST_BYTES;
  return known ? announced + announced / 64 + LINGER_MORE_BYTES
               : 2 * (uint64_t)c->all->options.max_input_size;
}

void connection_refuse(connection *c, const char *text, size_t size, uint64_t announced)
{
  atomic_store(&c->closing, true);
  while (size > 0) {
    ssize_t sent = send_some(c, text, size);
    if (sent == INTERRUPTED)
      continue;
    if (sent <= 0)
      return; // a client that did not even read what came before
    text += sent;
    size -= (size_t)sent;
  }
  if (c->tls != NULL)
    gnutls_bye(c->tls, GNUTLS_SHUT_WR); // before the stream ends, or the reply seems cut off
  if (linger_add(c->all->lingering, c->socket_fd, lingering_bytes(c, announced), now_ms()))
    wake(c->all);
}

size_t connections_count(connections *all)
{
  LOCK_SCOPE(&all->mutex);
  return all->count;
}

// --- The watcher

// Marks the client of the connection that an event speaks of as gone. Gives a reference to the
// exchange that nobody waits for now, or NULL.
static exchange *mark_left(connections *all, uint64_t tag)
{
  uint32_t fd = (uint32_t)tag;
  LOCK_SCOPE(&all->mutex);
  connection *c = fd < all->by_fd_count ? all->by_fd[fd] : NULL;
  if (c == NULL || c->generation != (uint32_t)(tag >> 32) || atomic_load(&c->closing))
    return NULL;
  LOCK_SCOPE(&c->exchange_mutex);
  c->left = true;
  if (c->exchange != NULL)
    exchange_ref(c->exchange);
  return c->exchange;
}

static void client_left(connections *all, uint64_t tag)
{
  exchange *x = mark_left(all, tag);
  if (x == NULL)
    return;
  exchange_cancel(x);
  exchange_unref(x);
}

// Has the client taken enough of its reply since the last look? How much it took from a Unix socket
// nobody counts: there, whatever moves is progress, and is looked at in each tick.
static bool reply_moves(connection *c, uint64_t least)
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
  if (acknowledged >= least)
    c->acknowledged_bytes = info.tcpi_bytes_acked;
  return acknowledged >= least;
}

static unsigned timeout_of(const http_server_options *options, connection_state state)
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

// Shuts the connection down when it has waited too long: its loop then sees the end of the stream
// and closes it. The registry's mutex is held, so the descriptor is still this connection's.
static void check_timeout(connections *all, connection *c, uint64_t now)
{
  connection_state state = atomic_load(&c->state);
  unsigned timeout = timeout_of(&all->options, state);
  uint64_t since = atomic_load(&c->since_ms);
  bool reading = state != CONNECTION_RUNNING && state != CONNECTION_REPLY;
  // The loop misses an end that comes in the same moment as the data before it.
  if (reading && now >= since + LEFT_GRACE_MS && has_left(c)) {
    shutdown(c->socket_fd, SHUT_RDWR);
    return;
  }
  bool due = timeout != 0 && now >= since && now - since >= timeout;
  bool looked_at = state == CONNECTION_REPLY && timeout != 0 && (due || all->is_unix);
  if (looked_at && reply_moves(c, least_bytes(&all->options, timeout)))
    atomic_compare_exchange_strong(&c->since_ms, &since, now);
  else if (due)
    shutdown(c->socket_fd, SHUT_RDWR);
}

static void check_timeouts(connections *all)
{
  uint64_t now = now_ms();
  linger_expire(all->lingering, now);
  LOCK_SCOPE(&all->mutex);
  for (connection *c = all->newest; c != NULL; c = c->next)
    check_timeout(all, c, now);
}

static bool is_full(connections *all)
{
  unsigned limit = all->options.connection_limit;
  return limit != 0 && connections_count(all) >= (size_t)limit + CONNECTIONS_RESERVED;
}

// False when the kernel has no room to watch the listener; errno says so.
static bool set_accepting(connections *all, bool accepting)
{
  if (all->accepting == accepting)
    return true;
  struct epoll_event event = {.events = EPOLLIN, .data.u64 = TAG_LISTEN};
  if (epoll_ctl(all->epoll_fd, accepting ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, all->listen_fd, &event) !=
      0)
    return false;
  all->accepting = accepting;
  return true;
}

static void pause_accepting(connections *all, const char *reason)
{
  listener_note_waiting(&all->told_ns, "HTTP", reason);
  atomic_store(&all->crowded, true);
  set_accepting(all, false);
}

static bool is_lack_of_resources(int reason)
{
  return reason == EMFILE || reason == ENFILE || reason == ENOBUFS || reason == ENOMEM;
}

// At each that comes, since many may come and go between two ticks.
static size_t note_count(connections *all)
{
  size_t count = connections_count(all);
  if (count > all->most_count)
    all->most_count = count;
  return count;
}

// Returns false when nothing more can be accepted now.
static bool accept_some(connections *all)
{
  for (int i = 0; i < ACCEPT_RUN; i++) {
    if (is_full(all)) {
      pause_accepting(all, "the limit of open connections is reached");
      return false;
    }
    struct sockaddr_storage address;
    socklen_t size = sizeof(address);
    int fd =
        accept4(all->listen_fd, (struct sockaddr *)&address, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      if (is_lack_of_resources(errno))
        pause_accepting(all, strerror(errno));
      return false;
    }
    all->quiet_ticks = 0;
    loops_adopt(all->adopters, fd, &address, size);
    note_count(all);
  }
  return true;
}

// Accepts again when there is room, at the latest one tick after it was paused.
static void reconsider_accepting(connections *all)
{
  if (!atomic_load(&all->crowded) || is_full(all) || all->listen_fd < 0)
    return;
  if (set_accepting(all, true))
    atomic_store(&all->crowded, false);
}

static void close_listener(connections *all)
{
  if (all->listen_fd < 0)
    return;
  for (unsigned i = 0; i <= all->options.backlog / ACCEPT_RUN && accept_some(all); i++)
    ; // clients that were connected before
  set_accepting(all, false);
  close(all->listen_fd);
  all->listen_fd = -1;
  atomic_store(&all->listener_closed, true);
}

static void handle_event(connections *all, const struct epoll_event *event)
{
  if (event->data.u64 == TAG_LISTEN)
    accept_some(all);
  else if (event->data.u64 != TAG_WAKE)
    client_left(all, event->data.u64);
  else if (wakeup_take(all->wake_fd) == 0)
    frontend_log_verbose("the watcher was woken without a reason");
}

static int wait_ms(connections *all, uint64_t next_tick)
{
  if (connections_count(all) == 0 && !linger_is_busy(all->lingering) &&
      !atomic_load(&all->crowded) && all->quiet_ticks >= QUIET_TICKS)
    return -1;
  uint64_t now = now_ms();
  if (linger_is_busy(all->lingering))
    return LINGER_POLL_MS;
  return now >= next_tick ? 0 : (int)(next_tick - now);
}

// After a burst of large requests, of responses that waited, or of many clients, what malloc still
// holds of it goes back too: its pages lie between those in use.
static void give_memory_back(connections *all)
{
  size_t count = note_count(all);
  bool kept_before = all->blocks_kept;
  all->quiet_ticks = count == 0 ? all->quiet_ticks + 1 : 0;
  all->blocks_kept = blocks_trim();
  bool freed = atomic_exchange(&all->freed, false) || (kept_before && !all->blocks_kept);
  if (freed || all->most_count > 2 * count + MANY_CONNECTIONS) {
    malloc_trim(0);
    all->most_count = count;
  }
}

void connections_note_freed(connections *all)
{
  atomic_store(&all->freed, true);
}

static void *watch(void *argument)
{
  connections *all = argument;
  struct epoll_event events[EVENTS_PER_WAIT];
  uint64_t next_tick = now_ms() + TICK_MS;
  while (!atomic_load(&all->stopping)) {
    int count = epoll_wait(all->epoll_fd, events, EVENTS_PER_WAIT, wait_ms(all, next_tick));
    for (int i = 0; i < count; i++)
      handle_event(all, &events[i]);
    if (atomic_load(&all->draining))
      close_listener(all);
    linger_read(all->lingering, now_ms());
    if (now_ms() >= next_tick) {
      check_timeouts(all);
      give_memory_back(all);
      next_tick = now_ms() + TICK_MS;
    }
    reconsider_accepting(all);
  }
  return NULL;
}

// --- Life of the registry

static error *open_descriptors(connections *all)
{
  all->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  all->wake_fd = wakeup_new();
  struct epoll_event event = {.events = EPOLLIN, .data.u64 = TAG_WAKE};
  if (all->epoll_fd < 0 || all->wake_fd < 0 ||
      epoll_ctl(all->epoll_fd, EPOLL_CTL_ADD, all->wake_fd, &event) != 0)
    return error_new(ERROR_UNAVAILABLE, "cannot watch connections: %s", strerror(errno));
  return NULL;
}

static void release(connections *all)
{
  if (all->listen_fd >= 0)
    close(all->listen_fd);
  if (all->epoll_fd >= 0)
    close(all->epoll_fd);
  if (all->wake_fd >= 0)
    close(all->wake_fd);
  linger_free(all->lingering);
  free(all->by_fd);
  pthread_mutex_destroy(&all->mutex);
  free(all);
}

static bool is_unix(int socket_fd)
{
  int domain = AF_UNSPEC;
  socklen_t size = sizeof(domain);
  getsockopt(socket_fd, SOL_SOCKET, SO_DOMAIN, &domain, &size);
  return domain == AF_UNIX;
}

error *connections_new(const http_server_options *options, int listen_fd_owned, loops *adopters,
                       connections **result)
{
  connections *all = calloc(1, sizeof(*all));
  if (all == NULL) {
    close(listen_fd_owned);
    return error_no_memory();
  }
  all->options = *options;
  all->is_unix = is_unix(listen_fd_owned);
  all->options.address = NULL;
  all->listen_fd = listen_fd_owned;
  all->epoll_fd = all->wake_fd = -1;
  all->adopters = adopters;
  pthread_mutex_init(&all->mutex, NULL);
  all->lingering = linger_new();
  error *failure = all->lingering == NULL ? error_no_memory() : open_descriptors(all);
  if (failure == NULL && !set_accepting(all, true))
    failure = error_new(ERROR_UNAVAILABLE, "cannot watch the listener: %s", strerror(errno));
  if (failure == NULL) {
    blocks_keep(options->max_inflight_bytes);
    *result = all; // before the thread: what it accepts is looked up there
    failure = thread_start(&all->thread, "http-watch", watch, all);
  }
  if (failure != NULL) {
    *result = NULL;
    release(all);
  }
  return failure;
}

void connections_stop_accepting(connections *all)
{
  atomic_store(&all->draining, true);
  wake(all);
}

static bool has_unread_bytes(const connection *c)
{
  char byte;
  return (c->tls != NULL && gnutls_record_check_pending(c->tls) > 0) ||
         recv(c->socket_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

static void close_idle(connection *c)
{
  connection_state state = atomic_load(&c->state);
  if ((state != CONNECTION_IDLE && state != CONNECTION_HEADERS) || has_unread_bytes(c))
    return;
  atomic_store(&c->state, CONNECTION_CLOSED);
  atomic_store(&c->closing, true);
  shutdown(c->socket_fd, SHUT_RDWR);
}

void connections_close_idle(connections *all, const loop *owner)
{
  LOCK_SCOPE(&all->mutex);
  for (connection *c = all->newest; c != NULL; c = c->next)
    if (c->owner == owner)
      close_idle(c);
}

size_t connections_count_open(connections *all)
{
  size_t open = atomic_load(&all->listener_closed) ? 0 : 1;
  open += loops_arriving(all->adopters);
  LOCK_SCOPE(&all->mutex);
  for (connection *c = all->newest; c != NULL; c = c->next)
    open += atomic_load(&c->state) != CONNECTION_CLOSED;
  return open;
}

static const char *awaited(connection_state state)
{
  switch (state) {
  case CONNECTION_BODY:
    return "the rest of its body";
  case CONNECTION_RUNNING:
    return "its model or the server";
  case CONNECTION_REPLY:
    return "its client to take the reply";
  default:
    return NULL;
  }
}

void connections_log_requests(connections *all)
{
  size_t left = LOGGED_REQUESTS;
  uint64_t now = now_ms();
  LOCK_SCOPE(&all->mutex);
  for (connection *c = all->newest; c != NULL && left > 0; c = c->next) {
    const char *what = awaited(atomic_load(&c->state));
    if (what == NULL)
      continue;
    LOCK_SCOPE(&c->exchange_mutex); // what runs a model is known; other requests are the loop's
    exchange_log_warning(
        c->exchange, "not answered in time: a request that has waited for %s for %" PRIu64 " ms",
        what, now - atomic_load(&c->since_ms));
    left--;
  }
}

// Takes references to exchanges of connections that were not asked before.
static size_t take_exchanges(connections *all, exchange *taken[], size_t max_count)
{
  size_t count = 0;
  LOCK_SCOPE(&all->mutex);
  for (connection *c = all->newest; c != NULL && count < max_count; c = c->next) {
    LOCK_SCOPE(&c->exchange_mutex);
    if (c->exchange == NULL || c->left)
      continue;
    c->left = true;
    exchange_ref(c->exchange);
    taken[count++] = c->exchange;
  }
  return count;
}

void connections_cancel_all(connections *all)
{
  exchange *taken[64];
  size_t count;
  while ((count = take_exchanges(all, taken, 64)) > 0) {
    for (size_t i = 0; i < count; i++) { // without the locks: the core may answer at once
      exchange_cancel(taken[i]);
      exchange_unref(taken[i]);
    }
  }
}

void connections_free(connections *all)
{
  if (all == NULL)
    return;
  atomic_store(&all->stopping, true);
  wake(all);
  pthread_join(all->thread, NULL);
  release(all);
}

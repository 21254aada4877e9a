// SPDX-License-Identifier: Apache-2.0
// The set of connections: loop threads open and close them, the watcher walks through them.
#include "frontend/http/transport/http_registry.h"

#include "base/cleanup.h"
#include "base/thread.h"
#include "base/wakeup.h"
#include "frontend/common/observe/frontend_log.h"
#include "frontend/http/transport/http_loop.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_LOGGED_REQUESTS 20
#define CONNECTION_TAG(fd, generation)                                                             \
  (UINT64_C(1) << 63 | (uint64_t)((generation)&INT32_MAX) << 32 | (uint32_t)(fd))

uint64_t connections_now_ms(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void connections_wake(connections *all)
{
  wakeup_signal(all->wake_fd);
}

// --- Opening and closing, on loop threads

// The slot of a descriptor's connection; NULL when there is no page for it.
static connection *_Atomic *place_of(connections *all, int fd)
{
  if (fd < 0 || (size_t)fd / CONNECTIONS_OF_A_PAGE >= CONNECTION_PAGES)
    return NULL;
  connection_page *page =
      atomic_load_explicit(&all->pages[(size_t)fd / CONNECTIONS_OF_A_PAGE], memory_order_acquire);
  return page == NULL ? NULL : &page->of[(size_t)fd % CONNECTIONS_OF_A_PAGE];
}

// Makes a slot for `fd`; the mutex is held.
static connection *_Atomic *make_place(connections *all, int fd)
{
  assert(lock_is_held(&all->mutex));
  connection *_Atomic *place = place_of(all, fd);
  if (place != NULL || (size_t)fd / CONNECTIONS_OF_A_PAGE >= CONNECTION_PAGES)
    return place;
  connection_page *page = calloc(1, sizeof(*page));
  atomic_store_explicit(&all->pages[(size_t)fd / CONNECTIONS_OF_A_PAGE], page,
                        memory_order_release);
  return place_of(all, fd);
}

bool connections_are_surplus(const connections *all, int socket_fd, size_t others)
{
  const listener_options *options = all->options;
  return (options->connection_limit != 0 && others >= options->connection_limit) ||
         (!options->for_operators && !room_has(ROOM_CLIENTS, socket_fd) &&
          !room_is_left(ROOM_CLIENTS, -1));
}

static bool add(connections *all, connection *c)
{
  LOCK_SCOPE(&all->mutex);
  connection *_Atomic *place = make_place(all, c->socket_fd);
  if (place == NULL)
    return false;
  c->tag = CONNECTION_TAG(c->socket_fd, all->generation++);
  list_prepend(&all->open, &c->node);
  atomic_store(place, c);
  c->surplus = connections_are_surplus(all, c->socket_fd, all->count);
  if (all->count++ == 0)
    connections_wake(all); // the watcher sleeps without end while there are none
  return true;
}

connection *connection_open(connections *all, const loop *owner, int socket_fd,
                            gnutls_session_t tls, tls_loop *tls_owner)
{
  connection *c = calloc(1, sizeof(*c));
  if (c == NULL)
    return NULL;
  c->all = all;
  c->socket_fd = socket_fd;
  c->tls = tls;
  c->owner = owner;
  atomic_init(&c->state, CONNECTION_HEADERS);
  atomic_init(&c->since_ms, connections_now_ms());
  pthread_mutex_init(&c->exchange_mutex, NULL);
  request_scan_init(&c->scan, all->traits.reads_extensions);
  if (!add(all, c)) {
    pthread_mutex_destroy(&c->exchange_mutex);
    free(c);
    return NULL;
  }
  if (tls != NULL && !tls_wire_attach(&c->wire, tls, socket_fd, tls_owner)) {
    frontend_log_warning("a connection is closed: %s", strerror(errno));
    shutdown(socket_fd, SHUT_RDWR);
  }
  struct epoll_event event = {.events = EPOLLRDHUP | EPOLLET, .data.u64 = c->tag};
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
  list_remove(&c->node);
  assert(atomic_load(place_of(all, c->socket_fd)) == c);
  atomic_store(place_of(all, c->socket_fd), NULL);
  assert(all->count > 0);
  all->count--;
  pthread_mutex_unlock(&all->mutex);
  pthread_mutex_destroy(&c->exchange_mutex);
  request_scan_fini(&c->scan);
  free(c);
  if (atomic_load_explicit(&all->crowded, memory_order_relaxed))
    connections_wake(all);
}

connection *connections_find(connections *all, int socket_fd)
{
  connection *_Atomic *place = place_of(all, socket_fd);
  return place == NULL ? NULL : atomic_load(place);
}

// --- Clients that leave

// Marks the event's client as gone. Returns a reference to the exchange to cancel, or NULL.
static exchange *mark_left(connections *all, uint64_t tag)
{
  LOCK_SCOPE(&all->mutex);
  connection *c = connections_find(all, (int)(uint32_t)tag);
  if (c == NULL || c->tag != tag || atomic_load(&c->closing))
    return NULL;
  LOCK_SCOPE(&c->exchange_mutex);
  c->left = true;
  if (c->exchange != NULL)
    all->calls->ref(c->exchange);
  return c->exchange;
}

void connections_client_left(connections *all, uint64_t tag)
{
  exchange *x = mark_left(all, tag);
  if (x == NULL)
    return;
  all->calls->cancel(x);
  all->calls->unref(x);
}

// Takes references to exchanges, each only once, because their connections are marked as left.
static size_t take_exchanges(connections *all, exchange *taken[], size_t max_count)
{
  size_t count = 0;
  LOCK_SCOPE(&all->mutex);
  list_foreach (connection, c, node, &all->open) {
    LOCK_SCOPE(&c->exchange_mutex);
    if (count == max_count)
      break;
    if (c->exchange == NULL || c->left)
      continue;
    c->left = true;
    all->calls->ref(c->exchange);
    taken[count++] = c->exchange;
  }
  return count;
}

void connections_cancel_all(connections *all)
{
  exchange *taken[64];
  size_t count;
  while ((count = take_exchanges(all, taken, 64)) > 0) {
    for (size_t i = 0; i < count; i++) { // without locks: the core may answer at once
      all->calls->cancel(taken[i]);
      all->calls->unref(taken[i]);
    }
  }
}

// --- The end of a listener

static bool has_unread_bytes(const connection *c)
{
  char byte;
  return (c->tls != NULL && gnutls_record_check_pending(c->tls) > 0) ||
         recv(c->socket_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

// A request has begun, or the connection was used a moment ago, so that one may be on its way.
static bool is_used(connection *c, unsigned quiet_ms)
{
  return quiet_ms > 0 && (request_scan_first(&c->scan) != NULL ||
                          connections_now_ms() < atomic_load(&c->since_ms) + quiet_ms);
}

static void close_idle(connection *c, unsigned quiet_ms)
{
  assert(lock_is_held(&c->all->mutex));
  connection_state state = atomic_load(&c->state);
  if ((state != CONNECTION_IDLE && state != CONNECTION_HEADERS) || is_used(c, quiet_ms) ||
      has_unread_bytes(c))
    return;
  atomic_store(&c->state, CONNECTION_CLOSED);
  atomic_store(&c->closing, true);
  shutdown(c->socket_fd, SHUT_RDWR);
}

void connections_close_idle(connections *all, const loop *owner)
{
  const unsigned quiet_ms = atomic_load(&all->quiet_ms);
  LOCK_SCOPE(&all->mutex);
  list_foreach (connection, c, node, &all->open)
    if (c->owner == owner)
      close_idle(c, quiet_ms);
}

size_t connections_count_open(connections *all)
{
  size_t open = (atomic_load(&all->accepted) ? 0 : 1) + atomic_load(&all->adopters->group.arriving);
  LOCK_SCOPE(&all->mutex);
  list_foreach (connection, c, node, &all->open)
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
  size_t left = MAX_LOGGED_REQUESTS;
  uint64_t now = connections_now_ms();
  LOCK_SCOPE(&all->mutex);
  list_foreach (connection, c, node, &all->open) {
    const char *what = awaited(atomic_load(&c->state));
    if (what == NULL || left == 0)
      continue;
    LOCK_SCOPE(&c->exchange_mutex); // requests without an exchange here belong to the loop
    NEREID_LogSubject about = {0};
    if (c->exchange != NULL)
      about = all->calls->subject(c->exchange);
    FRONTEND_LOG_AT(TRITONSERVER_LOG_WARN, &about,
                    "not answered in time: a request that has waited for %s for %" PRIu64 " ms",
                    what, now - atomic_load(&c->since_ms));
    left--;
  }
}

// --- Life

error *connections_new(listener *l, const exchange_calls *calls, library_traits traits,
                       connections **result)
{
  connections *all = calloc(1, sizeof(*all));
  if (all == NULL)
    return error_no_memory();
  all->options = &l->options;
  all->is_unix = l->socket.is_unix;
  list_init(&all->open);
  all->calls = calls;
  all->traits = traits;
  pthread_mutex_init(&all->mutex, NULL);
  all->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  all->wake_fd = wakeup_new();
  all->lingering = linger_new();
  error *failure = NULL;
  if (all->epoll_fd < 0 || all->wake_fd < 0)
    failure = error_new(ERROR_UNAVAILABLE, "cannot watch connections: %s", strerror(errno));
  else if (all->lingering == NULL)
    failure = error_no_memory();
  all->acceptor = (acceptor){.protocol = "HTTP", .socket = &l->socket, .epoll_fd = all->epoll_fd};
  if (failure == NULL)
    *result = all;
  else
    connections_free(all);
  return failure;
}

void connections_free(connections *all)
{
  if (all == NULL)
    return;
  assert(all->count == 0 && list_is_empty(&all->open) && !all->watched);
  if (all->epoll_fd >= 0)
    close(all->epoll_fd);
  if (all->wake_fd >= 0)
    close(all->wake_fd);
  linger_free(all->lingering);
  for (size_t i = 0; i < CONNECTION_PAGES; i++)
    free(all->pages[i]);
  pthread_mutex_destroy(&all->mutex);
  free(all);
}

void connections_record_freed(connections *all)
{
  atomic_store(&all->freed, true);
}

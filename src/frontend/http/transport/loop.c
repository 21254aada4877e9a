// Runs libmicrohttpd's daemons on threads of ours. A loop alternates between handling what is
// ready, polling for a moment when its clients come back at once, and sleeping until a socket is
// ready or somebody wakes it.
#include "frontend/http/transport/loop.h"

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/thread.h"
#include "base/wakeup.h"
#include "frontend/common/net/busy_poll.h"
#include "frontend/common/net/listener_limits.h"
#include "frontend/common/observe/frontend_log.h"
#include "frontend/http/exchange/exchange.h"
#include "frontend/http/exchange/server.h"
#include "frontend/http/transport/connections.h"
#include "frontend/http/transport/error_page.h"
#include "frontend/http/transport/head.h"

#include <errno.h>
#include <gnutls/x509.h>
#include <microhttpd.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTION_MEMORY_BYTES (32u << 10) // headers and the read buffer of one connection
#define UNLIMITED_CONNECTIONS   (1u << 30)  // for libmicrohttpd: connections.c keeps the limit

// A socket on its way to its loop.
typedef struct arrival {
  struct arrival *next;
  int socket_fd;
  unsigned address_size;
  struct sockaddr_storage address;
} arrival;

struct loop {
  loops *all;
  struct MHD_Daemon *daemon;
  int epoll_fd; // libmicrohttpd's epoll set and wake_fd, for sleeping
  int wake_fd;  // wakeup
  pthread_t thread;
  bool started;

  _Atomic bool awake;         // false: a waker must write wake_fd
  _Atomic bool wanted;        // look again before sleeping
  _Atomic bool idle_unwanted; // loops_close_idle was called
  _Atomic(arrival *) arrived; // newest first

  uint64_t progress; // steps of connections so far; loop thread only, as what follows
  tls_loop tls;      // moves of bytes, when there is TLS
  unsigned vain;     // passes in a row that moved nothing though there was work
  busy_poll poll;
};

struct loops {
  http_server *http;
  busy_poll_limits polling;
  _Atomic size_t arriving;
  _Atomic unsigned turn;    // whose turn to get a connection it is
  _Atomic uint64_t told_ns; // when the log was told of another protocol's client
  _Atomic bool stopping;
  unsigned count;
  loop loops[];
};

http_server *loop_server(const loop *l)
{
  return l->all->http;
}

tls_loop *loop_tls(loop *l)
{
  return &l->tls;
}

void loop_progressed(loop *l)
{
  l->progress++;
}

void loop_handed_over(loop *l)
{
  l->poll.elsewhere++;
}

void loop_took_back(loop *l)
{
  l->poll.elsewhere--;
}

// --- Waking

void loop_wake(loop *l)
{
  // Sequentially consistent against sleep_until_woken: either it sees `wanted`, or this thread sees
  // it asleep.
  atomic_store(&l->wanted, true);
  if (atomic_exchange(&l->awake, true))
    return;
  wakeup_signal(l->wake_fd);
}

static void sleep_until_woken(loop *l)
{
  struct epoll_event event;
  atomic_store(&l->awake, false);
  if (!atomic_load(&l->wanted)) {
    busy_poll_asleep(&l->all->polling);
    epoll_wait(l->epoll_fd, &event, 1, -1);
    busy_poll_awake(&l->all->polling);
  }
  atomic_store(&l->awake, true);
  l->vain = 0;
}

// --- Connections

void loops_close_idle(loops *all)
{
  for (unsigned i = 0; i < all->count; i++) {
    atomic_store(&all->loops[i].idle_unwanted, true);
    loop_wake(&all->loops[i]);
  }
}

void loops_adopt(loops *all, int socket_fd, const void *address, unsigned address_size)
{
  arrival *a = malloc(sizeof(*a));
  if (a == NULL || address_size > sizeof(a->address)) {
    frontend_log_warning("a connection was dropped: %s", "out of memory");
    free(a);
    close(socket_fd);
    return;
  }
  a->socket_fd = socket_fd;
  a->address_size = address_size;
  memcpy(&a->address, address, address_size);
  atomic_fetch_add(&all->arriving, 1);
  loop *l = &all->loops[atomic_fetch_add(&all->turn, 1) % all->count];
  a->next = atomic_load(&l->arrived);
  while (!atomic_compare_exchange_weak(&l->arrived, &a->next, a))
    ;
  loop_wake(l);
}

size_t loops_arriving(loops *all)
{
  return atomic_load(&all->arriving);
}

static void take_arrivals(loop *l, bool wanted)
{
  arrival *next;
  if (atomic_load(&l->arrived) == NULL) // not before `wanted` was taken back
    return;
  for (arrival *a = atomic_exchange(&l->arrived, NULL); a != NULL; a = next) {
    next = a->next;
    if (!wanted)
      close(a->socket_fd);
    else if (MHD_add_connection(l->daemon, a->socket_fd, (struct sockaddr *)&a->address,
                                a->address_size) != MHD_YES)
      frontend_log_warning("a connection was dropped: %s", "libmicrohttpd cannot take it");
    atomic_fetch_sub(&l->all->arriving, 1);
    free(a);
  }
}

// libmicrohttpd forgets to say that a request is over when it cannot put a resumed connection back
// into its epoll set.
static void end_request(loop *l, struct MHD_Connection *mhd, connection *c)
{
  void *context = connection_request(c);
  if (context != NULL)
    exchange_completed(l, mhd, &context, MHD_REQUEST_TERMINATED_WITH_ERROR);
}

// libmicrohttpd asks clients for a certificate, but leaves it to others to insist on a good one.
static void require_certificate(gnutls_session_t session)
{
  static char purpose[] = GNUTLS_KP_TLS_WWW_CLIENT;
  static gnutls_typed_vdata_st wanted = {GNUTLS_DT_KEY_PURPOSE_OID, (unsigned char *)purpose, 0};
  gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUIRE);
  gnutls_session_set_verify_cert2(session, &wanted, 1, 0);
}

// The session of a connection whose handshake has not begun; NULL without TLS.
static gnutls_session_t tls_session_of(const loop *l, struct MHD_Connection *mhd)
{
  const tls_identity *tls = l->all->http->options.tls;
  if (tls->certificate == NULL)
    return NULL;
  const union MHD_ConnectionInfo *info =
      MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
  gnutls_session_t session = info == NULL ? NULL : info->tls_session;
  if (session != NULL && tls->root != NULL)
    require_certificate(session);
  return session;
}

static void connection_changed(void *loop_pointer, struct MHD_Connection *mhd,
                               void **socket_context, enum MHD_ConnectionNotificationCode what)
{
  loop *l = loop_pointer;
  if (what == MHD_CONNECTION_NOTIFY_STARTED) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    *socket_context =
        connection_open(l->all->http->connections, l, info->connect_fd, tls_session_of(l, mhd));
    if (*socket_context == NULL) // nobody would end its waiting
      shutdown(info->connect_fd, SHUT_RDWR);
  } else if (*socket_context != NULL) {
    end_request(l, mhd, *socket_context);
    connection_close(*socket_context);
    *socket_context = NULL;
  }
}

// Called with the first line of each request; what it returns is the handler's context at first.
static void *request_began(void *loop_pointer, const char *uri, struct MHD_Connection *mhd)
{
  const union MHD_ConnectionInfo *info =
      MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  loop *l = loop_pointer;
  l->progress++;
  l->poll.begun++;
  if (info->socket_context != NULL)
    connection_enter(info->socket_context, CONNECTION_HEADERS);
  return exchange_began(uri);
}

// --- Pages of libmicrohttpd's

static bool take_page(void *loop_pointer, int socket_fd, unsigned status, slice bytes)
{
  (void)bytes;
  loop *l = loop_pointer;
  connection *c = connections_find(l->all->http->connections, socket_fd);
  if (c == NULL || !exchange_answer_page(c, status))
    return false;
  if (status == MHD_HTTP_HTTP_VERSION_NOT_SUPPORTED)
    listener_note_protocol(&l->all->told_ns, "HTTP", "HTTP/1.0 and HTTP/1.1");
  return true;
}

// --- The thread

// With TLS there seems to be work while a handshake waits for its client. Work there is ends within
// a few passes or moves bytes.
#define MAX_VAIN_PASSES 32

static bool has_work_left(loop *l)
{
  MHD_UNSIGNED_LONG_LONG timeout_ms;
  if (MHD_get_timeout(l->daemon, &timeout_ms) != MHD_YES || timeout_ms != 0)
    return false;
  bool tls = l->all->http->options.tls->certificate != NULL;
  return !tls || ++l->vain <= MAX_VAIN_PASSES;
}

static void *run(void *loop_pointer)
{
  loop *l = loop_pointer;
  l->poll.worked_ns = clock_monotonic_ns();
  error_page_set_taker(take_page, tls_wire_socket, l);
  while (!atomic_load(&l->all->stopping)) {
    uint64_t progress = l->progress;
    uint64_t moves = l->tls.moves;
    l->poll.begun = 0;
    atomic_store(&l->wanted, false);
    take_arrivals(l, true);
    MHD_run_wait(l->daemon, 0);
    if (atomic_load(&l->idle_unwanted) && atomic_exchange(&l->idle_unwanted, false))
      connections_close_idle(l->all->http->connections, l);
    if (l->progress != progress || l->tls.moves != moves)
      l->vain = 0;
    if (l->progress != progress)
      busy_poll_note_progress(&l->poll, &l->all->polling);
    else if (!has_work_left(l) && !busy_poll_is_worth_it(&l->poll, &l->all->polling))
      sleep_until_woken(l);
  }
  return NULL;
}

// --- Life

static void log_line(void *context, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));
static void log_line(void *context, const char *format, va_list arguments)
{
  (void)context;
  if (!TRITONSERVER_LogIsEnabled(TRITONSERVER_LOG_VERBOSE))
    return;
  char text[512];
  int size = vsnprintf(text, sizeof(text), format, arguments);
  if (size > 0 && size < (int)sizeof(text) && text[size - 1] == '\n')
    text[size - 1] = '\0';
  frontend_log_verbose("libmicrohttpd: %s", text);
}

static struct MHD_Daemon *start_daemon(loop *l)
{
  unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET |
                   MHD_USE_SUPPRESS_DATE_NO_CLOCK | MHD_USE_ERROR_LOG | MHD_USE_TURBO;
  const tls_identity *tls = l->all->http->options.tls;
  if (tls->certificate != NULL)
    flags |= MHD_USE_TLS;
  struct MHD_OptionItem options[] = {
      {MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY_BYTES, NULL},
      {MHD_OPTION_CONNECTION_LIMIT, UNLIMITED_CONNECTIONS, NULL},
      {MHD_OPTION_STRICT_FOR_CLIENT, 0, NULL}, // head.c is strict where it matters: 1 wants a Host
      {MHD_OPTION_END, 0, NULL},
  };
  struct MHD_OptionItem tls_options[] = {
      {MHD_OPTION_HTTPS_MEM_KEY, 0, tls->key},
      {MHD_OPTION_HTTPS_MEM_CERT, 0, tls->certificate},
      {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)TLS_PRIORITIES},
      {tls->root != NULL ? MHD_OPTION_HTTPS_MEM_TRUST : MHD_OPTION_END, 0, tls->root},
      {MHD_OPTION_END, 0, NULL},
  };
  if (tls->certificate == NULL)
    tls_options[0].option = MHD_OPTION_END;
  return MHD_start_daemon(flags, 0, NULL, NULL, exchange_handle, l, MHD_OPTION_EXTERNAL_LOGGER,
                          log_line, l, MHD_OPTION_NOTIFY_COMPLETED, exchange_completed, l,
                          MHD_OPTION_NOTIFY_CONNECTION, connection_changed, l,
                          MHD_OPTION_UNESCAPE_CALLBACK, head_leave_encoded, NULL,
                          MHD_OPTION_URI_LOG_CALLBACK, request_began, l, MHD_OPTION_ARRAY, options,
                          MHD_OPTION_ARRAY, tls_options, MHD_OPTION_END);
}

static bool watch_for_sleep(loop *l, int fd, uint32_t events)
{
  struct epoll_event event = {.events = events};
  return fd >= 0 && epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static error *start_loop(loop *l)
{
  l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  l->tls.epoll_fd = l->epoll_fd;
  l->wake_fd = wakeup_new();
  l->daemon = start_daemon(l);
  if (l->daemon == NULL)
    return error_new(ERROR_UNAVAILABLE, "cannot start an HTTP loop: libmicrohttpd refuses");
  const union MHD_DaemonInfo *info = MHD_get_daemon_info(l->daemon, MHD_DAEMON_INFO_EPOLL_FD);
  // Edge-triggered, so that wake_fd need not be read.
  if (l->epoll_fd < 0 || info == NULL || !watch_for_sleep(l, info->epoll_fd, EPOLLIN) ||
      !watch_for_sleep(l, l->wake_fd, EPOLLIN | EPOLLET))
    return error_new(ERROR_UNAVAILABLE, "cannot start an HTTP loop: %s", strerror(errno));
  RETURN_IF_ERROR(thread_start(&l->thread, "http-loop", run, l));
  l->started = true;
  busy_poll_awake(&l->all->polling);
  return NULL;
}

error *loops_new(const loops_options *options, http_server *http, loops **result)
{
  unsigned count = listener_loop_count(options->count);
  size_t size;
  bool fits = checked_array_size(sizeof(loops), count, sizeof(loop), &size);
  loops *all = fits ? calloc(1, size) : NULL;
  if (all == NULL)
    return error_no_memory();
  all->http = http;
  all->count = count;
  busy_poll_limits_init(&all->polling, options->busy_poll_us);
  for (unsigned i = 0; i < all->count; i++) {
    all->loops[i].all = all;
    all->loops[i].epoll_fd = all->loops[i].wake_fd = -1;
    atomic_init(&all->loops[i].awake, true);
  }
  error *failure = NULL;
  for (unsigned i = 0; i < all->count && failure == NULL; i++)
    failure = start_loop(&all->loops[i]);
  if (failure != NULL)
    loops_free(all);
  else
    *result = all;
  return failure;
}

static void stop_loop(loop *l)
{
  if (l->started) {
    loop_wake(l);
    pthread_join(l->thread, NULL);
  }
  take_arrivals(l, false);
  if (l->daemon != NULL)
    MHD_stop_daemon(l->daemon);
}

void loops_stop(loops *all)
{
  if (all == NULL || atomic_exchange(&all->stopping, true))
    return;
  for (unsigned i = 0; i < all->count; i++)
    stop_loop(&all->loops[i]);
}

void loops_free(loops *all)
{
  if (all == NULL)
    return;
  loops_stop(all);
  for (unsigned i = 0; i < all->count; i++) {
    take_arrivals(&all->loops[i], false); // what came when its loop had stopped
    if (all->loops[i].epoll_fd >= 0)
      close(all->loops[i].epoll_fd);
    if (all->loops[i].wake_fd >= 0)
      close(all->loops[i].wake_fd);
  }
  free(all);
}

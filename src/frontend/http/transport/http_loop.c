// SPDX-License-Identifier: Apache-2.0
// Runs libmicrohttpd's daemons on the server's own threads. A loop handles what is ready, polls for
// a moment if its client comes back at once, and else sleeps until a socket is ready or a thread
// wakes it.
#include "frontend/http/transport/http_loop.h"

#include "base/checked.h"
#include "frontend/common/net/loop_core.h"
#include "frontend/common/observe/frontend_log.h"
#include "frontend/http/transport/connections.h"
#include "frontend/http/transport/head.h"
#include "frontend/http/transport/library_calls.h"

#include <assert.h>
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

#define CONNECTION_MEMORY_BYTES (32u << 10) // for headers and read buffer of a connection
#define UNLIMITED_CONNECTIONS   (1u << 30)  // in libmicrohttpd; the watcher has the limit

// --- Connections

void loops_close_idle(loops *all)
{
  for (unsigned i = 0; i < all->group.count; i++) {
    atomic_store(&all->loops[i].closes_idle, true);
    loop_core_wake(&all->loops[i].core);
  }
}

static void take_on(loop_core *core, const arrival *a)
{
  if (MHD_add_connection(container_of(core, loop, core)->daemon, a->socket_fd,
                         (const struct sockaddr *)&a->address, a->address_size) != MHD_YES)
    frontend_log_warning("a connection was dropped: %s", "libmicrohttpd cannot take it");
}

// libmicrohttpd does not report the end of a request when it fails to put a resumed connection back
// into its epoll set.
static void end_request(loop *l, struct MHD_Connection *mhd, connection *c)
{
  void *context = connection_request(c);
  if (context != NULL)
    l->all->calls->completed(l, mhd, &context, MHD_REQUEST_TERMINATED_WITH_ERROR);
}

// libmicrohttpd asks clients for a certificate, but does not check it.
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
  const tls_identity *tls = l->all->listener->options.tls;
  if (tls->certificate == NULL)
    return NULL;
  const union MHD_ConnectionInfo *info =
      MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
  gnutls_session_t session = info == NULL ? NULL : info->tls_session;
  if (session == NULL)
    return NULL;
  // In place of those that libmicrohttpd was started with: the files may have changed since.
  gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, tls_identity_credentials(tls));
  if (tls->root != NULL)
    require_certificate(session);
  return session;
}

static void count_open(loop *l, bool one_more)
{
  size_t open = atomic_load_explicit(&l->open, memory_order_relaxed);
  assert(one_more || open > 0);
  atomic_store_explicit(&l->open, one_more ? open + 1 : open - 1, memory_order_relaxed);
}

static void connection_changed(void *loop_pointer, struct MHD_Connection *mhd,
                               void **socket_context, enum MHD_ConnectionNotificationCode what)
{
  loop *l = loop_pointer;
  count_open(l, what == MHD_CONNECTION_NOTIFY_STARTED);
  if (what == MHD_CONNECTION_NOTIFY_STARTED) {
    // Read at once: libmicrohttpd 1.0 overwrites the answer with the next question's.
    int socket_fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    *socket_context =
        connection_open(l->all->connections, l, socket_fd, tls_session_of(l, mhd), &l->tls);
    if (*socket_context == NULL) // without a connection it would have no timeout
      shutdown(socket_fd, SHUT_RDWR);
  } else if (*socket_context != NULL) {
    end_request(l, mhd, *socket_context);
    connection_close(*socket_context);
    *socket_context = NULL;
  }
}

// Called with the first line of each request; the result is the handler's initial context.
static void *request_began(void *loop_pointer, const char *uri, struct MHD_Connection *mhd)
{
  (void)uri;
  const union MHD_ConnectionInfo *info =
      MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  loop *l = loop_pointer;
  l->progress++;
  loop_core_request_began(&l->core);
  if (info->socket_context != NULL)
    connection_enter(info->socket_context, CONNECTION_HEADERS);
  return NULL;
}

// --- Requests that are malformed, and libmicrohttpd's pages

static bool refuse(loop *l, connection *c, unsigned status)
{
  if (!l->all->calls->refuse(c, status))
    return false;
  if (status == MHD_HTTP_HTTP_VERSION_NOT_SUPPORTED)
    loop_group_log_protocol(&l->all->group);
  return true;
}

static bool received(void *loop_pointer, int socket_fd, char *data, size_t size)
{
  loop *l = loop_pointer;
  connection *c = connections_find(l->all->connections, socket_fd);
  const scan_fault *fault = c == NULL ? NULL : connection_read(c, data, size);
  return fault == NULL || !refuse(l, c, fault->status);
}

static bool sends_error(void *loop_pointer, int socket_fd, unsigned status)
{
  loop *l = loop_pointer;
  connection *c = connections_find(l->all->connections, socket_fd);
  return c != NULL && refuse(l, c, status);
}

// --- The thread

// With TLS libmicrohttpd reports work while a handshake waits for its client. Real work ends within
// a few passes or moves bytes.
#define MAX_IDLE_PASSES 32

static bool has_work_left(loop *l)
{
  MHD_UNSIGNED_LONG_LONG timeout_ms;
  if (MHD_get_timeout(l->daemon, &timeout_ms) != MHD_YES || timeout_ms != 0)
    return false;
  bool tls = l->all->listener->options.tls->certificate != NULL;
  return !tls || ++l->idle_passes <= MAX_IDLE_PASSES;
}

// One pass. False when the loop may sleep.
static bool pass(loop *l)
{
  uint64_t progress = l->progress;
  uint64_t moves = l->tls.moves;
  loop_core_begin_pass(&l->core);
  loop_core_take_arrivals(&l->core, take_on);
  MHD_run_wait(l->daemon, 0);
  if (atomic_load(&l->closes_idle) && atomic_exchange(&l->closes_idle, false))
    connections_close_idle(l->all->connections, l);
  if (l->progress != progress || l->tls.moves != moves)
    l->idle_passes = 0;
  if (l->progress == progress)
    return has_work_left(l) || loop_core_polls(&l->core);
  loop_core_progressed(&l->core);
  return true;
}

static void *run(void *loop_pointer)
{
  loop *l = loop_pointer;
  struct epoll_event event;
  const bool tls = l->all->listener->options.tls->certificate != NULL;
  const library_watch watch = {.received = received,
                               .sends_error = sends_error,
                               .socket_of = tls ? tls_wire_socket : NULL,
                               .send_record = tls_wire_send,
                               .context = l};
  library_calls_watch(&watch);
  while (!atomic_load(&l->all->group.stopping)) {
    if (pass(l))
      continue;
    loop_core_sleep(&l->core, &event, 1, -1);
    l->idle_passes = 0;
  }
  library_calls_watch(NULL);
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
  const tls_identity *tls = l->all->listener->options.tls;
  if (tls->certificate != NULL)
    flags |= MHD_USE_TLS;
  struct MHD_OptionItem options[] = {
      {MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY_BYTES, NULL},
      {MHD_OPTION_CONNECTION_LIMIT, UNLIMITED_CONNECTIONS, NULL},
      {MHD_OPTION_STRICT_FOR_CLIENT, LIBRARY_STRICTNESS, NULL},
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
  return MHD_start_daemon(flags, 0, NULL, NULL, l->all->calls->handle, l,
                          MHD_OPTION_EXTERNAL_LOGGER, log_line, l, MHD_OPTION_NOTIFY_COMPLETED,
                          l->all->calls->completed, l, MHD_OPTION_NOTIFY_CONNECTION,
                          connection_changed, l, MHD_OPTION_UNESCAPE_CALLBACK, head_leave_encoded,
                          NULL, MHD_OPTION_URI_LOG_CALLBACK, request_began, l, MHD_OPTION_ARRAY,
                          options, MHD_OPTION_ARRAY, tls_options, MHD_OPTION_END);
}

static error *start_loop(loop *l)
{
  bool opened = loop_core_open(&l->core, &l->all->group);
  l->tls.epoll_fd = l->core.epoll_fd;
  l->daemon = start_daemon(l);
  if (l->daemon == NULL)
    return error_new(ERROR_UNAVAILABLE, "cannot start an HTTP loop: libmicrohttpd refuses");
  const union MHD_DaemonInfo *info = MHD_get_daemon_info(l->daemon, MHD_DAEMON_INFO_EPOLL_FD);
  struct epoll_event event = {.events = EPOLLIN};
  if (!opened || info == NULL ||
      epoll_ctl(l->core.epoll_fd, EPOLL_CTL_ADD, info->epoll_fd, &event) != 0)
    return error_new(ERROR_UNAVAILABLE, "cannot start an HTTP loop: %s", strerror(errno));
  return loop_core_start(&l->core, "http-loop", run, l);
}

error *loops_new(listener *l, const exchange_calls *calls, connections *connections, loops **result)
{
  const unsigned count = l->options.thread_count;
  size_t size;
  bool fits = checked_array_size(sizeof(loops), count, sizeof(loop), &size);
  loops *all = fits ? calloc(1, size) : NULL;
  if (all == NULL)
    return error_no_memory();
  all->calls = calls;
  all->listener = l;
  all->connections = connections;
  loop_group_init(&all->group, l->protocol->name, "HTTP/1.0 and HTTP/1.1", count,
                  l->options.busy_poll_us);
  error *failure = NULL;
  for (unsigned i = 0; i < count && failure == NULL; i++) {
    all->loops[i].all = all;
    failure = start_loop(&all->loops[i]);
  }
  if (failure != NULL)
    loops_free(all);
  else
    *result = all;
  return failure;
}

void loops_stop(loops *all)
{
  if (all == NULL || atomic_exchange(&all->group.stopping, true))
    return;
  for (unsigned i = 0; i < all->group.count; i++) {
    loop *l = &all->loops[i];
    loop_core_join(&l->core);
    loop_core_take_arrivals(&l->core, NULL);
    assert(l->core.in_flight == 0); // no connection is suspended
    if (l->daemon != NULL)
      MHD_stop_daemon(l->daemon);
    assert(atomic_load(&l->open) == 0);
  }
}

void loops_free(loops *all)
{
  if (all == NULL)
    return;
  loops_stop(all);
  for (unsigned i = 0; i < all->group.count; i++) {
    loop *l = &all->loops[i];
    loop_core_take_arrivals(&l->core, NULL); // arrivals after the loop had stopped
    loop_core_fini(&l->core);
  }
  free(all);
}

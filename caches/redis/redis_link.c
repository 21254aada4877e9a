// SPDX-License-Identifier: Apache-2.0
// A non-blocking socket, poll, GnuTLS if TLS is on; hiredis implements the protocol.
#include "caches/redis/redis_link.h"

#include "backend_error.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/wakeup.h"

#include <errno.h>
#include <hiredis.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHUNK_BYTES (64 * 1024)

struct redis_link {
  int socket, end;          // end: the place's wakeup
  gnutls_session_t session; // NULL: without TLS
  reply_reader reader;
  char chunk[CHUNK_BYTES];
};

// ---- certificates ----

static TRITONSERVER_Error *bad_file(const char *setting, const char *path, int code)
{
  return backend_error(TRITONSERVER_ERROR_INVALID_ARG,
                       "Failed to initialize RedisCache: %s '%s' cannot be used: %s", setting, path,
                       gnutls_strerror(code));
}

static TRITONSERVER_Error *read_certificates(gnutls_certificate_credentials_t to,
                                             const redis_settings *s)
{
  int code = 0;
  if (s->cacert != NULL &&
      (code = gnutls_certificate_set_x509_trust_file(to, s->cacert, GNUTLS_X509_FMT_PEM)) <= 0)
    return bad_file("cacert", s->cacert, code);
  if (s->cacert_dir != NULL &&
      (code = gnutls_certificate_set_x509_trust_dir(to, s->cacert_dir, GNUTLS_X509_FMT_PEM)) < 0)
    return bad_file("cacert_dir", s->cacert_dir, code);
  if (s->cacert == NULL && s->cacert_dir == NULL)
    gnutls_certificate_set_x509_system_trust(to);
  if (s->cert != NULL &&
      (code = gnutls_certificate_set_x509_key_file(to, s->cert, s->key == NULL ? s->cert : s->key,
                                                   GNUTLS_X509_FMT_PEM)) < 0)
    return bad_file("cert", s->cert, code);
  return NULL;
}

TRITONSERVER_Error *redis_place_init(redis_place *place, const redis_settings *s)
{
  *place = (redis_place){.settings = s, .end = wakeup_new()};
  if (place->end < 0)
    return backend_error(TRITONSERVER_ERROR_UNAVAILABLE, "no descriptor for the cache: %s",
                         strerror(errno));
  if (!s->tls)
    return NULL;
  if (gnutls_certificate_allocate_credentials(&place->credentials) < 0)
    return backend_error_no_memory("certificates");
  return read_certificates(place->credentials, s);
}

void redis_place_fini(redis_place *place)
{
  if (place->credentials != NULL)
    gnutls_certificate_free_credentials(place->credentials);
  if (place->end >= 0)
    close(place->end);
}

// ---- waiting ----

static TRITONSERVER_Error *timed_out(void)
{
  return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "no answer in time");
}

static TRITONSERVER_Error *failed(const char *what)
{
  return backend_error(TRITONSERVER_ERROR_UNAVAILABLE, "%s", what);
}

// Waits until the socket can be read or written.
static TRITONSERVER_Error *wait_for(int socket, int end, short events, uint64_t deadline_ns)
{
  while (true) {
    uint64_t now = clock_monotonic_ns();
    uint64_t left = deadline_ns > now ? deadline_ns - now : 0;
    const struct timespec rest = {.tv_sec = (time_t)(left / 1000000000u),
                                  .tv_nsec = (long)(left % 1000000000u)};
    struct pollfd waited[] = {{.fd = socket, .events = events}, {.fd = end, .events = POLLIN}};
    int ready = ppoll(waited, 2, &rest, NULL);
    if (ready > 0 && waited[1].revents != 0)
      return failed("the server ends");
    if (ready > 0)
      return NULL; // the next call reports what is wrong
    if (ready == 0)
      return timed_out();
    if (errno != EINTR)
      return failed(strerror(errno));
  }
}

// ---- connecting ----

static TRITONSERVER_Error *unreachable(const redis_settings *s, const char *why)
{
  return backend_error(TRITONSERVER_ERROR_UNAVAILABLE, "failed to connect to Redis (%s:%s): %s",
                       s->host, s->port, why);
}

// A connected socket, or -1 with *why.
static int connect_to(const struct addrinfo *address, int end, uint64_t deadline_ns, int *why)
{
  int yes = 1;
  socklen_t size = sizeof(*why);
  int s = socket(address->ai_family, address->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  *why = errno;
  if (s < 0)
    return -1;
  setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  setsockopt(s, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes));
  *why = connect(s, address->ai_addr, address->ai_addrlen) == 0 ? 0 : errno;
  if (*why == EINPROGRESS) {
    TRITONSERVER_Error *late = wait_for(s, end, POLLOUT, deadline_ns);
    TRITONSERVER_ErrorDelete(late);
    if (late != NULL)
      *why = ETIMEDOUT;
    else if (getsockopt(s, SOL_SOCKET, SO_ERROR, why, &size) != 0)
      *why = errno;
  }
  if (*why == 0)
    return s;
  close(s);
  return -1;
}

static TRITONSERVER_Error *connect_any(const redis_place *place, uint64_t deadline_ns, int *socket)
{
  const redis_settings *s = place->settings;
  const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  struct addrinfo *addresses;
  int why = 0;
  int code = getaddrinfo(s->host, s->port, &hints, &addresses);
  if (code != 0)
    return unreachable(s, code == EAI_SYSTEM ? strerror(errno) : gai_strerror(code));
  *socket = -1;
  for (const struct addrinfo *a = addresses; a != NULL && *socket < 0; a = a->ai_next)
    *socket = connect_to(a, place->end, deadline_ns, &why);
  freeaddrinfo(addresses);
  return *socket < 0 ? unreachable(s, strerror(why)) : NULL;
}

// ---- TLS ----

static TRITONSERVER_Error *await_session(const redis_link *link, uint64_t deadline_ns)
{
  return wait_for(link->socket, link->end,
                  gnutls_record_get_direction(link->session) == 0 ? POLLIN : POLLOUT, deadline_ns);
}

static TRITONSERVER_Error *begin_session(redis_link *link, const redis_place *place)
{
  const redis_settings *s = place->settings;
  const char *name = s->sni != NULL ? s->sni : s->host;
  if (gnutls_init(&link->session, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL) < 0 ||
      gnutls_set_default_priority(link->session) < 0 ||
      gnutls_credentials_set(link->session, GNUTLS_CRD_CERTIFICATE, place->credentials) < 0 ||
      (s->sni != NULL &&
       gnutls_server_name_set(link->session, GNUTLS_NAME_DNS, s->sni, strlen(s->sni)) < 0))
    return backend_error_no_memory("a TLS session");
  gnutls_session_set_verify_cert(link->session, s->verify_host ? name : NULL, 0);
  gnutls_transport_set_int(link->session, link->socket);
  return NULL;
}

static TRITONSERVER_Error *shake_hands(redis_link *link, const redis_place *place,
                                       uint64_t deadline_ns)
{
  int code;
  BACKEND_RETURN_IF_ERROR(begin_session(link, place));
  while ((code = gnutls_handshake(link->session)) < 0) {
    if (gnutls_error_is_fatal(code))
      return unreachable(place->settings, gnutls_strerror(code));
    BACKEND_RETURN_IF_ERROR(await_session(link, deadline_ns));
  }
  return NULL;
}

// ---- bytes ----

// Sends a part; *moved 0: wait first.
static TRITONSERVER_Error *write_some(const redis_link *link, const char *data, size_t size,
                                      size_t *moved)
{
  ssize_t sent = link->session != NULL ? gnutls_record_send(link->session, data, size)
                                       : send(link->socket, data, size, MSG_NOSIGNAL);
  *moved = sent > 0 ? (size_t)sent : 0;
  if (sent >= 0)
    return NULL;
  if (link->session != NULL)
    return gnutls_error_is_fatal((int)sent) ? failed(gnutls_strerror((int)sent)) : NULL;
  return errno == EAGAIN || errno == EINTR ? NULL : failed(strerror(errno));
}

static TRITONSERVER_Error *read_some(redis_link *link, size_t *moved)
{
  ssize_t got = link->session != NULL ? gnutls_record_recv(link->session, link->chunk, CHUNK_BYTES)
                                      : recv(link->socket, link->chunk, CHUNK_BYTES, 0);
  *moved = got > 0 ? (size_t)got : 0;
  if (got > 0)
    return NULL;
  if (got == 0)
    return failed("the connection was closed");
  if (link->session != NULL)
    return gnutls_error_is_fatal((int)got) ? failed(gnutls_strerror((int)got)) : NULL;
  return errno == EAGAIN || errno == EINTR ? NULL : failed(strerror(errno));
}

static TRITONSERVER_Error *await(const redis_link *link, short events, uint64_t deadline_ns)
{
  return link->session != NULL ? await_session(link, deadline_ns)
                               : wait_for(link->socket, link->end, events, deadline_ns);
}

static TRITONSERVER_Error *write_all(const redis_link *link, const char *data, size_t size,
                                     uint64_t deadline_ns)
{
  size_t moved;
  for (; size > 0; data += moved, size -= moved) {
    BACKEND_RETURN_IF_ERROR(write_some(link, data, size, &moved));
    if (moved == 0)
      BACKEND_RETURN_IF_ERROR(await(link, POLLOUT, deadline_ns));
    else if (clock_monotonic_ns() > deadline_ns && moved < size)
      return timed_out(); // Redis reads, but too slowly
  }
  return NULL;
}

// ---- commands ----

TRITONSERVER_Error *redis_link_send(redis_link *link, int count, const char **words,
                                    const size_t *sizes, uint64_t deadline_ns)
{
  char *text = NULL;
  long long size = redisFormatCommandArgv(&text, count, words, sizes);
  if (size < 0)
    return backend_error_no_memory("a command for Redis");
  TRITONSERVER_Error *e = write_all(link, text, (size_t)size, deadline_ns);
  free(text);
  return e;
}

TRITONSERVER_Error *redis_link_receive(redis_link *link, redis_reply *reply, uint64_t deadline_ns)
{
  size_t moved = 0;
  reply_progress progress;
  reply_reader_begin(&link->reader, reply);
  while ((progress = reply_reader_feed(&link->reader, link->chunk, moved)) == REPLY_WANTS_MORE) {
    BACKEND_RETURN_IF_ERROR(read_some(link, &moved));
    if (moved == 0)
      BACKEND_RETURN_IF_ERROR(await(link, POLLIN, deadline_ns));
    else if (clock_monotonic_ns() > deadline_ns)
      return timed_out(); // the reply comes too slowly
  }
  return progress == REPLY_COMPLETE ? NULL : failed("what came is no reply of a Redis");
}

static TRITONSERVER_Error *ask(redis_link *link, int count, const char **words, redis_reply *reply,
                               uint64_t deadline_ns)
{
  BACKEND_RETURN_IF_ERROR(redis_link_send(link, count, words, NULL, deadline_ns));
  BACKEND_RETURN_IF_ERROR(redis_link_receive(link, reply, deadline_ns));
  return reply->kind != REPLY_ERROR ? NULL
                                    : backend_error(TRITONSERVER_ERROR_UNAVAILABLE, "%.200s",
                                                    redis_reply_text(reply, 0).data);
}

// Logs in, selects the database, and checks that it is a Redis with its data loaded.
static TRITONSERVER_Error *introduce(redis_link *link, const redis_settings *s,
                                     uint64_t deadline_ns)
{
  redis_reply reply = {0};
  bool has_user = s->user != NULL && strcmp(s->user, "default") != 0;
  const char *login[] = {"AUTH", s->user, s->password}, *password[] = {"AUTH", s->password},
             *choose[] = {"SELECT", s->db}, *ping[] = {"PING"};
  TRITONSERVER_Error *e = NULL;
  if (s->password != NULL && has_user)
    e = ask(link, 3, login, &reply, deadline_ns);
  else if (s->password != NULL)
    e = ask(link, 2, password, &reply, deadline_ns);
  if (e == NULL && s->db != NULL)
    e = ask(link, 2, choose, &reply, deadline_ns);
  if (e == NULL)
    e = ask(link, 1, ping, &reply, deadline_ns);
  redis_reply_fini(&reply);
  return e;
}

// ---- life ----

TRITONSERVER_Error *redis_link_open(const redis_place *place, uint64_t deadline_ns,
                                    redis_link **result)
{
  redis_link *link = malloc(sizeof(*link));
  if (link == NULL)
    return backend_error_no_memory("a connection to Redis");
  link->session = NULL;
  link->socket = -1;
  link->end = place->end;
  TRITONSERVER_Error *e =
      reply_reader_init(&link->reader) ? NULL : backend_error_no_memory("a connection to Redis");
  if (e == NULL)
    e = connect_any(place, deadline_ns, &link->socket);
  if (e == NULL && place->settings->tls)
    e = shake_hands(link, place, deadline_ns);
  if (e == NULL)
    e = introduce(link, place->settings, deadline_ns);
  if (e != NULL) {
    redis_link_close(link);
    return e;
  }
  *result = link;
  return NULL;
}

void redis_link_close(redis_link *link)
{
  if (link == NULL)
    return;
  if (link->session != NULL)
    gnutls_deinit(link->session);
  if (link->socket >= 0)
    close(link->socket);
  reply_reader_fini(&link->reader);
  free(link);
}

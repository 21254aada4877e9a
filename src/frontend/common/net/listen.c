// SPDX-License-Identifier: Apache-2.0
// Opens listening sockets. Runs on the thread that starts a listener.
#include "frontend/common/net/listen.h"

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static error *cannot_listen(const char *where, int reason)
{
  if (reason == EADDRINUSE)
    return error_new(ERROR_UNAVAILABLE, "Socket '%s' already in use ", where);
  return error_new(ERROR_UNAVAILABLE, "cannot listen on '%s': %s", where, strerror(reason));
}

static error *out_of_memory_if(const void *missing)
{
  return missing == NULL ? error_no_memory() : NULL;
}

// ---- TCP ----

// "ipv6:::1" and "[::1]" are other ways to write ::1.
static char *host_of(const char *address)
{
  slice host = slice_of(address);
  if (text_starts_with(address, "ipv4:") || text_starts_with(address, "ipv6:"))
    host = slice_of(address + 5);
  if (host.size > 2 && host.data[0] == '[' && host.data[host.size - 1] == ']')
    host = (slice){host.data + 1, host.size - 2};
  return text_copy(host);
}

static error *resolve(const char *address, unsigned port, struct addrinfo **found)
{
  struct addrinfo hints = {
      .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
  char port_text[12];
  AUTO_FREE char *host = host_of(address);
  RETURN_IF_ERROR(out_of_memory_if(host));
  snprintf(port_text, sizeof(port_text), "%u", port);
  int failure = getaddrinfo(host, port_text, &hints, found);
  if (failure != 0)
    return error_new(ERROR_INVALID_ARG, "'%s' is no address to listen on: %s", address,
                     gai_strerror(failure));
  return NULL;
}

static bool bind_tcp(int socket_fd, const struct addrinfo *where, bool reuse_port)
{
  int on = 1;
  if (setsockopt(socket_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0)
    return false;
  if (reuse_port && setsockopt(socket_fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) != 0)
    return false;
  setsockopt(socket_fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return bind(socket_fd, where->ai_addr, where->ai_addrlen) == 0;
}

static bool get_port(int socket_fd, unsigned *port)
{
  struct sockaddr_storage where;
  socklen_t size = sizeof(where);
  if (getsockname(socket_fd, (struct sockaddr *)&where, &size) != 0)
    return false;
  *port = ntohs(where.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&where)->sin6_port
                                            : ((struct sockaddr_in *)&where)->sin_port);
  return true;
}

static error *set_where(listen_socket *s, const char *address, unsigned port)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  free(s->where);
  buffer_append_format(&text, "%s:%u", address, port);
  s->where = buffer_take_text(&text);
  return out_of_memory_if(s->where);
}

static error *bind_new(const listen_options *options, listen_socket *s)
{
  struct addrinfo *found;
  RETURN_IF_ERROR(set_where(s, options->address, options->port));
  RETURN_IF_ERROR(resolve(options->address, options->port, &found));
  s->socket_fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  bool bound = s->socket_fd >= 0 && bind_tcp(s->socket_fd, found, options->reuse_port);
  int reason = errno;
  freeaddrinfo(found);
  return bound ? NULL : cannot_listen(s->where, reason);
}

static error *listen_tcp(const char *address, listen_socket *s)
{
  unsigned port;
  return listen(s->socket_fd, LISTEN_BACKLOG) == 0 && get_port(s->socket_fd, &port)
             ? set_where(s, address, port)
             : cannot_listen(s->where, errno);
}

static error *open_tcp(const listen_options *options, listen_socket *s)
{
  RETURN_IF_ERROR(bind_new(options, s));
  return listen_tcp(options->address, s);
}

error *listen_reserve(const listen_options *options, int *socket_fd)
{
  listen_socket s = {.socket_fd = -1};
  int off = 0; // else another socket that does not listen either may bind the same port
  error *e = bind_new(options, &s);
  if (e == NULL && setsockopt(s.socket_fd, SOL_SOCKET, SO_REUSEADDR, &off, sizeof(off)) != 0)
    e = cannot_listen(s.where, errno);
  if (e == NULL) {
    *socket_fd = s.socket_fd;
    s.socket_fd = -1;
  }
  listen_fini(&s);
  return e;
}

// ---- Unix ----

error *listen_unix_address(const char *name, struct sockaddr_un *address, socklen_t *size)
{
  size_t length = strlen(name);
  *address = (struct sockaddr_un){.sun_family = AF_UNIX};
  if (length < 1 + (size_t)(name[0] == '@') || length >= sizeof(address->sun_path))
    return error_new(ERROR_INVALID_ARG,
                     "'" LISTEN_UNIX_PREFIX
                     "%s' is no address to listen on: expected a path or @<name> "
                     "of less than %zu bytes, it has %zu",
                     name, sizeof(address->sun_path), length);
  memcpy(address->sun_path, name, length);
  *size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
  if (name[0] == '@')
    address->sun_path[0] = '\0';
  else
    *size += 1;
  return NULL;
}

// Is the file a socket that nobody listens on? Then its server ended without removing it.
static bool is_stale(const struct sockaddr_un *address, socklen_t size)
{
  struct stat status;
  AUTO_CLOSE int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  return lstat(address->sun_path, &status) == 0 && S_ISSOCK(status.st_mode) && probe >= 0 &&
         connect(probe, (const struct sockaddr *)address, size) != 0 && errno == ECONNREFUSED;
}

static bool bind_unix(int socket_fd, const struct sockaddr_un *address, socklen_t size)
{
  const struct sockaddr *where = (const struct sockaddr *)address;
  if (bind(socket_fd, where, size) == 0)
    return true;
  if (errno != EADDRINUSE || address->sun_path[0] == '\0')
    return false;
  bool replaced = is_stale(address, size) && unlink(address->sun_path) == 0;
  errno = EADDRINUSE;
  return replaced && bind(socket_fd, where, size) == 0;
}

// Notes which file was made, so that only this one is removed at the end.
static error *record_file(listen_socket *s)
{
  struct stat status;
  if (stat(s->path, &status) != 0)
    return cannot_listen(s->where, errno);
  s->device = status.st_dev;
  s->file = status.st_ino;
  return NULL;
}

static error *open_unix(const listen_options *options, listen_socket *s)
{
  const char *name = options->address + strlen(LISTEN_UNIX_PREFIX);
  struct sockaddr_un address;
  socklen_t size;
  RETURN_IF_ERROR(listen_unix_address(name, &address, &size));
  s->where = text_copy(slice_of(options->address));
  RETURN_IF_ERROR(out_of_memory_if(s->where));
  s->socket_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  // The file of a Unix socket gets the mode that the socket has before the bind, so it is never
  // wider than asked for.
  if (s->socket_fd < 0 ||
      (options->unix_mode != 0 && fchmod(s->socket_fd, options->unix_mode) != 0) ||
      !bind_unix(s->socket_fd, &address, size))
    return cannot_listen(s->where, errno);
  if (name[0] != '@') {
    s->path = text_copy(slice_of(name));
    RETURN_IF_ERROR(out_of_memory_if(s->path));
    RETURN_IF_ERROR(record_file(s));
    if (options->unix_mode != 0 && chmod(s->path, options->unix_mode) != 0)
      return cannot_listen(s->where, errno);
  }
  return listen(s->socket_fd, LISTEN_BACKLOG) == 0 ? NULL : cannot_listen(s->where, errno);
}

// ---- given ----

static error *name_given_unix(const struct sockaddr_un *address, socklen_t size, listen_socket *s)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  size_t length = size - offsetof(struct sockaddr_un, sun_path);
  bool is_abstract = length > 0 && address->sun_path[0] == '\0';
  const char *name = address->sun_path + is_abstract;
  buffer_append_format(&text, LISTEN_UNIX_PREFIX "%s%.*s", is_abstract ? "@" : "",
                       (int)(is_abstract ? length - 1 : strnlen(name, length)), name);
  s->is_unix = true;
  s->where = buffer_take_text(&text);
  return out_of_memory_if(s->where);
}

static error *open_given_unix(const listen_options *options, const struct sockaddr_un *address,
                              socklen_t size, listen_socket *s)
{
  RETURN_IF_ERROR(name_given_unix(address, size, s));
  if (options->given_file != 0) {
    s->path = text_copy(slice_of(s->where + strlen(LISTEN_UNIX_PREFIX)));
    RETURN_IF_ERROR(out_of_memory_if(s->path));
    s->device = options->given_device;
    s->file = options->given_file;
    s->lent = true;
  }
  return listen(s->socket_fd, LISTEN_BACKLOG) == 0 ? NULL : cannot_listen(s->where, errno);
}

static error *open_given(const listen_options *options, listen_socket *s)
{
  struct sockaddr_storage where;
  socklen_t size = sizeof(where), type_size = sizeof(int);
  char host[NI_MAXHOST], name[NI_MAXHOST + 2];
  int type = 0, on = 1;
  s->socket_fd = options->given;
  if (getsockopt(s->socket_fd, SOL_SOCKET, SO_TYPE, &type, &type_size) != 0 ||
      type != SOCK_STREAM || getsockname(s->socket_fd, (struct sockaddr *)&where, &size) != 0)
    return error_new(ERROR_INVALID_ARG, "descriptor %d is no stream socket", s->socket_fd);
  if (fcntl(s->socket_fd, F_SETFD, FD_CLOEXEC) != 0 ||
      fcntl(s->socket_fd, F_SETFL, O_NONBLOCK) != 0)
    return cannot_listen("a given socket", errno);
  if (where.ss_family == AF_UNIX)
    return open_given_unix(options, (struct sockaddr_un *)&where, size, s);
  int failure =
      getnameinfo((struct sockaddr *)&where, size, host, sizeof(host), NULL, 0, NI_NUMERICHOST);
  if (failure != 0)
    return error_new(ERROR_INVALID_ARG, "descriptor %d is at no address to listen on: %s",
                     s->socket_fd, gai_strerror(failure));
  (void)setsockopt(s->socket_fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  (void)setsockopt(s->socket_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  snprintf(name, sizeof(name), where.ss_family == AF_INET6 ? "[%s]" : "%s", host);
  RETURN_IF_ERROR(set_where(s, name, 0));
  return listen_tcp(options->address != NULL ? options->address : name, s);
}

// ---- whose address is it ----

static bool is_at_unix(const char *name, const struct sockaddr_un *where, socklen_t size,
                       uint64_t device, uint64_t file)
{
  struct sockaddr_un wanted;
  socklen_t wanted_size;
  struct stat status;
  AUTO_ERROR error *e = listen_unix_address(name, &wanted, &wanted_size);
  if (e != NULL || size != wanted_size || memcmp(&wanted, where, size) != 0)
    return false;
  return name[0] == '@' ||
         (stat(name, &status) == 0 && status.st_dev == device && status.st_ino == file);
}

static bool is_at_tcp(const struct addrinfo *wanted, const struct sockaddr_storage *where)
{
  if (wanted->ai_family != where->ss_family)
    return false;
  if (where->ss_family == AF_INET) {
    const struct sockaddr_in *a = (const struct sockaddr_in *)(const void *)wanted->ai_addr;
    const struct sockaddr_in *b = (const struct sockaddr_in *)(const void *)where;
    return a->sin_addr.s_addr == b->sin_addr.s_addr &&
           (a->sin_port == 0 || a->sin_port == b->sin_port);
  }
  const struct sockaddr_in6 *a = (const struct sockaddr_in6 *)(const void *)wanted->ai_addr;
  const struct sockaddr_in6 *b = (const struct sockaddr_in6 *)(const void *)where;
  return memcmp(&a->sin6_addr, &b->sin6_addr, sizeof(a->sin6_addr)) == 0 &&
         a->sin6_scope_id == b->sin6_scope_id &&
         (a->sin6_port == 0 || a->sin6_port == b->sin6_port);
}

bool listen_is_at(const listen_options *options, int socket_fd, uint64_t device, uint64_t file)
{
  struct sockaddr_storage where = {0};
  socklen_t size = sizeof(where);
  struct addrinfo *found;
  if (getsockname(socket_fd, (struct sockaddr *)&where, &size) != 0)
    return false;
  if (listen_is_unix(options->address))
    return where.ss_family == AF_UNIX &&
           is_at_unix(options->address + strlen(LISTEN_UNIX_PREFIX),
                      (const struct sockaddr_un *)(const void *)&where, size, device, file);
  AUTO_ERROR error *e = resolve(options->address, options->port, &found);
  if (e != NULL)
    return false;
  bool same = is_at_tcp(found, &where);
  freeaddrinfo(found);
  return same;
}

// ---- all ----

bool listen_is_unix(const char *address)
{
  return text_starts_with(address, LISTEN_UNIX_PREFIX);
}

error *listen_open(const listen_options *options, listen_socket *s)
{
  *s = (listen_socket){.socket_fd = -1};
  if (options->given > 0)
    return open_given(options, s);
  s->is_unix = listen_is_unix(options->address);
  return s->is_unix ? open_unix(options, s) : open_tcp(options, s);
}

void listen_remove(listen_socket *s)
{
  struct stat status;
  if (s->path != NULL && !s->lent && lstat(s->path, &status) == 0 && status.st_dev == s->device &&
      status.st_ino == s->file)
    unlink(s->path);
  free(s->path);
  s->path = NULL;
}

void listen_lend(listen_socket *s)
{
  s->lent = true;
}

void listen_own(listen_socket *s)
{
  s->lent = false;
}

void listen_close(listen_socket *s)
{
  if (s->socket_fd >= 0)
    close(s->socket_fd);
  s->socket_fd = -1;
}

void listen_fini(listen_socket *s)
{
  listen_remove(s);
  listen_close(s);
  free(s->where);
}

// Opens listening sockets. Called by whoever starts a listener.
#include "frontend/http/listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static error *resolve(const char *address, uint16_t port, struct addrinfo **found)
{
  struct addrinfo hints = {
      .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
  char port_text[8];
  snprintf(port_text, sizeof(port_text), "%u", port);
  int failure = getaddrinfo(address, port_text, &hints, found);
  if (failure != 0)
    return error_new(ERROR_INVALID_ARG, "'%s' is no address to listen on: %s", address,
                     gai_strerror(failure));
  return NULL;
}

static bool bind_and_listen(int socket_fd, const struct addrinfo *where, bool reuse_port,
                            unsigned backlog)
{
  int on = 1;
  if (setsockopt(socket_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0)
    return false;
  if (reuse_port && setsockopt(socket_fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) != 0)
    return false;
  setsockopt(socket_fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (bind(socket_fd, where->ai_addr, where->ai_addrlen) != 0)
    return false;
  return listen(socket_fd, (int)backlog) == 0;
}

static bool get_port(int socket_fd, uint16_t *port)
{
  struct sockaddr_storage where;
  socklen_t size = sizeof(where);
  if (getsockname(socket_fd, (struct sockaddr *)&where, &size) != 0)
    return false;
  *port = ntohs(where.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&where)->sin6_port
                                            : ((struct sockaddr_in *)&where)->sin_port);
  return true;
}

error *listen_open(const char *address, uint16_t port, bool reuse_port, unsigned backlog,
                   int *socket_fd, uint16_t *bound_port)
{
  struct addrinfo *found;
  RETURN_IF_ERROR(resolve(address, port, &found));
  int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  bool listening =
      fd >= 0 && bind_and_listen(fd, found, reuse_port, backlog) && get_port(fd, bound_port);
  int reason = errno;
  freeaddrinfo(found);
  if (!listening) {
    if (fd >= 0)
      close(fd);
    if (reason == EADDRINUSE)
      return error_new(ERROR_UNAVAILABLE, "Socket '%s:%u' already in use ", address, port);
    return error_new(ERROR_UNAVAILABLE, "cannot listen on '%s:%u': %s", address, port,
                     strerror(reason));
  }
  *socket_fd = fd;
  return NULL;
}

// Reads socket addresses.
#include "frontend/protocol/peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>

const char *const peer_proxy_headers[] = {"forwarded", "x-forwarded-for", "x-real-ip", NULL};

static bool is_loopback_v6(const struct in6_addr *address)
{
  return IN6_IS_ADDR_LOOPBACK(address) ||
         (IN6_IS_ADDR_V4MAPPED(address) && address->s6_addr[12] == 127);
}

bool peer_is_local(const struct sockaddr *address)
{
  if (address->sa_family == AF_INET) {
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
    return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
  }
  if (address->sa_family == AF_INET6)
    return is_loopback_v6(&((const struct sockaddr_in6 *)address)->sin6_addr);
  return address->sa_family == AF_UNIX;
}

void peer_print(const struct sockaddr *address, char *text, size_t size)
{
  char host[INET6_ADDRSTRLEN];
  if (address->sa_family == AF_INET) {
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
    inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
    snprintf(text, size, "%s:%u", host, ntohs(v4->sin_port));
  } else if (address->sa_family == AF_INET6) {
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
    inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
    snprintf(text, size, "[%s]:%u", host, ntohs(v6->sin6_port));
  } else {
    snprintf(text, size, "unix");
  }
}

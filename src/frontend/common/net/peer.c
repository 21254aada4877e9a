// SPDX-License-Identifier: Apache-2.0
// Reads socket addresses, names of hosts, and names of header fields. Resolves no names.
#include "frontend/common/net/peer.h"

#include "base/text.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

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

// ---- hosts ----

// Is the text behind the host empty, or ':' and a port?
static bool is_port_or_nothing(slice text)
{
  uint64_t port;
  if (text.size == 0)
    return true;
  slice digits = {text.data + 1, text.size - 1};
  return text.data[0] == ':' && digits.size > 0 && digits.size <= 5 &&
         isdigit((unsigned char)digits.data[0]) && text_to_uint64(digits, &port) && port <= 65535;
}

static bool is_loopback_text(int family, slice text)
{
  char copy[INET6_ADDRSTRLEN];
  struct sockaddr_storage address = {.ss_family = (sa_family_t)family};
  void *bytes = family == AF_INET ? (void *)&((struct sockaddr_in *)&address)->sin_addr
                                  : (void *)&((struct sockaddr_in6 *)&address)->sin6_addr;
  if (text.size == 0 || text.size >= sizeof(copy) || memchr(text.data, '\0', text.size) != NULL)
    return false;
  memcpy(copy, text.data, text.size);
  copy[text.size] = '\0';
  return inet_pton(family, copy, bytes) == 1 && peer_is_local((struct sockaddr *)&address);
}

bool peer_names_this_machine(slice authority)
{
  static const slice localhost = {"localhost", 9};
  bool in_brackets = authority.size > 0 && authority.data[0] == '[';
  const char *host_end =
      authority.size == 0 ? NULL : memchr(authority.data, in_brackets ? ']' : ':', authority.size);
  if (in_brackets && host_end == NULL)
    return false;
  size_t host_size = host_end == NULL ? authority.size : (size_t)(host_end - authority.data);
  size_t rest_at = host_size + (in_brackets ? 1 : 0);
  if (!is_port_or_nothing((slice){authority.data + rest_at, authority.size - rest_at}))
    return false;
  if (in_brackets)
    return is_loopback_text(AF_INET6, (slice){authority.data + 1, host_size - 1});
  slice host = {authority.data, host_size};
  return (host.size == localhost.size &&
          strncasecmp(host.data, localhost.data, localhost.size) == 0) ||
         is_loopback_text(AF_INET, host);
}

// ---- proxies ----

// In lower case, with '-'. A final '*' stands for any rest.
static const char *const proxy_fields[] = {
    "cdn-loop",       "cf-*",         "client-ip",     "fastly-client-ip",
    "fly-client-ip",  "forwarded*",   "grpcgateway-*", "proxy-connection",
    "true-client-ip", "via",          "x-client-ip",   "x-cluster-client-ip",
    "x-envoy-*",      "x-forwarded*", "x-original-*",  "x-originating-ip",
    "x-proxyuser-ip", "x-real-ip",    "x-remote-addr", "x-remote-ip",
};

// '_' counts as '-', because some gateways write it.
static bool is_like(slice name, const char *pattern)
{
  size_t i = 0;
  for (; i < name.size && pattern[i] != '\0' && pattern[i] != '*'; i++) {
    int c = tolower((unsigned char)name.data[i]);
    if ((c == '_' ? '-' : c) != pattern[i])
      return false;
  }
  return pattern[i] == '*' || (i == name.size && pattern[i] == '\0');
}

bool peer_is_proxy_field(slice name)
{
  static const slice binary = {"-bin", 4}; // gRPC's suffix for fields with binary values
  if (name.size > binary.size &&
      strncasecmp(name.data + name.size - binary.size, binary.data, binary.size) == 0)
    name.size -= binary.size;
  for (size_t i = 0; i < sizeof(proxy_fields) / sizeof(proxy_fields[0]); i++)
    if (is_like(name, proxy_fields[i]))
      return true;
  return false;
}

// ---- for people ----

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

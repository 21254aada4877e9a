// Decides by address and headers; strings are never looked up in the network.
#include "frontend/http/access.h"

#include "base/text.h"
#include "frontend/http/exchange.h"
#include "frontend/http/headers.h"
#include "frontend/http/server.h"
#include "frontend/protocol/peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

// The host of "host:port", "[::1]:port"; a "v6" without brackets is no host.
static slice host_of(slice authority)
{
  if (authority.size > 0 && authority.data[0] == '[') {
    const char *end = memchr(authority.data, ']', authority.size);
    return end == NULL ? (slice){"", 0}
                       : (slice){authority.data + 1, (size_t)(end - authority.data - 1)};
  }
  const char *colon = memchr(authority.data, ':', authority.size);
  return (slice){authority.data, colon == NULL ? authority.size : (size_t)(colon - authority.data)};
}

bool access_names_this_machine(slice authority)
{
  char text[INET6_ADDRSTRLEN];
  struct sockaddr_in v4 = {.sin_family = AF_INET};
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
  slice host = host_of(authority);
  if (host.size >= sizeof(text))
    return false;
  memcpy(text, host.data, host.size);
  text[host.size] = '\0';
  return strcasecmp(text, "localhost") == 0 ||
         (inet_pton(AF_INET, text, &v4.sin_addr) == 1 && peer_is_local((struct sockaddr *)&v4)) ||
         (inet_pton(AF_INET6, text, &v6.sin6_addr) == 1 && peer_is_local((struct sockaddr *)&v6));
}

bool access_is_same_site(slice origin, slice host)
{
  slice rest = origin;
  const char *scheme_end = memmem(rest.data, rest.size, "://", 3);
  if (scheme_end == NULL)
    return false; // "null" is what a page without a site of its own sends
  size_t skipped = (size_t)(scheme_end - rest.data) + 3;
  rest = (slice){rest.data + skipped, rest.size - skipped};
  return rest.size == host.size && strncasecmp(rest.data, host.data, host.size) == 0;
}

static slice header(const exchange *x, const char *name)
{
  const char *value = NULL;
  size_t size = 0;
  MHD_lookup_connection_value_n(x->mhd, MHD_HEADER_KIND, name, strlen(name), &value, &size);
  return value == NULL ? (slice){NULL, 0} : (slice){value, size};
}

static const char *why_stranger(const exchange *x)
{
  const union MHD_ConnectionInfo *info =
      MHD_get_connection_info(x->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
  if (info == NULL || !peer_is_local(info->client_addr))
    return "the client's address is not a loopback address";
  for (size_t i = 0; peer_proxy_headers[i] != NULL; i++)
    if (header(x, peer_proxy_headers[i]).data != NULL)
      return "a proxy forwarded it";
  slice host = header(x, "Host");
  if (host.data != NULL && !access_names_this_machine(host)) // a client without it is no browser
    return "its Host header does not name localhost";
  slice origin = header(x, "Origin");
  if (origin.data != NULL && !access_is_same_site(origin, host))
    return "its Origin header names another site";
  return NULL;
}

static bool is_json(slice content_type)
{
  static const char json[] = "application/json";
  const size_t size = sizeof(json) - 1;
  return content_type.size >= size && strncasecmp(content_type.data, json, size) == 0 &&
         (content_type.size == size || strchr("; \t", content_type.data[size]) != NULL);
}

typedef struct field_search {
  slice name;
  slice value; // of the first
  size_t count;
} field_search;

static enum MHD_Result count_field(void *search_pointer, enum MHD_ValueKind kind, const char *name,
                                   size_t name_size, const char *value, size_t value_size)
{
  (void)kind;
  field_search *search = search_pointer;
  if (name_size != search->name.size || strncasecmp(name, search->name.data, name_size) != 0)
    return MHD_YES;
  if (search->count++ == 0)
    search->value = (slice){value, value_size};
  return MHD_YES;
}

static size_t look_up(void *exchange_pointer, const char *name, slice *value)
{
  const exchange *x = exchange_pointer;
  field_search search = {.name = slice_of(name)};
  MHD_get_connection_values_n(x->mhd, MHD_HEADER_KIND, count_field, &search);
  *value = search.value;
  return search.count;
}

static const restriction *restriction_of(const exchange *x, route_category category)
{
  return &x->http->options.restricted->of[category];
}

bool access_check_key(exchange *x, route_category category)
{
  if (restrictions_admit(x->http->options.restricted, category, look_up, x))
    return true;
  exchange_fail(x, MHD_HTTP_FORBIDDEN, "This API is restricted, expecting header '%s'",
                restriction_of(x, category)->header);
  return false;
}

bool access_admit(exchange *x)
{
  if (!route_category_is_admin(x->route->category))
    return true;
  x->stranger = why_stranger(x);
  bool has_key = restriction_of(x, x->route->category)->header != NULL;
  if (!x->http->options.admin_local_only || has_key)
    return true;
  slice content_type = header(x, "Content-Type");
  if (x->stranger != NULL)
    exchange_fail(
        x, MHD_HTTP_FORBIDDEN,
        "'%s' requests are taken from this machine only, or with a key (--secure), and %s",
        route_category_name(x->route->category), x->stranger);
  else if (x->route->body == BODY_JSON && content_type.data != NULL && !is_json(content_type))
    exchange_fail(x, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE,
                  "invalid Content-Type '%.*s', expected 'application/json'",
                  (int)(content_type.size < 64 ? content_type.size : 64), content_type.data);
  return x->failure == NULL;
}

bool access_admit_upload(exchange *x, const char *what)
{
  if (x->stranger == NULL || x->http->options.allow_model_upload)
    return true;
  exchange_fail(x, MHD_HTTP_FORBIDDEN,
                "%s is taken from this machine only, unless --allow-model-upload is given, and %s",
                what, x->stranger);
  return false;
}

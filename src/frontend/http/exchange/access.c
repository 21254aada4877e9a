// SPDX-License-Identifier: Apache-2.0
// Decides by address and headers.
#include "frontend/http/exchange/access.h"

#include "frontend/common/net/peer.h"
#include "frontend/http/exchange/exchange.h"
#include "frontend/http/exchange/exchange_server.h"

#include <string.h>
#include <strings.h>
#include <sys/socket.h>

bool access_is_same_site(slice origin, slice host)
{
  slice rest = origin;
  const char *scheme_end = memmem(rest.data, rest.size, "://", 3);
  if (scheme_end == NULL)
    return false; // "null": a page without a site
  size_t skipped = (size_t)(scheme_end - rest.data) + 3;
  rest = (slice){rest.data + skipped, rest.size - skipped};
  return rest.size > 0 && rest.size == host.size &&
         strncasecmp(rest.data, host.data, host.size) == 0;
}

typedef struct field_search {
  slice name;
  slice value; // of the first field
  size_t count;
} field_search;

static enum MHD_Result count_field(void *search_pointer, enum MHD_ValueKind kind, const char *name,
                                   size_t name_size, const char *value, size_t value_size)
{
  (void)kind;
  field_search *search = search_pointer;
  if (name_size == search->name.size && strncasecmp(name, search->name.data, name_size) == 0 &&
      search->count++ == 0)
    search->value = (slice){value == NULL ? "" : value, value_size};
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

static enum MHD_Result find_proxy(void *is_proxied, enum MHD_ValueKind kind, const char *name,
                                  size_t name_size, const char *value, size_t value_size)
{
  (void)kind;
  (void)value;
  (void)value_size;
  *(bool *)is_proxied = peer_is_proxy_field((slice){name, name_size});
  return *(bool *)is_proxied ? MHD_NO : MHD_YES;
}

// Why the client does not count as on this machine, or NULL.
static const char *find_remote_reason(exchange *x, slice authority)
{
  bool is_proxied = false;
  slice host, origin;
  const union MHD_ConnectionInfo *info =
      MHD_get_connection_info(x->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
  if (info == NULL || !peer_is_local(info->client_addr))
    return "the client's address is not a loopback address";
  MHD_get_connection_values_n(x->mhd, MHD_HEADER_KIND, find_proxy, &is_proxied);
  if (is_proxied)
    return "a proxy forwarded it";
  if (x->is_http_1_0) // uploading clients speak 1.1, but nginx as a proxy speaks 1.0
    return "it is in HTTP/1.0, as proxies send it";
  if (look_up(x, "Host", &host) > 0 && !peer_names_this_machine(host)) // absent: no browser sent it
    return "its Host header does not name localhost";
  if (authority.size > 0 && !peer_names_this_machine(authority))
    return "its URL does not name localhost";
  if (authority.size > 0)
    host = authority;
  size_t origins = look_up(x, "Origin", &origin);
  if (origins > 1 || (origins == 1 && !access_is_same_site(origin, host)))
    return "its Origin header names another site";
  return NULL;
}

bool access_check_key(exchange *x, route_category category)
{
  const restrictions *restricted = &x->http->options.access->restricted;
  if (restrictions_admit(restricted, category, look_up, x))
    return true;
  return exchange_fail(x, MHD_HTTP_FORBIDDEN, "This API is restricted, expecting header '%s'",
                       restricted->of[category].header);
}

bool access_admit(exchange *x, slice authority)
{
  const access_policy *policy = x->http->options.access;
  route_category category = x->route->category;
  if (access_policy_is_closed(policy, category))
    return exchange_fail(x, MHD_HTTP_FORBIDDEN, ACCESS_CLOSED_FORMAT,
                         route_category_name(category));
  if (category == CATEGORY_MODEL_REPOSITORY && !access_policy_takes_code(policy))
    x->remote_reason = find_remote_reason(x, authority);
  return true;
}

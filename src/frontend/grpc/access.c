// Decides by address and metadata. A web page cannot speak gRPC to a port, so the host and origin
// that HTTP looks at do not matter here.
#include "frontend/grpc/access.h"

#include "frontend/grpc/call.h"
#include "frontend/grpc/connection.h"
#include "frontend/grpc/server.h"
#include "frontend/protocol/peer.h"

static size_t look_up(const call *c, const char *name, slice *value)
{
  size_t count = 0;
  for (size_t i = 0; i < c->metadata_count; i++)
    if (slice_equal_text(c->metadata[i].name, name) && count++ == 0)
      *value = c->metadata[i].value;
  return count;
}

static size_t look_up_key(void *call_pointer, const char *name, slice *value)
{
  return look_up(call_pointer, name, value);
}

// Why the client does not count as being on this machine, or NULL.
static const char *why_stranger(const call *c)
{
  slice value;
  if (!c->kept_connection->is_local)
    return "the client's address is not a loopback address";
  for (size_t i = 0; peer_proxy_headers[i] != NULL; i++)
    if (look_up(c, peer_proxy_headers[i], &value) > 0)
      return "a proxy forwarded it";
  return NULL;
}

void grpc_access_admit(call *c)
{
  const grpc_server_options *options = &c->server->options;
  route_category category = c->method->category;
  bool has_key = options->restricted->of[category].header != NULL;
  bool is_local_only = options->admin_local_only && route_category_is_admin(category) && !has_key;
  const char *stranger = is_local_only ? why_stranger(c) : NULL;
  if (!restrictions_admit(options->restricted, category, look_up_key, c))
    call_fail(c, GRPC_UNAVAILABLE, "This protocol is restricted, expecting header '%s'",
              options->restricted->of[category].header);
  else if (stranger != NULL)
    call_fail(c, GRPC_PERMISSION_DENIED,
              "'%s' calls are taken from this machine only, or with a key (--secure), and %s",
              route_category_name(category), stranger);
}

bool grpc_access_is_code_refused(const call *c)
{
  return !c->server->options.allow_model_upload && why_stranger(c) != NULL;
}

bool grpc_access_admit_code(call *c, const char *what)
{
  if (!grpc_access_is_code_refused(c))
    return true;
  call_fail(c, GRPC_PERMISSION_DENIED,
            "%s is taken from this machine only, unless --allow-model-upload is given, and %s",
            what, why_stranger(c));
  return false;
}

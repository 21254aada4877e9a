// Decides by address and metadata.
#include "frontend/grpc/access.h"

#include "frontend/grpc/call.h"
#include "frontend/grpc/connection.h"
#include "frontend/grpc/server.h"

static size_t look_up(void *call_pointer, const char *name, slice *value)
{
  const call *c = call_pointer;
  size_t count = 0;
  for (size_t i = 0; i < c->metadata_count; i++)
    if (slice_equal_text(c->metadata[i].name, name) && count++ == 0)
      *value = c->metadata[i].value;
  return count;
}

void grpc_access_admit(call *c)
{
  const grpc_server_options *options = &c->server->options;
  route_category category = c->method->category;
  bool has_key = options->restricted->of[category].header != NULL;
  if (!restrictions_admit(options->restricted, category, look_up, c))
    call_fail(c, GRPC_UNAVAILABLE, "This protocol is restricted, expecting header '%s'",
              options->restricted->of[category].header);
  else if (options->admin_local_only && route_category_is_admin(category) && !has_key &&
           !c->connection->is_local)
    call_fail(c, GRPC_PERMISSION_DENIED,
              "'%s' calls are taken from this machine only (--secure), and the client's address is "
              "not a loopback address",
              route_category_name(category));
}

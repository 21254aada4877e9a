// SPDX-License-Identifier: Apache-2.0
// Decides by address and metadata. Web pages cannot speak gRPC to a port, so there is no Origin to
// check.
#include "frontend/grpc/call/grpc_access.h"

#include "frontend/common/net/peer.h"
#include "frontend/common/policy/access_policy.h"
#include "frontend/grpc/call/call.h"
#include "frontend/grpc/transport/connection.h"

static size_t look_up(void *call_pointer, const char *name, slice *value)
{
  const call *c = call_pointer;
  size_t count = 0;
  for (size_t i = 0; i < c->metadata_count; i++)
    if (slice_equal_text(c->metadata[i].name, name) && count++ == 0)
      *value = c->metadata[i].value;
  return count;
}

// Why the client does not count as on this machine, or NULL. At a Unix socket the authority means
// nothing: it is the path, or what the client's library chose.
static const char *find_remote_reason(const call *c)
{
  static const char other_host[] = "its authority does not name localhost";
  const grpc_connection *connection = c->kept_connection;
  if (!connection->is_local)
    return "the client's address is not a loopback address";
  for (size_t i = 0; i < c->metadata_count; i++) {
    const metadata *field = &c->metadata[i];
    if (peer_is_proxy_field(field->name))
      return "a proxy forwarded it";
    if (slice_equal_text(field->name, "host") && !peer_names_this_machine(field->value))
      return other_host;
  }
  return connection->is_unix || peer_names_this_machine(c->authority) ? NULL : other_host;
}

void grpc_access_admit(call *c)
{
  const access_policy *policy = c->server->options.access;
  route_category category = c->method->category;
  if (!restrictions_admit(&policy->restricted, category, look_up, c))
    call_fail(c, GRPC_UNAVAILABLE, "This protocol is restricted, expecting header '%s'",
              policy->restricted.of[category].header);
  else if (access_policy_is_closed(policy, category))
    call_fail(c, GRPC_PERMISSION_DENIED, ACCESS_CLOSED_FORMAT, route_category_name(category));
}

const char *grpc_access_remote_reason(const call *c)
{
  return access_policy_takes_code(c->server->options.access) ? NULL : find_remote_reason(c);
}

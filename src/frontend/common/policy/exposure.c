// SPDX-License-Identifier: Apache-2.0
// Reads a listener's rules; access.c of each front end applies the same rules.
#include "frontend/common/policy/exposure.h"

#include "base/buffer.h"
#include "base/error.h"
#include "frontend/common/net/peer.h"
#include "frontend/common/observe/frontend_log.h"

#include <sys/socket.h>

#define CODE CATEGORY_COUNT // stands for code, behind the categories

static bool is_loopback_only(const listen_socket *s)
{
  struct sockaddr_storage where;
  socklen_t size = sizeof(where);
  return getsockname(s->socket_fd, (struct sockaddr *)&where, &size) == 0 &&
         peer_is_local((struct sockaddr *)&where);
}

// Can clients without a key use the admin category at the listener?
static bool is_open(const exposure *r, route_category category)
{
  return route_category_is_admin(category) && !r->policy->is_admin && !r->policy->secure &&
         r->policy->restricted.of[category].header == NULL &&
         (category != CATEGORY_SHARED_MEMORY || r->shares_memory);
}

// Can clients without a key bring code with a load, if they are on this machine?
static bool brings_code(const exposure *r)
{
  return r->policy->loads_models && is_open(r, CATEGORY_MODEL_REPOSITORY);
}

static void append_name(buffer *names, const char *name)
{
  buffer_append_format(names, "%s%s", names->size > 0 ? ", " : "", name);
}

// The reason why no category is open; NULL if some are, which are then in `names`.
static const char *find_open(const exposure *r, buffer *names)
{
  if (r->loopback_only)
    return "none, the address is this machine's only";
  if (r->policy->secure)
    return "none (--secure)";
  for (route_category category = 0; category < CATEGORY_COUNT; category++)
    if (is_open(r, category))
      append_name(names, route_category_name(category));
  return names->size == 0 ? "none, they want a key" : NULL;
}

static void log_open(const exposure *r, const listen_socket *s)
{
  AUTO_BUFFER buffer names = BUFFER_EMPTY;
  const char *why = find_open(r, &names);
  const char *advice = why == NULL ? " (--secure wants a key for them)" : "";
  slice text = why == NULL ? buffer_view(&names) : slice_of(why);
  frontend_log_info("Admin categories that strangers can reach at %s: %.*s%s", s->where,
                    (int)text.size, text.data, advice);
  if (!r->loopback_only && brings_code(r) && r->policy->allow_model_upload)
    frontend_log_warning("strangers can bring code: %s", "--allow-model-upload is given");
  if (!r->loopback_only && is_open(r, CATEGORY_SHARED_MEMORY))
    frontend_log_warning("strangers can have memory objects of this machine mapped: %s",
                         "--allow-client-shm is given");
}

exposure exposure_log(const access_policy *policy, const shared_memory *memory,
                      const listen_socket *s)
{
  AUTO_ERROR error *no_regions = memory == NULL ? NULL : shared_memory_allowed(memory);
  const exposure r = {policy, memory != NULL && no_regions == NULL, is_loopback_only(s)};
  if (policy->is_admin)
    frontend_log_info("Admin requests are taken at %s from whoever may write to that file",
                      s->where);
  else
    log_open(&r, s);
  return r;
}

// Would a proxy on this machine open `what` to remote clients who cannot use it now?
static bool does_proxy_open(const exposure *r, size_t what)
{
  if (what != CODE)
    return r->loopback_only && is_open(r, (route_category)what);
  return brings_code(r) && (r->loopback_only || !r->policy->allow_model_upload);
}

void exposure_log_proxy(const exposure *const *listeners, size_t count)
{
  AUTO_BUFFER buffer names = BUFFER_EMPTY;
  for (size_t what = 0; what <= CODE; what++) {
    bool opened = false;
    for (size_t i = 0; i < count; i++)
      opened = opened || (listeners[i] != NULL && does_proxy_open(listeners[i], what));
    if (opened)
      append_name(&names, what == CODE ? "code that comes with a load"
                                       : route_category_name((route_category)what));
  }
  if (names.size > 0 && !names.failed)
    frontend_log_info(
        "A proxy on this machine would open to strangers besides: %.*s (--secure wants "
        "a key for it)",
        (int)names.size, names.data);
}

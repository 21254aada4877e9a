// Reads the listener's rules, as access.c of each front end applies them.
#include "frontend/protocol/reach.h"

#include "base/buffer.h"
#include "base/error.h"
#include "frontend/protocol/front_log.h"
#include "frontend/protocol/peer.h"

#include <sys/socket.h>

bool reach_is_loopback_only(const listener *l)
{
  struct sockaddr_storage where;
  socklen_t size = sizeof(where);
  return getsockname(l->socket_fd, (struct sockaddr *)&where, &size) == 0 &&
         peer_is_local((struct sockaddr *)&where);
}

// Why there are none; NULL: there are some, named in `names`.
static const char *find_open(const reach *r, bool loopback_only, bool shares_memory, buffer *names)
{
  if (loopback_only)
    return "none, the address is this machine's only";
  if (r->admin_local_only)
    return "none (--secure)";
  for (int category = 0; category < CATEGORY_COUNT; category++)
    if (route_category_is_admin(category) && r->restricted->of[category].header == NULL &&
        (category != CATEGORY_SHARED_MEMORY || shares_memory))
      buffer_append_format(names, "%s%s", names->size > 0 ? ", " : "",
                           route_category_name(category));
  return names->size == 0 ? "none, they want a key" : NULL;
}

void reach_log(const reach *r, const listener *l, bool loopback_only)
{
  AUTO_BUFFER buffer names = BUFFER_EMPTY;
  AUTO_ERROR error *no_regions = shared_memory_allowed(r->memory);
  const char *why = find_open(r, loopback_only, no_regions == NULL, &names);
  const char *advice = why == NULL ? " (--secure keeps them to this machine)" : "";
  slice text = why == NULL ? buffer_view(&names) : slice_of(why);
  front_log_info("Admin categories that strangers can reach at %s: %.*s%s", l->where,
                 (int)text.size, text.data, advice);
  if (why == NULL && r->allow_model_upload)
    front_log_warning("strangers can bring code: %s", "--allow-model-upload is given");
  if (why == NULL && no_regions == NULL)
    front_log_warning("strangers can have memory objects of this machine mapped: %s",
                      "--allow-client-shm is given");
}

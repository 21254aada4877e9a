// SPDX-License-Identifier: Apache-2.0
// The server's pinned memory as a pool for bodies.
#include "frontend/common/net/pinned_body.h"

#include "nereid/nereid.h"

static void *take(void *server, size_t size)
{
  return NEREID_ServerPinnedAllocate(server, NEREID_PINNED_BODY, size);
}

static void give_back(void *server, void *memory, size_t size)
{
  NEREID_ServerPinnedFree(server, NEREID_PINNED_BODY, memory, size);
}

void pinned_body_ask(body *b, TRITONSERVER_Server *server, const char *model_name,
                     int64_t model_version)
{
  static const body_pool pool = {take, give_back};
  if (NEREID_ServerModelWantsPinned(server, model_name, model_version))
    body_prefer(b, &pool, server);
}

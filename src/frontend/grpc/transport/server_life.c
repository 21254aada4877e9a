// Counts what is open of a listener, and frees it with the last that refers to it. Any thread.
#include "frontend/grpc/transport/server.h"

#include "frontend/common/observe/frontend_log.h"
#include "frontend/grpc/transport/loop.h"
#include "frontend/grpc/transport/session.h"
#include "frontend/grpc/transport/wire.h"

#include <assert.h>
#include <stdlib.h>

void grpc_server_unref(grpc_server *g)
{
  if (!refcount_drop(&g->references))
    return;
  assert(atomic_load(&g->calls) == 0 && atomic_load(&g->connections) == 0);
  if (g->allocator != NULL)
    frontend_log_failure(NULL, "releasing the output allocator",
                         TRITONSERVER_ResponseAllocatorDelete(g->allocator));
  grpc_loops_free(g->loops);
  session_free_shared(g->callbacks, g->session_options);
  tls_context_free(g->tls);
  listen_fini(&g->listener);
  drain_fini(&g->drain);
  free(g);
}

void grpc_server_call_began(grpc_server *g)
{
  refcount_take(&g->references);
  atomic_fetch_add(&g->calls, 1);
}

void grpc_server_call_ended(grpc_server *g)
{
  assert(atomic_load(&g->calls) > 0);
  drain_count_down(&g->drain, &g->calls);
  grpc_server_unref(g);
}

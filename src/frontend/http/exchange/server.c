// Who still needs a listener, and what it waits for at its end. Any thread.
#include "frontend/http/exchange/server.h"

#include "frontend/common/observe/frontend_log.h"

#include <stdlib.h>

void http_server_ref(http_server *http)
{
  refcount_take(&http->references);
}

void http_server_unref(http_server *http)
{
  if (!refcount_drop(&http->references))
    return;
  if (http->allocator != NULL)
    frontend_log_failure(NULL, "releasing the output allocator",
                         TRITONSERVER_ResponseAllocatorDelete(http->allocator));
  if (http->empty_reply != NULL)
    MHD_destroy_response(http->empty_reply);
  if (http->empty_json_reply != NULL)
    MHD_destroy_response(http->empty_json_reply);
  loops_free(http->loops);
  connections_free(http->connections);
  listen_fini(&http->listener);
  drain_fini(&http->drain);
  free(http);
}

void http_server_request_began(http_server *http)
{
  atomic_fetch_add(&http->unanswered, 1);
}

void http_server_request_ended(http_server *http)
{
  drain_count_down(&http->drain, &http->unanswered);
}

bool http_server_handling_began(http_server *http)
{
  atomic_fetch_add(&http->busy, 1);
  if (!atomic_load(&http->stopping))
    return true;
  drain_count_down(&http->drain, &http->busy);
  return false;
}

void http_server_handling_ended(http_server *http)
{
  drain_count_down(&http->drain, &http->busy);
}

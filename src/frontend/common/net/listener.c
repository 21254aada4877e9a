// SPDX-License-Identifier: Apache-2.0
// Starts, drains and stops a listener. Called by the daemon; the last request drops its reference
// on any thread.
#include "frontend/common/net/listener.h"

#include "base/machine.h"
#include "frontend/common/net/room.h"
#include "frontend/common/observe/frontend_log.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>

static unsigned thread_count(unsigned wanted)
{
  if (wanted != 0)
    return wanted;
  unsigned cpus = machine_cpus();
  return cpus < 2 ? 2 : cpus > 8 ? 8 : cpus;
}

// The wanted number, or with a warning fewer where the process may not open as many descriptors.
static unsigned connection_limit(const listener_protocol *protocol, unsigned wanted)
{
  size_t descriptors = machine_descriptors();
  size_t max_connections = room_bound(descriptors, ROOM_CLIENTS);
  if (wanted != 0 && wanted <= max_connections)
    return wanted;
  if (wanted != 0)
    frontend_log_warning("%s: at most %zu connections, not %u: the process may open %zu "
                         "descriptors, which all ports share",
                         protocol->name, max_connections, wanted, descriptors);
  return max_connections < UINT_MAX ? (unsigned)max_connections : UINT_MAX;
}

error *listener_new(const listener_protocol *protocol, const listener_options *options,
                    TRITONSERVER_Server *server, listener **result)
{
  listener *l = calloc(1, protocol->size);
  if (l == NULL)
    return error_no_memory();
  l->protocol = protocol;
  l->server = server;
  l->options = *options;
  l->options.listen.address = NULL;
  l->options.thread_count = thread_count(options->thread_count);
  listener_set_limits(l, options);
  refcount_init(&l->references);
  drain_init(&l->drain);
  error *failure = listen_open(&options->listen, &l->socket);
  if (failure == NULL)
    failure = protocol->start(l);
  if (failure == NULL)
    *result = l;
  else
    listener_free(l);
  return failure;
}

void listener_set_limits(listener *l, const listener_options *options)
{
  if (l == NULL)
    return;
  listener_options *to = &l->options;
  to->connection_limit = connection_limit(l->protocol, options->connection_limit);
  to->max_inflight_bytes =
      options->max_inflight_bytes != 0 ? options->max_inflight_bytes : machine_memory() / 4;
  l->budget.limit = to->max_inflight_bytes;
  to->body_timeout_ms = options->body_timeout_ms;
  to->write_timeout_ms = options->write_timeout_ms;
  to->max_input_size = options->max_input_size;
  to->limit_whole_body = options->limit_whole_body;
  to->header_timeout_ms = options->header_timeout_ms;
  to->min_rate = options->min_rate;
  to->idle_timeout_ms = options->idle_timeout_ms;
  to->handshake_timeout_ms = options->handshake_timeout_ms;
  to->keepalive_time_ms = options->keepalive_time_ms;
  to->keepalive_timeout_ms = options->keepalive_timeout_ms;
  to->keepalive_without_calls = options->keepalive_without_calls;
  to->min_ping_interval_ms = options->min_ping_interval_ms;
  to->max_ping_strikes = options->max_ping_strikes;
  to->max_connection_age_ms = options->max_connection_age_ms;
  to->max_connection_age_grace_ms = options->max_connection_age_grace_ms;
}

const char *listener_where(const listener *l)
{
  return l == NULL ? NULL : l->socket.where;
}

void listener_announce_stop(listener *l)
{
  if (l != NULL)
    atomic_store(&l->leaving, true);
}

void listener_accept(listener *l)
{
  if (l == NULL)
    return;
  listen_own(&l->socket);
  l->protocol->accept(l);
}

void listener_retire(listener *l, uint64_t deadline_ns)
{
  if (l == NULL)
    return;
  atomic_store(&l->retired, true);
  listen_remove(&l->socket);
  l->protocol->retire(l, deadline_ns);
}

size_t listener_drain(listener *l, uint64_t deadline_ns)
{
  if (l == NULL)
    return 0;
  listener_announce_stop(l);
  drain_begin(&l->drain);
  listen_remove(&l->socket);
  return l->protocol->drain(l, deadline_ns);
}

void listener_free(listener *l)
{
  if (l == NULL)
    return;
  listener_announce_stop(l);
  drain_begin(&l->drain);
  listen_remove(&l->socket);
  l->protocol->stop(l);
  listener_unref(l);
}

void listener_unref(listener *l)
{
  if (!refcount_drop(&l->references))
    return;
  assert(atomic_load(&l->busy) == 0);
  if (l->allocator != NULL)
    frontend_log_failure(NULL, "releasing the output allocator",
                         TRITONSERVER_ResponseAllocatorDelete(l->allocator));
  l->protocol->free(l);
  listen_fini(&l->socket);
  drain_fini(&l->drain);
  free(l);
}

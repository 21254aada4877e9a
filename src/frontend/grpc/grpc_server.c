// SPDX-License-Identifier: Apache-2.0
// Starts, drains and stops the gRPC listener.
#include "frontend/grpc/grpc_server.h"

#include "base/clock.h"
#include "frontend/common/tensor/infer_tensors.h"
#include "frontend/grpc/call/call_parts.h"
#include "frontend/grpc/call/call_server.h"
#include "frontend/grpc/service/methods.h"
#include "frontend/grpc/transport/loops.h"

#define PAUSE_NS        UINT64_C(1000000)
#define RETIRE_PAUSE_NS UINT64_C(20000000)

static error *start(listener *l)
{
  grpc_server *g = grpc_server_of(l);
  g->find_method = methods_find;
  RETURN_IF_ERROR(infer_tensors_make_allocator(&l->allocator));
  return grpc_loops_new(l, &call_stream_handlers, &g->loops);
}

static void begin_accepting(listener *l)
{
  grpc_loops_accept(grpc_server_of(l)->loops);
}

static void retire_until(listener *l, uint64_t deadline_ns)
{
  grpc_loops *loops = grpc_server_of(l)->loops;
  grpc_loops_retire(loops);
  while (clock_monotonic_ns() < deadline_ns && atomic_load(&loops->connections) > 0)
    clock_sleep_until(clock_monotonic_ns() + RETIRE_PAUSE_NS);
}

static size_t drain_until(listener *l, uint64_t deadline_ns)
{
  grpc_loops *loops = grpc_server_of(l)->loops;
  grpc_loops_drain(loops);
  drain_wait(&l->drain, &loops->connections, deadline_ns);
  return drain_wait(&l->drain, &l->busy, deadline_ns);
}

static void stop(listener *l)
{
  grpc_loops *loops = grpc_server_of(l)->loops;
  grpc_loops_stop(loops);
  // The core gives back its requests, and wakes their calls; the loops have ended, so this thread
  // runs them.
  while (atomic_load(&l->busy) > 0) {
    grpc_loops_run_woken(loops);
    drain_wait(&l->drain, &l->busy, clock_monotonic_ns() + PAUSE_NS);
  }
}

static void free_parts(listener *l)
{
  grpc_loops_free(grpc_server_of(l)->loops);
}

const listener_protocol grpc_protocol = {.name = "gRPC",
                                         .size = sizeof(grpc_server),
                                         .start = start,
                                         .accept = begin_accepting,
                                         .retire = retire_until,
                                         .drain = drain_until,
                                         .stop = stop,
                                         .free = free_parts};

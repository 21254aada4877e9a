// What the layers of a running gRPC listener share.
#ifndef NEREID_FRONTEND_GRPC_TRANSPORT_SERVER_H
#define NEREID_FRONTEND_GRPC_TRANSPORT_SERVER_H

#include "base/refcount.h"
#include "frontend/common/net/budget.h"
#include "frontend/common/net/drain.h"
#include "frontend/common/net/jobs.h"
#include "frontend/common/net/listen.h"
#include "frontend/common/policy/exposure.h"
#include "frontend/grpc/transport/options.h"
#include "frontend/grpc/transport/stream.h"

#include <assert.h>
#include <nghttp2/nghttp2.h>
#include <stdatomic.h>

typedef struct grpc_loops grpc_loops;
typedef struct grpc_server grpc_server;
typedef struct tls_context tls_context;

struct grpc_server {
  const stream_handlers *handlers;                 // the calls'
  const struct method *(*find_method)(slice path); // the services': NULL when there is none
  grpc_server_options options;                     // without the texts
  TRITONSERVER_Server *server;                     // borrowed
  listener listener;                               // without the descriptor, which the loops have
  exposure exposure;                               // of it
  grpc_loops *loops;
  nghttp2_session_callbacks *callbacks;
  nghttp2_option *session_options;
  tls_context *tls;                          // NULL: plain
  TRITONSERVER_ResponseAllocator *allocator; // for outputs
  byte_budget budget;

  refcount references;  // the owner's and one of each call: the core may keep a call longer than
                        // its connection
  _Atomic bool leaving; // not ready
  _Atomic size_t connections;
  _Atomic size_t calls; // that exist
  drain drain;          // of those two; once begun nothing new is accepted
};

// Around the life of a call, and around what the core has of it.
void grpc_server_call_began(grpc_server *g);
void grpc_server_call_ended(grpc_server *g);

static inline void grpc_server_connection_ended(grpc_server *g)
{
  assert(atomic_load(&g->connections) > 0);
  drain_count_down(&g->drain, &g->connections);
}

// Lets go of the owner's reference.
void grpc_server_unref(grpc_server *g);

#endif

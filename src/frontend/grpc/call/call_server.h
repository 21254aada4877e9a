// SPDX-License-Identifier: Apache-2.0
// The state of a running gRPC listener.
#ifndef NEREID_FRONTEND_GRPC_CALL_CALL_SERVER_H
#define NEREID_FRONTEND_GRPC_CALL_CALL_SERVER_H

#include "base/container_of.h"
#include "base/slice.h"
#include "frontend/common/net/listener.h"
#include "frontend/grpc/call/method.h"
#include "frontend/grpc/transport/loop.h"

typedef struct grpc_server {
  listener listener; // its `busy` counts existing calls
  grpc_loops *loops;
  const method *(*find_method)(slice path); // of the services; NULL for an unknown path
} grpc_server;

static inline grpc_server *grpc_server_of(listener *l)
{
  return container_of(l, grpc_server, listener);
}

#endif

// The gRPC listener: KServe v2's GRPCInferenceService and gRPC's health service on one port
// (docs/grpc.md). The daemon makes it from options and a server of the north seam, and stops it
// before it stops that server.
#ifndef NEREID_FRONTEND_GRPC_GRPC_SERVER_H
#define NEREID_FRONTEND_GRPC_GRPC_SERVER_H

#include "base/error.h"
#include "frontend/grpc/transport/options.h"
#include "triton/core/tritonserver.h"

typedef struct grpc_server grpc_server;
typedef struct exposure exposure;

// Sets the defaults of docs/flags.md.
void grpc_server_options_init(grpc_server_options *options);

// Opens the port and serves at once; models may still be loading. `server` is borrowed and must
// live until grpc_server_free has returned. Errors as http_server_new.
error *grpc_server_new(const grpc_server_options *options, TRITONSERVER_Server *server,
                       grpc_server **result);

// As http_server_exposure.
const exposure *grpc_server_exposure(const grpc_server *g);
// As http_server_where.
const char *grpc_server_where(const grpc_server *g);

// Serves on, but says that it is not ready.
void grpc_server_announce_stop(grpc_server *g);

// Stops accepting, tells clients to go (GOAWAY), and waits until every call is over or the
// monotonic moment `deadline_ns` has come. Returns the number of calls that are left. May be called
// again.
size_t grpc_server_drain(grpc_server *g, uint64_t deadline_ns);

// Stops all threads and closes what is open; requests still in flight are cancelled and waited for.
// NULL is allowed.
void grpc_server_free(grpc_server *g);

#endif

// Stands in for grpc_port.c in a build without gRPC.
#include "daemon/grpc_port.h"

error *grpc_port_open(const grpc_port_parts *parts, grpc_server **result)
{
  (void)parts;
  (void)result;
  return error_new(ERROR_UNSUPPORTED,
                   "this build has no gRPC (NEREID_GRPC=OFF): give --allow-grpc=false");
}

void grpc_port_announce_stop(grpc_server *g)
{
  (void)g;
}

size_t grpc_port_drain(grpc_server *g, uint64_t deadline_ns)
{
  (void)g;
  (void)deadline_ns;
  return 0;
}

void grpc_port_close(grpc_server *g)
{
  (void)g;
}

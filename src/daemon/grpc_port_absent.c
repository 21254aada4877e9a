// Stands in for grpc_port.c in a build without gRPC.
#include "daemon/grpc_port.h"

#include "frontend/common/observe/frontend_log.h"

error *grpc_port_open(const grpc_port_parts *parts, bool admin, grpc_server **result)
{
  (void)parts;
  (void)admin;
  *result = NULL;
  frontend_log_warning("gRPC is not served: %s", "this build is without it (NEREID_GRPC=OFF)");
  return NULL;
}

const exposure *grpc_port_exposure(const grpc_server *g)
{
  (void)g;
  return NULL;
}

const char *grpc_port_where(const grpc_server *g)
{
  (void)g;
  return NULL;
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

// The Prometheus listener: GET /metrics on a port of its own, so that it answers when the inference
// port is full and stays up while that one drains. Made by the daemon; one loop thread of its own.
#ifndef NEREID_FRONTEND_HTTP_SERVICE_METRICS_SERVER_H
#define NEREID_FRONTEND_HTTP_SERVICE_METRICS_SERVER_H

#include "base/error.h"
#include "triton/core/tritonserver.h"

#include <stdint.h>

typedef struct metrics_server metrics_server;

typedef struct metrics_server_options {
  const char *address; // as in http_server_options; copied
  uint16_t port;       // 0: any free one; the log says which
  unsigned unix_mode;  // as in http_server_options
} metrics_server_options;

// Opens the port and serves at once. `server` is borrowed until metrics_server_free has returned.
// Errors: as http_server_new.
error *metrics_server_new(const metrics_server_options *options, TRITONSERVER_Server *server,
                          metrics_server **result);

// As http_server_where.
const char *metrics_server_where(const metrics_server *metrics);

// Stops the thread and closes what is open. NULL is allowed.
void metrics_server_free(metrics_server *metrics);

#endif

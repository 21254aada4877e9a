// SPDX-License-Identifier: Apache-2.0
// KServe v2 over HTTP on one port (docs/http.md). It has its own threads: the loops (http_loop.h)
// and a watcher (watcher.c).
#ifndef NEREID_FRONTEND_HTTP_SERVICE_HTTP_SERVER_H
#define NEREID_FRONTEND_HTTP_SERVICE_HTTP_SERVER_H

#include "frontend/common/net/listener.h"

extern const listener_protocol http_protocol;

// GET /metrics on a port of its own (http_metrics.c), which answers while the inference port is
// full or drains.
extern const listener_protocol metrics_protocol;

#endif

// SPDX-License-Identifier: Apache-2.0
// HTTP: KServe v2 on one port (docs/http.md). Its threads are its own: the loops (loop.h) and one
// watcher (watcher.c).
#ifndef NEREID_FRONTEND_HTTP_SERVICE_HTTP_SERVER_H
#define NEREID_FRONTEND_HTTP_SERVICE_HTTP_SERVER_H

#include "frontend/common/net/listener.h"

extern const listener_protocol http_protocol;

// GET /metrics (metrics.c), which answers when the inference port is full and stays up while that
// one drains.
extern const listener_protocol metrics_protocol;

#endif

// SPDX-License-Identifier: Apache-2.0
// The load report of ORCA (Open Request Cost Aggregation), as Triton gives it for TensorRT-LLM
// models: how full the key-value cache is. Any thread.
#ifndef NEREID_FRONTEND_COMMON_OBSERVE_LOAD_METRICS_H
#define NEREID_FRONTEND_COMMON_OBSERVE_LOAD_METRICS_H

#include "base/buffer.h"
#include "base/slice.h"
#include "triton/core/tritonserver.h"

#include <stdbool.h>

#define LOAD_METRICS_REQUEST_HEADER "endpoint-load-metrics-format"
#define LOAD_METRICS_REPLY_HEADER   "endpoint-load-metrics"

// Appends the reply header's value in `format`, "text" or "json". False, with a verbose log line,
// when the metrics are missing or the format is unknown: then the reply has no such header.
bool load_metrics_write(TRITONSERVER_Server *server, slice format, buffer *text);

// The same from a text of metrics, for tests.
bool load_metrics_write_from(slice exposition, slice format, buffer *text);

#endif

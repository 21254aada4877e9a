// SPDX-License-Identifier: Apache-2.0
// The load report of ORCA (Open Request Cost Aggregation), as Triton gives it for models of
// TensorRT-LLM: how full the cache of keys and values is. Any thread.
#ifndef NEREID_FRONTEND_COMMON_OBSERVE_LOAD_METRICS_H
#define NEREID_FRONTEND_COMMON_OBSERVE_LOAD_METRICS_H

#include "base/buffer.h"
#include "base/slice.h"
#include "triton/core/tritonserver.h"

#include <stdbool.h>

#define LOAD_METRICS_REQUEST_HEADER "endpoint-load-metrics-format"
#define LOAD_METRICS_REPLY_HEADER   "endpoint-load-metrics"

// Appends the reply header's value in `format`, "text" or "json". False, with a line in the log at
// level verbose, when there are no such metrics or the format is another; then there is to be no
// header.
bool load_metrics_write(TRITONSERVER_Server *server, slice format, buffer *text);

// The same from the metrics' exposition text, for tests.
bool load_metrics_write_from(slice exposition, slice format, buffer *text);

#endif

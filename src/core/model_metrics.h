// SPDX-License-Identifier: Apache-2.0
// The server's own metrics: counters and histograms of its models, read where they are counted when
// a scrape asks. docs/metrics.md lists them.
//
// To add a family that counts requests of models, add a counter in request/statistics.h and a row
// in a table of model_metrics.c, or, for more labels, a function beside collect_refusals.
#ifndef NEREID_CORE_MODEL_METRICS_H
#define NEREID_CORE_MODEL_METRICS_H

#include "base/error.h"
#include "core/server.h"

typedef struct model_metrics model_metrics;

// Registers the collectors of a server in the process' registry. `server` is borrowed until
// model_metrics_free.
error *model_metrics_new(server *server, model_metrics **metrics);
void model_metrics_free(model_metrics *metrics);  // NULL is allowed
void model_metrics_await(model_metrics *metrics); // as gpu_metrics_await; NULL is allowed

#endif

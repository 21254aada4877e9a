// The server's own metrics: counters and histograms of its models, read where they are counted when
// a scrape asks. docs/metrics.md is their reference.
#ifndef NEREID_CORE_MODEL_METRICS_H
#define NEREID_CORE_MODEL_METRICS_H

#include "base/error.h"
#include "core/server.h"

typedef struct model_metrics model_metrics;

// INVALID_ARG or UNSUPPORTED for a --metrics-config that cannot be.
error *model_metrics_check(const server_options *options);

// Registers the collectors of a server in the process' registry. `server` is borrowed until
// model_metrics_free.
error *model_metrics_new(server *server, model_metrics **metrics);
void model_metrics_free(model_metrics *metrics); // NULL is allowed

#endif

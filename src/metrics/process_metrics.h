// SPDX-License-Identifier: Apache-2.0
// The machine's CPU use and memory, nv_cpu_*, as Triton reports them: read from /proc, for the
// whole host. Sampled by a scrape when the last sample is older than the interval, so it needs no
// thread.
#ifndef NEREID_METRICS_PROCESS_METRICS_H
#define NEREID_METRICS_PROCESS_METRICS_H

#include "base/clock.h"
#include "base/error.h"
#include "metrics/registry.h"

#include <stdint.h>

typedef struct process_metrics process_metrics;

// Registers the collector. `proc` is "/proc", or a test's directory with files `stat` and
// `meminfo`. Unreadable values are left out of the exposition.
error *process_metrics_new(metrics_registry *registry, const char *proc, clock_source clock,
                           uint64_t interval_ms, process_metrics **p);
void process_metrics_free(process_metrics *p); // NULL is allowed

#endif

// SPDX-License-Identifier: Apache-2.0
// Takes finished records and replaced settings, in order, and writes them on its own thread
// ("trace-export"). Other threads never wait for it: records beyond a limit are dropped and counted
// (nereid_trace_dropped_total).
#ifndef NEREID_FRONTEND_TRACE_EXPORTER_H
#define NEREID_FRONTEND_TRACE_EXPORTER_H

#include "base/error.h"
#include "frontend/common/observe/writer.h"
#include "frontend/trace/record.h"
#include "frontend/trace/settings.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct exporter exporter;

// A member of an exporter below, which sets the writer's limits and these functions. They
// run on the thread.
struct exporter {
  writer writer; // its lock guards the two lists
  trace_record *first, **end;
  trace_setting *replaced; // each is referenced

  size_t (*weigh)(const trace_record *r);
  // Writes the records from `first` on, a list. Returns how many were lost, after logging why.
  size_t (*write)(exporter *e, const trace_record *first);
  // A setting was replaced. Returns how many of its records are lost. May be NULL.
  size_t (*retire)(exporter *e, trace_setting *setting);
  void (*free)(exporter *e);
};

// Makes an exporter that is not started, and borrows the configuration. Writes JSON to `file`, and
// `file`.0, `file`.1, …
error *file_exporter_new(const trace_config *config, exporter **result);
// For an OpenTelemetry collector. UNAVAILABLE when libcurl cannot be loaded.
error *otlp_exporter_new(const trace_config *config, exporter **result);

// Starts the thread; on an error the exporter is freed.
error *exporter_start(exporter *e);
// Writes what is left and joins the thread. Later records are dropped. NULL is allowed.
void exporter_stop(exporter *e);
void exporter_free(exporter *e); // after exporter_stop, when no thread adds records any more

// Any thread; never waits for the file or the collector.
void exporter_add(exporter *e, trace_record *r_owned);
void exporter_retire(exporter *e, trace_setting *s_owned);

#endif

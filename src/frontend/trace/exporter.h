// SPDX-License-Identifier: Apache-2.0
// Takes finished records and replaced settings, in order, and writes them on a thread of its own
// ("trace-export"). Nobody waits for it: when it holds more than it may, records are dropped and
// counted (nereid_trace_dropped_total).
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

// The first member of those below, which set the limits of the writer and what is done with
// records; that runs on the thread.
struct exporter {
  writer writer; // its lock guards what waits
  trace_record *first, **end;
  trace_setting *replaced; // each referenced

  size_t (*weigh)(const trace_record *r);
  // Takes the records from `first` on, which are linked and complete. Returns how many were lost,
  // having logged why.
  size_t (*write)(exporter *e, const trace_record *first);
  // A setting was replaced. The number of its records that are lost. NULL: it does not matter.
  size_t (*retire)(exporter *e, trace_setting *setting);
  void (*free)(exporter *e);
};

// To be started. The configuration is borrowed. JSON files: its `file`, and `file`.0, `file`.1, …
error *file_exporter_new(const trace_config *config, exporter **result);
// An OpenTelemetry collector. UNAVAILABLE when libcurl cannot be had.
error *otlp_exporter_new(const trace_config *config, exporter **result);

// Starts the thread; after an error the exporter is freed.
error *exporter_start(exporter *e);
// Hands over what is left and joins the thread. Later records are dropped. NULL is allowed.
void exporter_stop(exporter *e);
void exporter_free(exporter *e); // after exporter_stop, when nobody can add any more

// Any thread; never waits for the file or the collector.
void exporter_add(exporter *e, trace_record *r_owned);
void exporter_retire(exporter *e, trace_setting *s_owned);

#endif

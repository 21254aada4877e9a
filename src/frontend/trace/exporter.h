// Takes finished records and replaced settings, in order, and hands them to a sink on a thread of
// its own ("trace-export"). Nobody waits for it: when it holds more than it may, records are
// dropped and counted (nereid_trace_dropped_total).
#ifndef NEREID_FRONTEND_TRACE_EXPORTER_H
#define NEREID_FRONTEND_TRACE_EXPORTER_H

#include "base/error.h"
#include "frontend/trace/record.h"
#include "frontend/trace/settings.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct exporter exporter;
typedef struct trace_sink trace_sink;

// What is done with records. One thread at a time.
struct trace_sink {
  size_t most;      // weight of what is held; beyond that records are dropped
  size_t wake_at;   // weight at which the thread does not wait any longer
  uint64_t wait_ns; // how long it waits for more, at most
  size_t (*weigh)(const trace_record *r);
  // Takes the records from `first` on, which are linked and complete. Returns how many were lost,
  // having logged why.
  size_t (*write)(trace_sink *sink, const trace_record *first);
  // A setting was replaced. The number of its records that are lost. NULL: it does not matter.
  size_t (*retire)(trace_sink *sink, trace_setting *setting);
  void (*free)(trace_sink *sink);
};

// Starts the thread. The sink is freed with the exporter, or at once on an error.
error *exporter_new(trace_sink *sink_owned, exporter **result);
// Hands over what is left and joins the thread. Later records are dropped. NULL is allowed.
void exporter_stop(exporter *e);
void exporter_free(exporter *e); // after exporter_stop, when nobody can add any more

// Any thread; never waits for the sink.
void exporter_add(exporter *e, trace_record *r_owned);
void exporter_retire(exporter *e, trace_setting *s_owned);

// The configuration is borrowed. JSON files: its `file`, and `file`.0, `file`.1, …
error *file_sink_new(const trace_config *config, trace_sink **sink);
// An OpenTelemetry collector. UNAVAILABLE when libcurl cannot be had.
error *otlp_sink_new(const trace_config *config, trace_sink **sink);

#endif

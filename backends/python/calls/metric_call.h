// Custom metrics of a model: families and metrics that a worker has made, by number.
#ifndef NEREID_PYTHON_METRIC_CALLS_H
#define NEREID_PYTHON_METRIC_CALLS_H

#include "channel.h"
#include "wire.h"

#include "triton/core/tritonserver.h"

enum {
  MAX_METRICS = 65536 // families and metrics of one worker
};

// One entry is a family or a metric of one, or free (both NULL). Zero-initialised is empty.
typedef struct metric_entry {
  TRITONSERVER_MetricFamily *family;
  TRITONSERVER_Metric *metric;
  uint64_t of; // a metric's family
} metric_entry;

typedef struct metric_table {
  metric_entry *entries;
  size_t count;
  size_t room;
} metric_table;

typedef struct metric_result {
  uint64_t number; // of what was made; from 1 on
  double value;
} metric_result;

// Does what a CALL_FAMILY_... or CALL_METRIC_... message asks for. One thread at a time.
TRITONSERVER_Error *metric_call(metric_table *self, const channel_message *message,
                                wire_reader *control, metric_result *result);

// A control part that holds one double.
void metric_value_write(wire_writer *writer, const void *value);

// Deletes all metrics and families.
void metric_table_fini(metric_table *self);

#endif

// SPDX-License-Identifier: Apache-2.0
// Values of the daemon's trace flags. The main thread.
#ifndef NEREID_FRONTEND_TRACE_TRACE_CONFIG_H
#define NEREID_FRONTEND_TRACE_TRACE_CONFIG_H

#include "base/error.h"
#include "base/string_list.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum trace_mode {
  TRACE_MODE_TRITON, // JSON files
  TRACE_MODE_OPENTELEMETRY,
} trace_mode;

// Settings that clients can change, for the server and for a model.
typedef enum trace_key {
  TRACE_KEY_LEVEL, // bits of TRITONSERVER_InferenceTraceLevel
  TRACE_KEY_RATE,
  TRACE_KEY_COUNT, // traces left; -1: unlimited
  TRACE_KEY_LOG_FREQUENCY,
  TRACE_KEY_COUNT_OF_KEYS,
} trace_key;

typedef struct trace_config {
  trace_mode mode;
  int64_t values[TRACE_KEY_COUNT_OF_KEYS];
  bool off;              // a level OFF was given: other levels are ignored
  char *file;            // owned; "": none
  char *url;             // owned
  bool url_given;        // the URL is shown among the settings
  string_list resources; // "<key>=<value>"
  int64_t queue_size;    // bsp_max_queue_size: spans
  int64_t delay_ms;      // bsp_schedule_delay
  int64_t batch_size;    // bsp_max_export_batch_size: spans
} trace_config;

// Sets Triton's defaults and the values of the OTEL_BSP_* variables. INVALID_ARG for a variable
// that is no number. Needs trace_config_fini even after an error.
error *trace_config_init(trace_config *c);
void trace_config_fini(trace_config *c);

// Applies --trace-config [<mode>,]<setting>=<value>. INVALID_ARG names the fault, NOT_FOUND an
// unknown setting. A number below the least is raised to it, with a log line.
error *trace_config_set(trace_config *c, const char *text);

#endif

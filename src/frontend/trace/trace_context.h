// SPDX-License-Identifier: Apache-2.0
// W3C Trace Context: ids that join the spans of several programs into one trace
// (https://www.w3.org/TR/trace-context/). Pure functions on text, except for new random ids.
#ifndef NEREID_FRONTEND_TRACE_TRACE_CONTEXT_H
#define NEREID_FRONTEND_TRACE_TRACE_CONTEXT_H

#include "base/buffer.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

#define TRACESTATE_MAX_BYTES 512 // all that must be passed on

typedef struct span_id {
  uint8_t bytes[8]; // all zero: none
} span_id;

typedef struct trace_context_ids {
  uint8_t trace[16];
  span_id parent; // none: this server begins the trace
} trace_context_ids;

// Reads a traceparent header. False: it is invalid, or must not be continued.
bool trace_context_read(slice traceparent, trace_context_ids *ids);

// Makes random ids.
void trace_context_new(trace_context_ids *ids);
span_id span_id_new(void);

// Appends {"traceparent":"…","tracestate":"…"}, for models.
void trace_context_print(const uint8_t trace[16], span_id span, slice tracestate, buffer *out);

#endif

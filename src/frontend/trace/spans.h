// From a record to OpenTelemetry's spans, as Triton makes them: InferRequest, in it one for each
// model, in that its compute and what a backend's activities NAME_START and NAME_END enclose; other
// activities are events of the innermost span. The exporter's thread; tests.
#ifndef NEREID_FRONTEND_TRACE_SPANS_H
#define NEREID_FRONTEND_TRACE_SPANS_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/string_list.h"
#include "frontend/trace/record.h"

#include <stddef.h>

struct Otlp__Span;

typedef struct span_list {
  struct Otlp__Span **items; // in the arena, with all that they point to but the record's texts
  size_t count;
} span_list;

// Adds the spans of a record, which must outlive them. False: memory is short; the list is as
// before.
bool spans_add(span_list *list, const trace_record *r, arena *memory);

// Appends an ExportTraceServiceRequest with these spans. `resources` are "<key>=<value>"; the first
// of equal keys counts.
void spans_encode(const span_list *list, const string_list *resources, arena *memory, buffer *out);

#endif

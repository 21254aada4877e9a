// SPDX-License-Identifier: Apache-2.0
// Turns a record into OpenTelemetry spans, as Triton does: InferRequest contains a span for each
// model, which contains its compute and a span for each pair NAME_START, NAME_END of the backend's
// activities. Other activities are events of the innermost span. The exporter's thread; tests.
#ifndef NEREID_FRONTEND_TRACE_SPANS_H
#define NEREID_FRONTEND_TRACE_SPANS_H

#include "base/buffer.h"
#include "base/string_list.h"
#include "frontend/trace/record.h"

// Appends the record's spans in ScopeSpans' format; `spans` fails when memory is short.
void spans_append(buffer *spans, const trace_record *r);

// Appends an ExportTraceServiceRequest with these spans. `resources` are "<key>=<value>"; the first
// of equal keys counts.
void spans_encode(const buffer *spans, const string_list *resources, buffer *out);

#endif

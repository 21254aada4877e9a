// SPDX-License-Identifier: Apache-2.0
// From a record to OpenTelemetry's spans, as Triton makes them: InferRequest, in it one for each
// model, in that its compute and what a backend's activities NAME_START and NAME_END enclose; other
// activities are events of the innermost span. The exporter's thread; tests.
#ifndef NEREID_FRONTEND_TRACE_SPANS_H
#define NEREID_FRONTEND_TRACE_SPANS_H

#include "base/buffer.h"
#include "base/string_list.h"
#include "frontend/trace/record.h"

// Appends a record's spans, as ScopeSpans has them; `spans` fails when memory is short.
void spans_append(buffer *spans, const trace_record *r);

// Appends an ExportTraceServiceRequest with these spans. `resources` are "<key>=<value>"; the first
// of equal keys counts.
void spans_encode(const buffer *spans, const string_list *resources, buffer *out);

#endif

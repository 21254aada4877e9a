# SPDX-License-Identifier: Apache-2.0
"""Bugs of tracing: traces that are not given back, files that are torn, queues without a bound, texts that are not checked."""
from seed import Seed, e2e, unit

TRACE = "src/frontend/trace"

ALL = [
    Seed("refused_trace_kept", "leak: a refused request's trace is not given back", "src/core/submit.c",
         "  if (e != NULL && t != NULL)\n    trace_release(t);", "",
         unit("trace_api_test")),
    Seed("parent_before_its_children", "use after free: a trace is given back while its children report", "src/request/request_trace.c",
         "  refcount_take(&parent->users);\n  (*child)->parent = parent;", "",
         unit("trace_api_test")),
    Seed("torn_trace_file", "a full disk leaves half a file (row 37)", f"{TRACE}/file_sink.c",
         "    (void)write_at(f->descriptor, SLICE(\"]\"), f->size);", "    f->size += 0;",
         e2e("test_trace.py", "without_room")),
    Seed("traces_without_bound", "memory: what waits for a collector has no bound", "src/frontend/common/observe/writer.c",
         " || w->weight > w->most - weight)", ")",
         e2e("test_trace_opentelemetry.py", "full_queue")),
    Seed("requests_without_bound", "lost: collectors refuse what is sent to them as too large", f"{TRACE}/otlp_sink.c",
         " || bytes + planned * SPAN_BYTES > REQUEST_MAX_BYTES)", ")",
         e2e("test_trace_opentelemetry.py", "large_traces and receiver")),
    Seed("names_in_traces_as_they_come", "forged entries: a name ends its JSON string", f"{TRACE}/record_print.c",
         "  buffer_append_json_string(out, text);",
         "  buffer_append_format(out, \"\\\"%.*s\\\"\", (int)text.size, text.data);",
         unit("trace_text_test")),
    Seed("tracestate_unchecked", "a client's header spoils the spans of all others in the batch", f"{TRACE}/trace_service.c",
         "tracestate.size > TRACESTATE_MAX_BYTES || !is_ascii_text(tracestate)", "tracestate.size > TRACESTATE_MAX_BYTES",
         e2e("test_trace_opentelemetry.py", "client_s_trace_is_continued")),
]

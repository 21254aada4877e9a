// SPDX-License-Identifier: Apache-2.0
// What traces look like: contexts, tensors, entries of the JSON file, spans.
#include "frontend/trace/record.h"
#include "frontend/trace/spans.h"
#include "otlp.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define SPAN  "b7ad6b7169203331"
#define ZERO8 "00000000"

static void expect_text(buffer *b, const char *text)
{
  char *have = buffer_take_text(b);
  assert_non_null(have);
  assert_string_equal(have, text);
  free(have);
}

static void contexts_that_may_be_continued_are_told_from_others(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    bool valid;
  } cases[] = {
      {"00-" TRACE "-" SPAN "-01", true},
      {"00-" TRACE "-" SPAN "-00", true}, // not sampled there; here the settings say
      {"01-" TRACE "-" SPAN "-01-later", true},
      {"00-" TRACE "-" SPAN "-01-later", false},
      {"01-" TRACE "-" SPAN "-01later", false},
      {"ff-" TRACE "-" SPAN "-01", false},
      {"00-" ZERO8 ZERO8 ZERO8 ZERO8 "-" SPAN "-01", false},
      {"00-" TRACE "-" ZERO8 ZERO8 "-01", false},
      {"00-" TRACE "-" SPAN "-0", false},
      {"00-" TRACE "-" SPAN "-0g", false},
      {"00-0AF7651916CD43DD8448EB211C80319C-" SPAN "-01", false},
      {"00_" TRACE "-" SPAN "-01", false},
      {"", false},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    trace_context_ids ids;
    if (trace_context_read(slice_of(cases[i].text), &ids) != cases[i].valid)
      fail_msg("'%s'", cases[i].text);
  }
}

static void a_context_is_passed_on_as_it_came(void **state)
{
  (void)state;
  trace_context_ids ids;
  buffer out = BUFFER_EMPTY;
  assert_true(trace_context_read(slice_of("00-" TRACE "-" SPAN "-01"), &ids));
  trace_context_print(ids.trace, ids.parent, SLICE("a=b,c=\"d\""), &out);
  expect_text(&out,
              "{\"traceparent\":\"00-" TRACE "-" SPAN "-01\",\"tracestate\":\"a=b,c=\\\"d\\\"\"}");
  trace_context_print(ids.trace, ids.parent, (slice){"", 0}, &out);
  expect_text(&out, "{\"traceparent\":\"00-" TRACE "-" SPAN "-01\"}");
}

#define EXPECT_TENSOR(datatype, values, text)                                                      \
  do {                                                                                             \
    buffer out = BUFFER_EMPTY;                                                                     \
    assert_true(tensor_text_append(&out, datatype, values, sizeof(values), 1000));                 \
    expect_text(&out, text);                                                                       \
  } while (0)

static void tensors_of_each_type_are_texts(void **state)
{
  (void)state;
  EXPECT_TENSOR(TRITONSERVER_TYPE_BOOL, ((uint8_t[]){0, 1}), "0,1");
  EXPECT_TENSOR(TRITONSERVER_TYPE_UINT8, ((uint8_t[]){255}), "255");
  EXPECT_TENSOR(TRITONSERVER_TYPE_UINT16, ((uint16_t[]){65535, 0}), "65535,0");
  EXPECT_TENSOR(TRITONSERVER_TYPE_UINT32, ((uint32_t[]){4294967295}), "4294967295");
  EXPECT_TENSOR(TRITONSERVER_TYPE_UINT64, ((uint64_t[]){UINT64_MAX}), "18446744073709551615");
  EXPECT_TENSOR(TRITONSERVER_TYPE_INT8, ((int8_t[]){-128}), "-128");
  EXPECT_TENSOR(TRITONSERVER_TYPE_INT16, ((int16_t[]){-2}), "-2");
  EXPECT_TENSOR(TRITONSERVER_TYPE_INT32, ((int32_t[]){INT32_MIN}), "-2147483648");
  EXPECT_TENSOR(TRITONSERVER_TYPE_INT64, ((int64_t[]){INT64_MIN}), "-9223372036854775808");
  EXPECT_TENSOR(TRITONSERVER_TYPE_FP16, ((uint16_t[]){0x3e00}), "1.5");
  EXPECT_TENSOR(TRITONSERVER_TYPE_BF16, ((uint16_t[]){0x3fc0}), "1.5");
  EXPECT_TENSOR(TRITONSERVER_TYPE_FP32, ((float[]){0.1f, -2}), "0.1,-2.0");
  EXPECT_TENSOR(TRITONSERVER_TYPE_FP64, ((double[]){0.1}), "0.1");
  EXPECT_TENSOR(TRITONSERVER_TYPE_BYTES, ((char[]){2, 0, 0, 0, 'a', 'b', 0, 0, 0, 0}),
                "\"ab\",\"\"");
  EXPECT_TENSOR(TRITONSERVER_TYPE_BYTES, ((char[]){9, 0, 0, 0, 'a'}), ""); // cut off
  EXPECT_TENSOR(TRITONSERVER_TYPE_INVALID, ((char[]){1, 2}), "");
}

static void a_tensor_that_is_too_long_is_said_to_be(void **state)
{
  (void)state;
  static const uint8_t many[1000];
  buffer out = BUFFER_EMPTY;
  assert_false(tensor_text_append(&out, TRITONSERVER_TYPE_UINT8, many, sizeof(many), 100));
  buffer_fini(&out);
}

// A request's record: the front end's moments, the model's, and a child's with what a backend adds.
typedef struct sample {
  trace_event front, start, tensor_event, end;
  trace_event child_start, custom_start, inner, compute;
  trace_tensor tensor;
  trace_part request, child;
  trace_record record;
} sample;

static void make_sample(sample *s)
{
  *s = (sample){0};
  s->tensor = (trace_tensor){SLICE("IN\""), SLICE("1,2"), SLICE("2"), "INT32"};
  s->front = (trace_event){&s->start, MOMENT_OF_FRONT_END, "HTTP_RECV_START", 100, NULL};
  s->start =
      (trace_event){&s->tensor_event, TRITONSERVER_TRACE_REQUEST_START, "REQUEST_START", 200, NULL};
  s->tensor_event = (trace_event){&s->end, TRITONSERVER_TRACE_TENSOR_QUEUE_INPUT,
                                  "TENSOR_QUEUE_INPUT", 250, &s->tensor};
  s->end = (trace_event){NULL, TRITONSERVER_TRACE_REQUEST_END, "REQUEST_END", 900, NULL};
  s->child_start =
      (trace_event){&s->custom_start, TRITONSERVER_TRACE_REQUEST_START, "REQUEST_START", 300, NULL};
  s->custom_start =
      (trace_event){&s->inner, TRITONSERVER_TRACE_CUSTOM_ACTIVITY, "WORK_START", 400, NULL};
  s->inner = (trace_event){&s->compute, TRITONSERVER_TRACE_CUSTOM_ACTIVITY, "STEP", 500, NULL};
  s->compute = (trace_event){NULL, TRITONSERVER_TRACE_COMPUTE_START, "COMPUTE_START", 600, NULL};
  s->child = (trace_part){NULL, 8, 7, "inner", 2, "", {"childspn"}, &s->child_start, NULL};
  s->request = (trace_part){&s->child, 7, 0, "outer", 1, "r\xff", {"modelspn"}, &s->front, NULL};
  s->record.first = &s->request;
  s->record.root_span = (span_id){"rootspan"};
  s->record.realtime_offset_ns = 1000;
  s->record.began_ns = 150;
  s->record.ended_ns = 950;
  memcpy(s->record.context.trace, "0123456789abcdef", 16);
}

static void entries_are_those_of_triton_s_file(void **state)
{
  (void)state;
  sample s;
  buffer out = BUFFER_EMPTY;
  make_sample(&s);
  record_print(&s.record, &out);
  expect_text(
      &out,
      "{\"id\":7,\"timestamps\":[{\"name\":\"HTTP_RECV_START\",\"ns\":100}]},"
      "{\"id\":7,\"model_name\":\"outer\",\"model_version\":1,\"request_id\":\"r\xef\xbf\xbd\"},"
      "{\"id\":7,\"timestamps\":[{\"name\":\"REQUEST_START\",\"ns\":200}]},"
      "{\"id\":7,\"activity\":\"TENSOR_QUEUE_INPUT\",\"tensor\":{\"name\":\"IN\\\"\","
      "\"data\":\"1,2\",\"shape\":\"2\",\"dtype\":\"INT32\"}},"
      "{\"id\":7,\"timestamps\":[{\"name\":\"REQUEST_END\",\"ns\":900}]},"
      "{\"id\":8,\"model_name\":\"inner\",\"model_version\":2,\"parent_id\":7},"
      "{\"id\":8,\"timestamps\":[{\"name\":\"REQUEST_START\",\"ns\":300}]},"
      "{\"id\":8,\"timestamps\":[{\"name\":\"WORK_START\",\"ns\":400}]},"
      "{\"id\":8,\"timestamps\":[{\"name\":\"STEP\",\"ns\":500}]},"
      "{\"id\":8,\"timestamps\":[{\"name\":\"COMPUTE_START\",\"ns\":600}]}");
}

static void expect_span(const Otlp__Span *span, const char *name, const char *parent,
                        uint64_t start, uint64_t end, size_t events)
{
  assert_string_equal(span->name, name);
  assert_int_equal(span->trace_id.len, 16);
  assert_memory_equal(span->trace_id.data, "0123456789abcdef", 16);
  assert_int_equal(span->parent_span_id.len, strlen(parent));
  assert_memory_equal(span->parent_span_id.data, parent, strlen(parent));
  assert_int_equal(span->start_time_unix_nano, start);
  assert_int_equal(span->end_time_unix_nano, end);
  assert_int_equal(span->n_events, events);
}

static void spans_nest_and_end_with_the_record_at_the_latest(void **state)
{
  (void)state;
  sample s;
  AUTO_BUFFER buffer list = BUFFER_EMPTY;
  AUTO_BUFFER buffer out = BUFFER_EMPTY;
  string_list resources = {0};
  make_sample(&s);
  spans_append(&list, &s.record);
  assert_true(string_list_add(&resources, "a=1") && string_list_add(&resources, "a=2"));
  spans_encode(&list, &resources, &out);
  assert_false(out.failed);
  Otlp__ExportTraceServiceRequest *request =
      otlp__export_trace_service_request__unpack(NULL, out.size, (const uint8_t *)out.data);
  assert_non_null(request);
  const Otlp__ResourceSpans *all = request->resource_spans[0];
  assert_int_equal(all->resource->n_attributes, 1);
  assert_string_equal(all->resource->attributes[0]->value->string_value, "1");
  Otlp__Span **spans = all->scope_spans[0]->spans;
  assert_int_equal(all->scope_spans[0]->n_spans, 5);
  expect_span(spans[0], "InferRequest", "", 1100, 1950, 1);
  expect_span(spans[1], "outer", "rootspan", 1200, 1900, 3);
  expect_span(spans[2], "inner", "modelspn", 1300, 1950, 1);
  expect_span(spans[3], "WORK", "childspn", 1400, 1950, 2);
  assert_string_equal(spans[4]->name, "compute");
  assert_memory_equal(spans[4]->parent_span_id.data, spans[3]->span_id.data, 8);
  assert_int_equal(spans[4]->end_time_unix_nano, 1950);
  assert_string_equal(spans[1]->attributes[4]->value->string_value,
                      "r?"); // protobuf has UTF-8 only
  otlp__export_trace_service_request__free_unpacked(request, NULL);
  string_list_fini(&resources);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(contexts_that_may_be_continued_are_told_from_others),
      cmocka_unit_test(a_context_is_passed_on_as_it_came),
      cmocka_unit_test(tensors_of_each_type_are_texts),
      cmocka_unit_test(a_tensor_that_is_too_long_is_said_to_be),
      cmocka_unit_test(entries_are_those_of_triton_s_file),
      cmocka_unit_test(spans_nest_and_end_with_the_record_at_the_latest),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

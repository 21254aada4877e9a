// SPDX-License-Identifier: Apache-2.0
// Custom metrics of a worker (calls/metric_call.c): which number finds which object, what is
// deleted with what, and what is refused. The server's metrics are the test's own.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "python_host.h"

static struct {
  unsigned families, metrics; // alive
  uint64_t labels, buckets;   // of the last one
  TRITONSERVER_MetricKind kind;
  double value;
  bool no_room;
} server;

static int family_made, metric_made; // their addresses are the objects

TRITONSERVER_Error *TRITONSERVER_MetricFamilyNew(TRITONSERVER_MetricFamily **family,
                                                 const TRITONSERVER_MetricKind kind,
                                                 const char *name, const char *description)
{
  assert_string_equal(name, "name");
  assert_string_equal(description, "what it is");
  if (server.no_room)
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "no family");
  server.kind = kind;
  server.families++;
  *family = (TRITONSERVER_MetricFamily *)&family_made;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MetricFamilyDelete(TRITONSERVER_MetricFamily *family)
{
  assert_ptr_equal(family, &family_made);
  assert_true(server.families > 0);
  server.families--;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_GetMetricFamilyKind(TRITONSERVER_MetricFamily *family,
                                                     TRITONSERVER_MetricKind *kind)
{
  (void)family;
  *kind = server.kind;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MetricNew(TRITONSERVER_Metric **metric,
                                           TRITONSERVER_MetricFamily *family,
                                           const TRITONSERVER_Parameter **labels,
                                           const uint64_t label_count)
{
  (void)labels;
  assert_ptr_equal(family, &family_made);
  if (server.no_room)
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "no metric");
  server.metrics++;
  server.labels = label_count;
  *metric = (TRITONSERVER_Metric *)&metric_made;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MetricArgsSetHistogram(TRITONSERVER_MetricArgs *args,
                                                        const double *buckets, const uint64_t count)
{
  (void)args;
  assert_true(count == 2 && buckets[0] == 0.5 && buckets[1] == 1.5);
  server.buckets = count;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MetricNewWithArgs(TRITONSERVER_Metric **metric,
                                                   TRITONSERVER_MetricFamily *family,
                                                   const TRITONSERVER_Parameter **labels,
                                                   const uint64_t label_count,
                                                   const TRITONSERVER_MetricArgs *args)
{
  assert_non_null(args);
  return TRITONSERVER_MetricNew(metric, family, labels, label_count);
}

TRITONSERVER_Error *TRITONSERVER_MetricDelete(TRITONSERVER_Metric *metric)
{
  assert_ptr_equal(metric, &metric_made);
  assert_true(server.metrics > 0);
  server.metrics--;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MetricValue(TRITONSERVER_Metric *metric, double *value)
{
  (void)metric;
  *value = server.value;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MetricIncrement(TRITONSERVER_Metric *metric, double value)
{
  (void)metric;
  server.value += value;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MetricSet(TRITONSERVER_Metric *metric, double value)
{
  (void)metric;
  server.value = value;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MetricObserve(TRITONSERVER_Metric *metric, double value)
{
  (void)metric, (void)value;
  return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNSUPPORTED, "it observes nothing");
}

// ---- what the worker says

static int begin(void **state)
{
  memset(&server, 0, sizeof server);
  return host_begin(state);
}

static void new_family(uint64_t id, TRITONSERVER_MetricKind kind)
{
  wire_writer *said = host_say();
  wire_put_string(said, "name");
  wire_put_string(said, "what it is");
  wire_put_u32(said, kind);
  assert_true(host_call(CALL_FAMILY_NEW, id, 0, 0));
}

static void new_metric(uint64_t id, uint64_t family, const char *labels, uint32_t buckets)
{
  wire_writer *said = host_say();
  wire_put_string(said, labels);
  wire_put_u32(said, buckets);
  for (uint32_t i = 0; i < buckets; i++)
    wire_put_f64(said, i + 0.5);
  assert_true(host_call(CALL_METRIC_NEW, id, 0, family));
}

static void with_value(uint32_t kind, uint64_t metric, double value)
{
  wire_put_f64(host_say(), value);
  assert_true(host_call(kind, 9, 0, metric));
}

static void a_metric_is_added_to_set_and_read(void **state)
{
  (void)state;
  channel_message reply;
  wire_reader reader;
  new_family(1, TRITONSERVER_METRIC_KIND_GAUGE);
  assert_reply(1, 1);
  new_metric(2, 1, "{\"a\": \"b\", \"c\": \"d\"}", 0);
  assert_reply(2, 2);
  assert_int_equal(server.labels, 2);
  with_value(CALL_METRIC_SET, 2, 3);
  with_value(CALL_METRIC_ADD, 2, 0.5);
  assert_reply(9, 0);
  assert_reply(9, 0);
  host_call(CALL_METRIC_VALUE, 3, 0, 2);
  assert_true(host_reply(&reply, &reader));
  assert_true(wire_get_f64(&reader) == 3.5 && !reader.bad);
  with_value(CALL_METRIC_OBSERVE, 2, 1);
  assert_failed_reply(9, TRITONSERVER_ERROR_UNSUPPORTED, "it observes nothing");
  host_call(CALL_METRIC_SET, 4, 0, 2); // without a value
  assert_failed_reply(4, TRITONSERVER_ERROR_INVALID_ARG,
                      "a call for a custom metric cannot be read");
}

static void only_a_histogram_has_buckets(void **state)
{
  (void)state;
  new_family(1, TRITONSERVER_METRIC_KIND_COUNTER);
  new_metric(2, 1, "", 2);
  assert_reply(1, 1);
  assert_failed_reply(2, TRITONSERVER_ERROR_INVALID_ARG,
                      "only a metric of kind HISTOGRAM has buckets");
  server.kind = TRITONSERVER_METRIC_KIND_HISTOGRAM;
  new_metric(3, 1, "null", 2);
  assert_reply(3, 2); // the number that the one before did not take
  assert_int_equal(server.buckets, 2);
  assert_int_equal(server.labels, 0);
}

static void labels_that_are_no_texts_are_refused(void **state)
{
  (void)state;
  new_family(1, TRITONSERVER_METRIC_KIND_COUNTER);
  assert_reply(1, 1);
  new_metric(2, 1, "{\"a\": \"b\", \"c\": 1}", 0);
  assert_failed_reply(2, TRITONSERVER_ERROR_INVALID_ARG, "label 'c' of a metric must be a string");
  new_metric(3, 1, "[]", 0);
  assert_failed_reply(3, TRITONSERVER_ERROR_INVALID_ARG,
                      "Failed to create metric. Labels must be a dictionary.");
  assert_int_equal(server.metrics, 0);
}

static void a_family_goes_with_its_metrics(void **state)
{
  (void)state;
  new_family(1, TRITONSERVER_METRIC_KIND_COUNTER);
  new_family(2, TRITONSERVER_METRIC_KIND_COUNTER);
  for (uint64_t i = 0; i < 20; i++)
    new_metric(3, 1 + i % 2, "", 0);
  assert_true(server.families == 2 && server.metrics == 20);
  host_call(CALL_FAMILY_DELETE, 4, 0, 1);
  assert_true(server.families == 1 && server.metrics == 10);
  host_call(CALL_METRIC_DELETE, 5, 0, 4); // a metric of the other one
  assert_int_equal(server.metrics, 9);
  for (int i = 0; i < 24; i++) {
    channel_message reply;
    wire_reader reader;
    assert_true(host_reply(&reply, &reader) && reply.flags == REPLY_FINAL);
  }
  host_end_calls(); // and all with the worker
  assert_true(server.families == 0 && server.metrics == 0);
}

static void a_number_finds_only_what_is_there_and_of_its_kind(void **state)
{
  (void)state;
  static const struct {
    uint32_t kind;
    uint64_t value;
    const char *text;
  } calls[] = {{CALL_METRIC_DELETE, 1, "there is no such metric any more"}, // a family
               {CALL_METRIC_VALUE, 0, "there is no such metric any more"},
               {CALL_METRIC_VALUE, UINT64_MAX, "there is no such metric any more"},
               {CALL_FAMILY_DELETE, 2, "there is no such metric family any more"}, // a metric
               {CALL_FAMILY_DELETE, 3, "there is no such metric family any more"}};
  new_family(1, TRITONSERVER_METRIC_KIND_COUNTER);
  new_metric(2, 1, "", 0);
  assert_reply(1, 1);
  assert_reply(2, 2);
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    host_call(calls[i].kind, 3, 0, calls[i].value);
    assert_failed_reply(3, TRITONSERVER_ERROR_NOT_FOUND, calls[i].text);
  }
  new_metric(4, 2, "", 0); // of a metric
  assert_failed_reply(4, TRITONSERVER_ERROR_NOT_FOUND, "there is no such metric family any more");
}

static void what_the_server_refuses_takes_no_number(void **state)
{
  (void)state;
  server.no_room = true;
  new_family(1, TRITONSERVER_METRIC_KIND_COUNTER);
  assert_failed_reply(1, TRITONSERVER_ERROR_INTERNAL, "no family");
  server.no_room = false;
  new_family(2, TRITONSERVER_METRIC_KIND_COUNTER);
  assert_reply(2, 1);
  new_family(3, (TRITONSERVER_MetricKind)9);
  assert_failed_reply(3, TRITONSERVER_ERROR_INVALID_ARG,
                      "a call for a custom metric cannot be read");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_metric_is_added_to_set_and_read, begin, host_end),
      cmocka_unit_test_setup_teardown(only_a_histogram_has_buckets, begin, host_end),
      cmocka_unit_test_setup_teardown(labels_that_are_no_texts_are_refused, begin, host_end),
      cmocka_unit_test_setup_teardown(a_family_goes_with_its_metrics, begin, host_end),
      cmocka_unit_test_setup_teardown(a_number_finds_only_what_is_there_and_of_its_kind, begin,
                                      host_end),
      cmocka_unit_test_setup_teardown(what_the_server_refuses_takes_no_number, begin, host_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

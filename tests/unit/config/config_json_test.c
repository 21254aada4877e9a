// SPDX-License-Identifier: Apache-2.0
// The JSON form: documents as the real Triton 2.51 answers GET /v2/models/M/config for the .pbtxt
// beside them, and the reader for overrides.
#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/files.h"
#include "config/config.h"
#include "config_print_text.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const documents[] = {"minimal", "batching",   "sequence", "direct",
                                        "ens",     "warm.probe", "syntax"};
enum {
  DOCUMENT_COUNT = sizeof(documents) / sizeof(documents[0])
};

// Content of a file beside the tests, with a NUL behind it.
static void read_data(const char *name, const char *suffix, buffer *content)
{
  char file[64];
  snprintf(file, sizeof(file), "%s%s", name, suffix);
  AUTO_ROOT file_root dir = FILE_ROOT_CLOSED;
  assert_null(files_open_root(CONFIG_DATA, &file_policy_anywhere, &dir));
  AUTO_ERROR error *e = files_read(&dir, file, 1 << 20, content);
  if (e != NULL)
    fail_msg("%s: %s", file, error_message(e));
  while (content->size > 0 && content->data[content->size - 1] == '\n')
    content->size--;
}

// The configuration of a document as the server completes it, in a model directory without files.
static Inference__ModelConfig *completed(const char *name)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  read_data(name, ".pbtxt", &text);
  Inference__ModelConfig *config = NULL;
  error *e = config_read_text(buffer_view(&text), name, &config);
  if (e != NULL)
    fail_msg("%s", error_message(e));
  AUTO_ROOT file_root dir = FILE_ROOT_CLOSED;
  assert_null(files_open_root(CONFIG_DATA, &file_policy_anywhere, &dir));
  assert_null(config_set_defaults(config, name, &dir));
  assert_null(config_normalize_instance_groups(config, NULL, 0, CONFIG_NO_GPUS));
  return config;
}

static void a_completed_configuration_prints_as_tritons_does(void **state)
{
  (void)state;
  for (size_t i = 0; i < DOCUMENT_COUNT; i++) {
    AUTO_CONFIG Inference__ModelConfig *config = completed(documents[i]);
    AUTO_BUFFER buffer expected = BUFFER_EMPTY;
    read_data(documents[i], ".json", &expected);
    AUTO_BUFFER buffer printed = BUFFER_EMPTY;
    assert_null(config_print_json(config, &printed));
    buffer_append_char(&expected, '\0');
    buffer_append_char(&printed, '\0');
    if (strcmp(documents[i], "ens") == 0) { // Triton derives an ensemble's decoupled flag; that
                                            // comes with ensembles
      char *added = strstr(expected.data, ",\"model_transaction_policy\"");
      assert_non_null(added);
      memcpy(added, "}", 2);
    }
    assert_string_equal(printed.data, expected.data);
  }
}

static void what_is_printed_as_json_is_read_back_to_the_same(void **state)
{
  (void)state;
  for (size_t i = 0; i < DOCUMENT_COUNT; i++) {
    AUTO_CONFIG Inference__ModelConfig *config = completed(documents[i]);
    AUTO_BUFFER buffer first = BUFFER_EMPTY;
    assert_null(config_print_json(config, &first));
    AUTO_CONFIG Inference__ModelConfig *again = NULL;
    AUTO_ERROR error *e = config_read_json(buffer_view(&first), &again);
    if (e != NULL)
      fail_msg("%s: %s", documents[i], error_message(e));
    AUTO_BUFFER buffer second = BUFFER_EMPTY;
    assert_null(config_print_json(again, &second));
    assert_true(slice_equal(buffer_view(&first), buffer_view(&second)));
    assert_true(config_equal_but_policy(config, again));
  }
}

static Inference__ModelConfig *read_json(const char *json)
{
  Inference__ModelConfig *config = NULL;
  error *e = config_read_json(slice_of(json), &config);
  if (e != NULL)
    fail_msg("%s: %s", json, error_message(e));
  return config;
}

// protobuf counts -0 as set. Found by the fuzz target config_json.
static void the_sign_of_a_zero_is_kept(void **state)
{
  (void)state;
  const slice json =
      SLICE("{\"sequence_batching\":{\"direct\":{\"minimum_slot_utilization\":\"-0\"}}}");
  AUTO_CONFIG Inference__ModelConfig *config = NULL;
  AUTO_CONFIG Inference__ModelConfig *from_json = NULL;
  AUTO_CONFIG Inference__ModelConfig *from_text = NULL;
  AUTO_BUFFER buffer printed = BUFFER_EMPTY;
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  assert_null(config_read_json(json, &config));
  assert_null(config_print_json(config, &printed));
  assert_null(config_print_text(config, &text));
  assert_null(config_read_json(buffer_view(&printed), &from_json));
  assert_null(config_read_text(buffer_view(&text), "printed", &from_text));
  assert_true(signbit(from_json->sequence_batching->direct->minimum_slot_utilization));
  assert_true(signbit(from_text->sequence_batching->direct->minimum_slot_utilization));
}

static void the_reader_takes_all_that_protobufs_json_takes(void **state)
{
  (void)state;
  AUTO_CONFIG Inference__ModelConfig *config = read_json(
      "{\"name\": \"ä\\u00e4\", \"maxBatchSize\": \"8\", \"default_model_filename\": null,"
      " \"input\": [{\"name\": \"a\", \"dataType\": \"type_fp32\", \"dims\": [\"-1\", 3, 4.0, "
      "1e2]},"
      "             {\"data_type\": 9, \"allowRaggedBatch\": true}],"
      " \"dynamicBatching\": {\"maxQueueDelayMicroseconds\": 18446744073709551615,"
      "   \"priorityQueuePolicy\": {\"3\": {\"timeoutAction\": \"Delay\"}, \"1\": {}}},"
      " \"parameters\": {\"k\": {\"stringValue\": \"v\"}},"
      " \"modelMetrics\": {\"metricControl\": [{\"histogramOptions\":"
      "   {\"buckets\": [1, 0.5, \"Infinity\", \"NaN\", \"2.5\"]}}]}}");
  assert_string_equal(config->name, "ää");
  assert_int_equal(config->max_batch_size, 8);
  assert_string_equal(config->default_model_filename, "");
  assert_int_equal(config->input[0]->data_type, INFERENCE__DATA_TYPE__TYPE_FP32);
  const int64_t dims[] = {-1, 3, 4, 100};
  assert_int_equal(config->input[0]->n_dims, 4);
  assert_memory_equal(config->input[0]->dims, dims, sizeof(dims));
  assert_int_equal(config->input[1]->data_type, INFERENCE__DATA_TYPE__TYPE_INT64);
  assert_true(config->input[1]->allow_ragged_batch);
  assert_true(config->dynamic_batching->max_queue_delay_microseconds == UINT64_MAX);
  assert_int_equal(config->dynamic_batching->n_priority_queue_policy, 2);
  assert_int_equal(config->dynamic_batching->priority_queue_policy[0]->key, 3);
  assert_int_equal(config->dynamic_batching->priority_queue_policy[0]->value->timeout_action,
                   INFERENCE__MODEL_QUEUE_POLICY__TIMEOUT_ACTION__DELAY);
  assert_string_equal(config_parameter(config, "k"), "v");
  const double *buckets = config->model_metrics->metric_control[0]->histogram_options->buckets;
  assert_true(buckets[0] == 1 && buckets[1] == .5 && isinf(buckets[2]) && isnan(buckets[3]) &&
              buckets[4] == 2.5);
}

static void assert_refused(const char *json, const char *message)
{
  Inference__ModelConfig *config = NULL;
  AUTO_ERROR error *e = config_read_json(slice_of(json), &config);
  if (e == NULL)
    fail_msg("accepted: %s", json);
  if (strstr(error_message(e), message) == NULL)
    fail_msg("%s: got \"%s\", expected \"%s\"", json, error_message(e), message);
  assert_int_equal(error_get_code(e), ERROR_INVALID_ARG);
  assert_null(config);
}

static void errors_name_the_place_the_value_and_what_was_expected(void **state)
{
  (void)state;
  const struct {
    const char *json, *message;
  } cases[] = {
      {"", "failed to parse JSON at line 1, column 1: expected a value, got the end of the text"},
      {"{", "failed to parse JSON at line 1, column 2: expected a name or '}', got the end"},
      {"[]", "expected an object, got an array"},
      {"{}\n x", "line 2, column 2: expected nothing behind the value, got 'x'"},
      {"{} {}", "line 1, column 4: expected nothing behind the value, got '{'"},
      {"{\"name\": \"a\\u0000b\"}", "column 12: expected a text without \\u0000"},
      {"{\"name\": \"\xFF\"}", "expected a text in UTF-8 without a NUL, got a byte of value 255"},
      {"{\"name\": \"a\\ud83d\"}", "column 12: expected both halves of a character"},
      {"{\"name\": \"a\\ud83d\\u0041\"}", "column 12: expected both halves of a character"},
      {"{\"name\": \"a\\u00g\"}", "expected four hexadecimal digits behind \\u"},
      {"{\"name\": \"a", "column 10: expected a text with a quote at its end"},
      {"{\"name\": \"a\\", "expected a character behind the backslash"},
      {"{\"name\" \"a\"}", "column 9: expected ':' behind the name, got '\"'"},
      {"{\"name\": \"a\" \"b\"}", "column 14: expected ',' or '}', got '\"'"},
      {"{\"name\": // x\n \"a\"}", "column 10: expected a value, got '/'"},
      {"{,}", "column 2: expected a name or '}', got ','"},
      {"{\"input\": [,]}", "column 12: expected a value, got ','"},
      {"{\"input\": [{} {}]}", "column 15: expected ',' or ']', got '{'"},
      {"{“name”: 1}", "column 2: expected a name or '}', got '“', a typographic quote: write \" in "
                      "its place"},
      {"{\"name\": ‘a’}", "expected a value, got '‘', a typographic quote: write \" in its place"},
      {"{5: 1}", "column 2: expected a name or '}', got '5'"},
      {"{true: 1}", "column 2: expected a name or '}', got 'true'"},
      {"{\"input\": {\"optional\": True}}", "expected a value, got 'True': write true"},
      {"{\"input\": None}", "expected a value, got 'None': write null"},
      {"{\"input\": {\"dims\": [NaN]}}", "expected a value, got 'NaN': write \"NaN\", in quotes"},
      {"{\"max_batch_size\": +1}", "column 20: expected a value, got '+'"},
      {"{\"max_batch_size\": 02}", "expected a number without a zero before it, got '02'"},
      {"{\"max_batch_size\": -}", "expected a number, got '-'"},
      {"{\"max_batch_size\": 2-3}", "max_batch_size: expected a 32-bit integer, got 2-3"},
      {"{\"max_batch_size\": \"2.0\"}", "max_batch_size: expected a 32-bit integer, got \"2.0\""},
      {"{\"max_batch_size\": [3]}", "max_batch_size: expected a 32-bit integer, got an array"},
      {"{\"dynamic_batching\": [{}]}", "dynamic_batching: expected an object, got an array"},
      {"{\"parameters\": {\"k\": {}, \"k\": {}}}", "parameters.k: this name is there twice"},
      {"{\"version_policy\": {\"latest\": {}, \"latest\": {}}}",
       "version_policy.latest: field is specified along with \"latest\", another member of oneof"},
      {"{\"sequence_batching\": {\"direct\": {\"minimum_slot_utilization\": 1e39}}}",
       "minimum_slot_utilization: expected a number of 32 bits, got 1e39"},
      {"{\"nam\": 1}",
       "nam: Cannot find field: message type \"inference.ModelConfig\" has no field "
       "named \"nam\". Did you mean 'name'?"},
      {"{\"input\": [{}, {\"qqqq\": 1}]}", "input[1].qqqq: Cannot find field"},
      {"{\"name\": 5}", "name: expected a string, got 5"},
      {"{\"max_batch_size\": \"x\"}", "max_batch_size: expected a 32-bit integer, got \"x\""},
      {"{\"max_batch_size\": 2147483648}",
       "max_batch_size: expected a 32-bit integer, got 2147483648"},
      {"{\"max_batch_size\": 1.5}", "max_batch_size: expected a 32-bit integer, got 1.5"},
      {"{\"max_batch_size\": true}", "max_batch_size: expected a 32-bit integer, got true"},
      {"{\"input\": [5]}", "input[0]: expected an object, got 5"},
      {"{\"input\": [{\"dims\": [1, \"9223372036854775808\"]}]}",
       "input[0].dims[1]: expected a 64-bit integer, got \"9223372036854775808\""},
      {"{\"input\": [{\"dims\": [1e19]}]}", "input[0].dims[0]: expected a 64-bit integer"},
      {"{\"input\": [{\"data_type\": \"TYPE_FP31\"}]}",
       "input[0].data_type: \"TYPE_FP31\" is not a value of enum inference.DataType; did you mean "
       "'TYPE_FP32'?"},
      {"{\"input\": [{\"data_type\": 15}]}", "input[0].data_type: 15 is not a value of enum"},
      {"{\"input\": [{\"optional\": 1}]}", "input[0].optional: expected true or false"},
      {"{\"parameters\": []}", "parameters: expected an object, got an array"},
      {"{\"parameters\": {\"k\": \"v\"}}", "parameters.k: expected an object, got \"v\""},
      {"{\"dynamic_batching\": {\"priority_queue_policy\": {\"x\": {}}}}",
       "dynamic_batching.priority_queue_policy.x: expected an unsigned 64-bit integer, got \"x\""},
      {"{\"dynamic_batching\": {\"priority_levels\": -1}}",
       "dynamic_batching.priority_levels: expected an unsigned 64-bit integer, got -1"},
      {"{\"dynamic_batching\": {}, \"sequence_batching\": {}}",
       "sequence_batching: field is specified along with \"dynamic_batching\", another member of "
       "oneof \"scheduling_choice\""},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
    assert_refused(cases[i].json, cases[i].message);
}

static void what_is_written_loosely_is_read_as_protobuf_reads_it(void **state)
{
  (void)state;
  const struct {
    const char *loose, *strict;
  } cases[] = {
      {"{'name': 'a\"b', \"backend\": \"c'd\"}", "{\"name\": \"a\\\"b\", \"backend\": \"c'd\"}"},
      {"{name: 'a', max_batch_size: 2,}", "{\"name\": \"a\", \"max_batch_size\": 2}"},
      {"{\"name\": \"a\nb\tc\\v\\q\\/\\'\"}", "{\"name\": \"a\\nb\\tc\\u000bq/'\"}"},
      {"{\"name\":\v'a\\uD83D\\ude00'\f}\n", "{\"name\": \"a\xF0\x9F\x98\x80\"}"},
      {"{'input': {'name': 'a', 'dims': 3}}", "{\"input\": [{\"name\": \"a\", \"dims\": [3]}]}"},
      {"{'input': [[{}, null], [], {'dims': [[1], [[2,],],]}]}",
       "{\"input\": [{}, {\"dims\": [1, 2]}]}"},
      {"{'input': {}, 'input': [{'name': 'b'}], 'input': null}",
       "{\"input\": [{}, {\"name\": \"b\"}]}"},
      {"{'max_batch_size': 1, 'maxBatchSize': 2, 'max_batch_size': null}",
       "{\"max_batch_size\": 2}"},
      {"{'optimization': {'priority': 1}, 'optimization': {'eager_batching': true}}",
       "{\"optimization\": {\"priority\": 1, \"eager_batching\": true}}"},
      {"{'version_policy': {'latest': {'num_versions': 1}}, 'version_policy': {'latest': {}}}",
       "{\"version_policy\": {\"latest\": {\"num_versions\": 1}}}"},
      {"{'version_policy': {'latest': {}}, 'version_policy': {'all': {}}}",
       "{\"version_policy\": {\"all\": {}}}"},
      {"{'version_policy': {'latest': null, 'all': {}}}", "{\"version_policy\": {\"all\": {}}}"},
      {"{'parameters': {a: null}, 'parameters': {'b': {}, 'a': {'string_value': 'x'}}}",
       "{\"parameters\": {\"a\": {\"string_value\": \"x\"}, \"b\": {}}}"},
      {"{'cc_model_filenames': {'a': null}}", "{\"cc_model_filenames\": {\"a\": \"\"}}"},
      {"{'instance_group': {'kind': '2', 'passive': 'YES'}}",
       "{\"instance_group\": [{\"kind\": \"KIND_CPU\", \"passive\": true}]}"},
      {"{'instance_group': {'kind': 'kind-cpu', 'passive': '0', 'count': '+2'}}",
       "{\"instance_group\": [{\"kind\": \"KIND_CPU\", \"count\": 2}]}"},
      {"{'max_batch_size': 2.}", "{\"max_batch_size\": 2}"},
      {"{'max_batch_size': '02'}", "{\"max_batch_size\": 2}"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    AUTO_CONFIG Inference__ModelConfig *loose = read_json(cases[i].loose);
    AUTO_CONFIG Inference__ModelConfig *strict = read_json(cases[i].strict);
    AUTO_BUFFER buffer first = BUFFER_EMPTY, second = BUFFER_EMPTY;
    assert_null(config_print_json(loose, &first));
    assert_null(config_print_json(strict, &second));
    buffer_append_char(&first, '\0');
    buffer_append_char(&second, '\0');
    assert_string_equal(first.data, second.data);
  }
}

// Lists in lists are read like one.
static void nesting_is_refused_above_100(void **state)
{
  (void)state;
  AUTO_BUFFER buffer json = BUFFER_EMPTY;
  buffer_append_text(&json, "{\"input\": ");
  for (int i = 1; i < 100; i++)
    buffer_append_char(&json, '[');
  for (int i = 1; i < 100; i++)
    buffer_append_char(&json, ']');
  buffer_append_text(&json, "}");
  AUTO_CONFIG Inference__ModelConfig *nested = NULL;
  assert_null(config_read_json(buffer_view(&json), &nested));
  assert_int_equal(nested->n_input, 0);
  json.size = strlen("{\"input\": ") + 99;
  buffer_append_text(&json, "[");
  buffer_append_char(&json, '\0');
  assert_refused(json.data, "JSON nesting depth exceeds maximum allowed limit (100)");
  // brackets in strings do not count
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  buffer_append_text(&text, "{\"name\": \"\\\"");
  for (int i = 0; i < 1000; i++)
    buffer_append_char(&text, '[');
  buffer_append_text(&text, "\"}");
  AUTO_CONFIG Inference__ModelConfig *config = NULL;
  assert_null(config_read_json(buffer_view(&text), &config));
}

static void a_copy_is_equal_and_independent(void **state)
{
  (void)state;
  AUTO_CONFIG Inference__ModelConfig *config = completed("batching");
  AUTO_CONFIG Inference__ModelConfig *copy = NULL;
  assert_null(config_copy(config, &copy));
  assert_true(config_equal_but_policy(config, copy));
  copy->instance_group[0]->count = 7;
  assert_false(config_equal_but_policy(config, copy));
  assert_int_equal(config->instance_group[0]->count, 2);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_completed_configuration_prints_as_tritons_does),
      cmocka_unit_test(what_is_printed_as_json_is_read_back_to_the_same),
      cmocka_unit_test(the_sign_of_a_zero_is_kept),
      cmocka_unit_test(the_reader_takes_all_that_protobufs_json_takes),
      cmocka_unit_test(errors_name_the_place_the_value_and_what_was_expected),
      cmocka_unit_test(what_is_written_loosely_is_read_as_protobuf_reads_it),
      cmocka_unit_test(nesting_is_refused_above_100),
      cmocka_unit_test(a_copy_is_equal_and_independent),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

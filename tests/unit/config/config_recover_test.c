// SPDX-License-Identifier: Apache-2.0
// The reader that goes on after mistakes: all of a file's mistakes, each where it stands and with
// what to do, and the places of what was read.
#include "config/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

// One line for each finding: "line:column+length path: message | fix".
static char *findings(const diagnostics *found)
{
  buffer out = BUFFER_EMPTY;
  for (size_t i = 0; i < found->count; i++) {
    const diagnostic *d = &found->items[i];
    buffer_append_format(&out, "%u:%u+%u %s: %s | %s\n", d->place.line, d->place.column,
                         d->place.length, d->path, d->message, d->fix != NULL ? d->fix : "-");
  }
  buffer_append_text(&out, "");
  return buffer_take_text(&out);
}

static void assert_findings(const char *text, const char *wanted)
{
  AUTO_CONFIG Inference__ModelConfig *config = NULL;
  AUTO_SOURCE_MAP source_map map = SOURCE_MAP_EMPTY;
  AUTO_DIAGNOSTICS diagnostics found = DIAGNOSTICS_EMPTY;
  assert_null(config_read_text_all(slice_of(text), &map, &found, &config));
  assert_non_null(config);
  char *got = findings(&found);
  assert_string_equal(got, wanted);
  free(got);
}

static void every_mistake_of_a_file_is_found(void **state)
{
  (void)state;
  assert_findings(
      "name: \"m\"\n"
      "max_batchsize: 8\n"
      "platform = \"onnxruntime_onnx\"\n"
      "input [ { name: b data_type: \"TYPE_FP32\" dims: [ 1, x, 99999999999999999999 ] } ]\n"
      "max_batch_size: -1\n"
      "max_batch_size: 8\n"
      "response_cache { enable: yes }\n",
      "2:1+13 : Message type \"inference.ModelConfig\" has no field named \"max_batchsize\". | "
      "did you mean 'max_batch_size'?\n"
      "3:10+1 platform: Expected \":\", found \"=\". | write ':' before the value\n"
      "4:17+1 input[0].name: Expected string, got: b | put it in quotes\n"
      "4:30+11 input[0].data_type: Expected integer or identifier, got: \"TYPE_FP32\" | write "
      "TYPE_FP32, without quotes\n"
      "4:53+1 input[0].dims[1]: Expected integer, got: x | -\n"
      "4:56+20 input[0].dims[1]: Integer out of range (99999999999999999999) | -\n"
      "5:1+14 max_batch_size: Non-repeated field \"max_batch_size\" is specified multiple times. | "
      "remove one of them\n"
      "6:1+14 max_batch_size: Non-repeated field \"max_batch_size\" is specified multiple times. | "
      "remove one of them\n"
      "7:26+3 response_cache.enable: Invalid value for boolean field \"enable\". Value: \"yes\". | "
      "write true or false\n");
}

static void a_bracket_that_is_missing_is_guessed(void **state)
{
  (void)state;
  assert_findings("input {\n"
                  "  name: \"a\"\n"
                  "  reshape { shape: [ 6 ]\n"
                  "output {\n"
                  "  data_typ: TYPE_FP33\n"
                  "}\n"
                  "max_batch_size: x\n",
                  "4:1+6 input[0].reshape: Message type \"inference.ModelTensorReshape\" has no "
                  "field named \"output\". | close the bracket of 'reshape' in line 3 before it\n"
                  "5:3+8 output[0]: Message type \"inference.ModelOutput\" has no field named "
                  "\"data_typ\". | did you mean 'data_type'?\n"
                  "5:13+9 output[0].data_type: Unknown enumeration value of \"TYPE_FP33\" for "
                  "field \"data_type\". | did you mean 'TYPE_FP32'?\n"
                  "7:17+1 max_batch_size: Expected integer, got: x | -\n");
  assert_findings(
      "input [ {\n  dims: [ 1, 2\n} ]\nname: 7\n",
      "3:1+1 input[0].dims: Expected \",\", found \"}\". | separate elements by ',' and "
      "close the list by ']'\n"
      "4:7+1 name: Expected string, got: 7 | put it in quotes\n");
  assert_findings("input {\n  name: 'a'\n", "3:1+1 input[0]: Expected identifier, got:  | close "
                                            "the bracket of 'input' in line 1\n");
  assert_findings(
      "dynamic_batching preserve_ordering: true }\nname: 7\n",
      "1:18+17 dynamic_batching: Expected \"{\", found \"preserve_ordering\". | write '{' "
      "before it\n"
      "2:7+1 name: Expected string, got: 7 | put it in quotes\n");
  assert_findings("} name: 7 ]", "1:1+1 : Expected identifier, got: } | remove it: no bracket is "
                                 "open\n"
                                 "1:9+1 name: Expected string, got: 7 | put it in quotes\n"
                                 "1:11+1 : Expected identifier, got: ] | remove it: no bracket is "
                                 "open\n");
  assert_findings("input [\n  { name: 'a'\n    dims: [ 1 ]\n]\noutput [ { dims: x } ]\n",
                  "4:1+1 input[0]: Expected identifier, got: ] | close the '{' in line 2 before "
                  "it\n"
                  "5:18+1 output[0].dims[0]: Expected integer, got: x | -\n");
  assert_findings("input [ { dims: [ 1 ]\n  max_batch_size: 8\n} ]\n",
                  "2:3+14 input[0]: Message type \"inference.ModelInput\" has no field named "
                  "\"max_batch_size\". | write it outside of all brackets\n");
}

static void what_is_in_a_misspelt_field_is_looked_at_too(void **state)
{
  (void)state;
  assert_findings("inputs [ { nmae: \"a\" data_type: FP32 dims: [ 1 ] }, { dim: [ x ] } ]\n"
                  "output { name: \"b\" }\n",
                  "1:1+6 : Message type \"inference.ModelConfig\" has no field named \"inputs\". | "
                  "did you mean 'input'?\n"
                  "1:12+4 input[0]: Message type \"inference.ModelInput\" has no field named "
                  "\"nmae\". | did you mean 'name'?\n"
                  "1:33+4 input[0].data_type: Unknown enumeration value of \"FP32\" for field "
                  "\"data_type\". | did you mean 'TYPE_FP32'?\n"
                  "1:55+3 input[1]: Message type \"inference.ModelInput\" has no field named "
                  "\"dim\". | did you mean 'dims'?\n");
  assert_findings("verson_policy: < latest { num_version: 2 } >\nnaem: 7\n",
                  "1:1+13 : Message type \"inference.ModelConfig\" has no field named "
                  "\"verson_policy\". | did you mean 'version_policy'?\n"
                  "1:27+11 version_policy.latest: Message type "
                  "\"inference.ModelVersionPolicy.Latest\" has no field named \"num_version\". | "
                  "did you mean 'num_versions'?\n"
                  "2:1+4 : Message type \"inference.ModelConfig\" has no field named \"naem\". | "
                  "did you mean 'name'?\n");
}

static void a_list_is_one_mistake(void **state)
{
  (void)state;
  assert_findings("input { dims: [ 3 224 224 ] }\n",
                  "1:19+3 input[0].dims: Expected \",\", found \"224\". | separate elements by ',' "
                  "and close the list by ']'\n");
  assert_findings(
      "input { dims: 3, 224, -1 name: 7 }\n",
      "1:18+3 input[0].dims: Expected identifier, got: 224 | put the list into brackets: "
      "'dims: [ … ]'\n"
      "1:32+1 input[0].name: Expected string, got: 7 | put it in quotes\n");
  assert_findings("input { dims: (3, 4) }\n",
                  "1:15+1 input[0].dims[0]: Expected integer, got: ( | put numbers only into one "
                  "pair of brackets: '[ 1, 2 ]'\n");
}

static void what_another_format_has_is_known(void **state)
{
  (void)state;
  assert_findings("{ \"name\": \"m\", \"input\": [ { \"dims\": [ 1 ] } ] }\n",
                  "1:1+1 : Expected identifier, got: { | if it is JSON: write no brackets around "
                  "the whole, and names and words such as TYPE_FP32 without quotes\n");
  assert_findings("name := \"m\"\n", "1:7+1 name: Expected string, got: = | -\n");
  assert_findings(
      "// it is {\nmax_batch_size: \"8\"\n",
      "1:1+1 : Expected identifier, got: / | begin comments with '#'\n"
      "2:17+3 max_batch_size: Expected integer, got: \"8\" | write it without quotes\n");
  assert_findings(
      "parameters { \"k\": \"v\" }\nparameters { key: 'a' value: 'b' }\n",
      "1:14+3 parameters[0]: Expected identifier, got: \"k\" | write 'key: \"k\" value: "
      "{ … }'\n"
      "2:30+3 parameters[1].value: Expected \"{\", found \"'b'\". | write 'value { "
      "string_value: 'b' }'\n");
  assert_findings("input { data_type: float dims: None }\n",
                  "1:20+5 input[0].data_type: Unknown enumeration value of \"float\" for field "
                  "\"data_type\". | did you mean 'TYPE_FP32'?\n"
                  "1:32+4 input[0].dims[0]: Expected integer, got: None | write -1 for any size\n");
  assert_findings("input { data_type: tensor(float) dims: x }\n",
                  "1:20+6 input[0].data_type: Unknown enumeration value of \"tensor\" for field "
                  "\"data_type\". | did you mean 'TYPE_FP32'?\n"
                  "1:40+1 input[0].dims[0]: Expected integer, got: x | -\n");
  assert_findings("input { data_type: np.int8 dims: x }\n",
                  "1:20+2 input[0].data_type: Unknown enumeration value of \"np\" for field "
                  "\"data_type\". | did you mean 'TYPE_INT8'?\n"
                  "1:34+1 input[0].dims[0]: Expected integer, got: x | -\n");
}

static void where_a_field_belongs_is_told(void **state)
{
  (void)state;
  assert_findings(
      "dims: [ 4 ]\n"
      "preferred_batch_size: 4\n"
      "num_versions: 2\n"
      "dynamic_batching { default_queue_policy { preserve_ordering: true } }\n"
      "version_policy: latest\n",
      "1:1+4 : Message type \"inference.ModelConfig\" has no field named \"dims\". | write it in "
      "'input { … }' or 'output { … }'\n"
      "2:1+20 : Message type \"inference.ModelConfig\" has no field named "
      "\"preferred_batch_size\". | write it in 'dynamic_batching { … }'\n"
      "3:1+12 : Message type \"inference.ModelConfig\" has no field named \"num_versions\". | "
      "write it in 'version_policy.latest { … }'\n"
      "4:43+17 dynamic_batching.default_queue_policy: Message type \"inference.ModelQueuePolicy\" "
      "has no field named \"preserve_ordering\". | write it behind the bracket that "
      "'default_queue_policy' in line 4 opens\n"
      "5:17+6 version_policy: Expected \"{\", found \"latest\". | write 'version_policy { latest { "
      "} }'\n");
}

static void what_is_no_token_is_stepped_over(void **state)
{
  (void)state;
  assert_findings("name: \"o\nbackend: 'x'\n\xC3\xA9t\xC3\xA9 platform: 5 max_batch_size: 0x\n",
                  "1:9+1 : String literals cannot cross line boundaries. | -\n"
                  "3:1+1 : Interpreting non ascii codepoint 195. | -\n"
                  "3:17+1 platform: Expected string, got: 5 | put it in quotes\n"
                  "3:37+1 : \"0x\" must be followed by hex digits. | -\n");
}

static void the_nearest_value_is_named(void **state)
{
  (void)state;
  assert_findings(
      "input { data_type: FP32 } instance_group { kind: cpu }\n"
      "dynamic_batching: true\n"
      "version_policy { all {} latest {} }\n",
      "1:20+4 input[0].data_type: Unknown enumeration value of \"FP32\" for field "
      "\"data_type\". | did you mean 'TYPE_FP32'?\n"
      "1:50+3 instance_group[0].kind: Unknown enumeration value of \"cpu\" for field "
      "\"kind\". | did you mean 'KIND_CPU'?\n"
      "2:19+4 dynamic_batching: Expected \"{\", found \"true\". | write 'dynamic_batching { "
      "}'\n"
      "3:25+6 version_policy.latest: Field \"latest\" is specified along with field "
      "\"all\", another member of oneof \"policy_choice\". | remove one of them\n");
}

static void mistakes_without_end_are_counted(void **state)
{
  (void)state;
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  for (size_t i = 0; i < DIAGNOSTICS_MAX + 7; i++)
    buffer_append_text(&text, "x: 1 ");
  AUTO_CONFIG Inference__ModelConfig *config = NULL;
  AUTO_SOURCE_MAP source_map map = SOURCE_MAP_EMPTY;
  AUTO_DIAGNOSTICS diagnostics found = DIAGNOSTICS_EMPTY;
  assert_null(config_read_text_all(buffer_view(&text), &map, &found, &config));
  assert_int_equal(found.count, DIAGNOSTICS_MAX);
  assert_int_equal(found.errors, DIAGNOSTICS_MAX + 7);
  assert_int_equal(found.left_out, 7);
}

static void assert_place(const source_map *map, const char *path, unsigned line, unsigned column,
                         unsigned length)
{
  const source_place place = source_map_find(map, path);
  if (place.line != line || place.column != column || place.length != length)
    fail_msg("%s: %u:%u+%u", path, place.line, place.column, place.length);
}

static void every_field_has_its_place(void **state)
{
  (void)state;
  AUTO_CONFIG Inference__ModelConfig *config = NULL;
  AUTO_SOURCE_MAP source_map map = SOURCE_MAP_EMPTY;
  assert_null(
      config_read_text_places(SLICE("name: \"m\"\n"
                                    "max_batch_size: -1\n"
                                    "input [ { name: \"a\" dims: [ 1, -1 ] },\n"
                                    "        { name: \"b\" dims: 7 } ]\n"
                                    "parameters { key: \"k\" value { string_value: \"v\" } }\n"
                                    "metric_tags { key: \"a.b\" value: \"v\" }\n"
                                    "dynamic_batching { priority_queue_policy { key: 2 "
                                    "value { max_queue_size: 9 } } }\n"),
                              "f", &map, &config));
  assert_place(&map, "name", 1, 7, 3);
  assert_place(&map, "max_batch_size", 2, 17, 2);
  assert_place(&map, "input", 3, 1, 5);
  assert_place(&map, "input[0]", 3, 9, 1);
  assert_place(&map, "input[0].dims[1]", 3, 32, 2);
  assert_place(&map, "input[1].name", 4, 17, 3);
  assert_place(&map, "parameters[\"k\"].string_value", 5, 45, 3);
  assert_place(&map, "metric_tags[\"a.b\"]", 6, 33, 3);
  assert_place(&map, "dynamic_batching.priority_queue_policy[2].max_queue_size", 7, 75, 1);
  // What is not there is where it would be.
  assert_place(&map, "input[1].data_type", 4, 9, 1);
  assert_place(&map, "input[1].dims[3]", 4, 21, 4);
  assert_int_equal(source_map_find(&map, "output").line, 0);
  assert_int_equal(source_map_find_exact(&map, "input[1].data_type").line, 0);
}

// ---- memory ----

static long allocations_left = -1; // below 0: as many as are wanted
static bool was_short;

void *__real_realloc(void *pointer, size_t size);
void *__wrap_realloc(void *pointer, size_t size);

void *__wrap_realloc(void *pointer, size_t size)
{
  was_short = was_short || allocations_left == 0;
  if (allocations_left == 0)
    return NULL;
  allocations_left -= allocations_left > 0;
  return __real_realloc(pointer, size);
}

// How the reading ends when the memory is short after `count` allocations.
static error_code code_with(const char *text, long count)
{
  AUTO_CONFIG Inference__ModelConfig *config = NULL;
  AUTO_SOURCE_MAP source_map map = SOURCE_MAP_EMPTY;
  AUTO_DIAGNOSTICS diagnostics found = DIAGNOSTICS_EMPTY;
  allocations_left = count;
  was_short = false;
  error *e = config_read_text_all(slice_of(text), &map, &found, &config);
  allocations_left = -1;
  assert_true(e != NULL || !was_short);
  error_code code = e != NULL ? error_get_code(e) : 0;
  error_free(e);
  return code;
}

static void short_memory_is_no_mistake(void **state)
{
  (void)state;
  const char *text =
      "nam: \"m\"\ninput [ { name: b dims: [ x ] } ]\nparameters { key: \"k\" valu: 1 }\n";
  long count = 0;
  for (error_code code; (code = code_with(text, count)) != 0; count++)
    assert_int_equal(code, ERROR_UNAVAILABLE);
  assert_true(count > 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_mistake_of_a_file_is_found),
      cmocka_unit_test(a_bracket_that_is_missing_is_guessed),
      cmocka_unit_test(what_is_in_a_misspelt_field_is_looked_at_too),
      cmocka_unit_test(a_list_is_one_mistake),
      cmocka_unit_test(what_another_format_has_is_known),
      cmocka_unit_test(where_a_field_belongs_is_told),
      cmocka_unit_test(what_is_no_token_is_stepped_over),
      cmocka_unit_test(the_nearest_value_is_named),
      cmocka_unit_test(mistakes_without_end_are_counted),
      cmocka_unit_test(short_memory_is_no_mistake),
      cmocka_unit_test(every_field_has_its_place),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

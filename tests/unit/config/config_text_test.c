// SPDX-License-Identifier: Apache-2.0
// The text format: what protobuf accepts is accepted, what it refuses is refused at the same place
// in the same words.
#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "config/config.h"
#include "config_print_text.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static Inference__ModelConfig *read_text(const char *text)
{
  Inference__ModelConfig *config = NULL;
  error *e = config_read_text(slice_of(text), "config.pbtxt", &config);
  if (e != NULL)
    fail_msg("%s: %s", text, error_message(e));
  return config;
}

static void assert_refused(slice text, const char *message)
{
  Inference__ModelConfig *config = NULL;
  AUTO_ERROR error *e = config_read_text(text, "f", &config);
  if (e == NULL)
    fail_msg("accepted: %.*s", (int)text.size, text.data);
  assert_string_equal(error_message(e), message);
  assert_int_equal(error_get_code(e), ERROR_INVALID_ARG);
  assert_null(config);
}

static void an_empty_text_is_an_empty_configuration(void **state)
{
  (void)state;
  const char *texts[] = {"", "  \n\t ", "# only a comment", "\xEF\xBB\xBF"};
  for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
    AUTO_CONFIG Inference__ModelConfig *config = read_text(texts[i]);
    assert_string_equal(config->name, "");
    assert_int_equal(config->n_input, 0);
  }
  AUTO_CONFIG Inference__ModelConfig *config = NULL;
  assert_null(config_read_text((slice){NULL, 0}, "f", &config));
}

static void every_kind_of_field_is_read(void **state)
{
  (void)state;
  AUTO_CONFIG Inference__ModelConfig *config = read_text(
      "name: \"m\" max_batch_size: -3\n"
      "input { name: \"a\" data_type: TYPE_FP16 dims: [ 1, -1 ] optional: true }\n"
      "input { name: \"b\" data_type: 8 dims: 7 dims: 0x10 }\n"
      "dynamic_batching { max_queue_delay_microseconds: 18446744073709551615\n"
      "  priority_queue_policy { key: 5 value { max_queue_size: 4294967295 } } }\n"
      "model_metrics { metric_control { histogram_options { buckets: [ .5, -1e3, 2f, inf ] } } }");
  assert_string_equal(config->name, "m");
  assert_int_equal(config->max_batch_size, -3);
  assert_int_equal(config->n_input, 2);
  assert_int_equal(config->input[0]->data_type, INFERENCE__DATA_TYPE__TYPE_FP16);
  assert_int_equal(config->input[0]->dims[1], -1);
  assert_true(config->input[0]->optional);
  assert_int_equal(config->input[1]->data_type, INFERENCE__DATA_TYPE__TYPE_INT32);
  assert_int_equal(config->input[1]->n_dims, 2);
  assert_int_equal(config->input[1]->dims[1], 16);
  assert_int_equal(config->scheduling_choice_case,
                   INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING);
  const Inference__ModelDynamicBatching *batching = config->dynamic_batching;
  assert_true(batching->max_queue_delay_microseconds == UINT64_MAX);
  assert_int_equal(batching->priority_queue_policy[0]->key, 5);
  assert_true(batching->priority_queue_policy[0]->value->max_queue_size == UINT32_MAX);
  const double *buckets = config->model_metrics->metric_control[0]->histogram_options->buckets;
  assert_true(buckets[0] == .5 && buckets[1] == -1000 && buckets[2] == 2 && isinf(buckets[3]));
}

static void strings_join_and_their_escapes_are_read(void **state)
{
  (void)state;
  const struct {
    const char *text, *value;
  } cases[] = {
      {"name: \"a\" 'b'\n\"c\"", "abc"},
      {"name: '\"' \"'\"", "\"'"},
      {"name: '\\a\\b\\f\\n\\r\\t\\v\\\\\\?\\'\\\"'", "\a\b\f\n\r\t\v\\?'\""},
      {"name: '\\1\\101\\1019'", "\1AA9"},
      {"name: '\\x41\\x4a4\\X7'", "AJ4\7"},
      {"name: '\\u00e4\\u20aC\\U0001F600\\ud83d\\ude00'", "ä€😀😀"},
      {"name: 'ä # no comment' # comment", "ä # no comment"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    AUTO_CONFIG Inference__ModelConfig *config = read_text(cases[i].text);
    assert_string_equal(config->name, cases[i].value);
  }
}

static void of_map_entries_with_the_same_key_the_last_one_wins(void **state)
{
  (void)state;
  AUTO_CONFIG Inference__ModelConfig *config =
      read_text("parameters { key: 'a' value { string_value: '1' } }\n"
                "parameters [ { key: 'b' }, { value { string_value: '3' } key: 'a' }, { } ]");
  assert_int_equal(config->n_parameters, 3);
  assert_string_equal(config->parameters[0]->key, "a");
  assert_string_equal(config_parameter(config, "a"), "3");
  assert_string_equal(config_parameter(config, "b"), ""); // a missing value is an empty one
  assert_string_equal(config_parameter(config, ""), "");
  assert_null(config_parameter(config, "c"));
}

static void what_protobuf_refuses_is_refused_in_its_words(void **state)
{
  (void)state;
  const struct {
    const char *text, *message;
  } cases[] = {
      {"max_batch_size: -", "f:1:18: Expected integer, got: "},
      {"max_batch_size: --1", "f:1:18: Expected integer, got: -"},
      {"optimization { gather_kernel_buffer_threshold: -1 }", "f:1:48: Expected integer, got: -"},
      {"max_batch_size: \"invalid_value\"", "f:1:17: Expected integer, got: \"invalid_value\""},
      {"max_batch_size: 12345678901", "f:1:17: Integer out of range (12345678901)"},
      {"max_batch_size: 2147483648", "f:1:17: Integer out of range (2147483648)"},
      {"max_batch_size: -2147483649", "f:1:18: Integer out of range (2147483649)"},
      {"input { dims: 9223372036854775808 }", "f:1:15: Integer out of range (9223372036854775808)"},
      {"max_batch_size: 1.5", "f:1:17: Expected integer, got: 1.5"},
      {"x: 1", "f:1:1: Message type \"inference.ModelConfig\" has no field named \"x\"."},
      {"name: 'a'\n\n  max_batchsize: 8", "f:3:3: Message type \"inference.ModelConfig\" has no "
                                          "field named \"max_batchsize\". Did you mean "
                                          "'max_batch_size'?"},
      {"input { nmae: 'x' }", "f:1:9: Message type \"inference.ModelInput\" has no field named "
                              "\"nmae\". Did you mean 'name'?"},
      {"name: 'a' name: 'b'", "f:1:11: Non-repeated field \"name\" is specified multiple times."},
      {"dynamic_batching {} dynamic_batching {}",
       "f:1:21: Non-repeated field \"dynamic_batching\" is specified multiple times."},
      {"dynamic_batching {} sequence_batching {}",
       "f:1:21: Field \"sequence_batching\" is specified along with field \"dynamic_batching\", "
       "another member of oneof \"scheduling_choice\"."},
      {"version_policy { all {} latest {} }",
       "f:1:25: Field \"latest\" is specified along with field \"all\", another member of oneof "
       "\"policy_choice\"."},
      {"input { data_type: TYPE_FP31 }", "f:1:20: Unknown enumeration value of \"TYPE_FP31\" for "
                                         "field \"data_type\". Did you mean 'TYPE_FP32'?"},
      {"input { data_type: 99 }",
       "f:1:20: Unknown enumeration value of \"99\" for field \"data_type\"."},
      {"input { data_type: 1.5 }", "f:1:20: Expected integer or identifier, got: 1.5"},
      {"input { optional: yes }",
       "f:1:19: Invalid value for boolean field \"optional\". Value: \"yes\"."},
      {"input { optional: 2 }", "f:1:19: Integer out of range (2)"},
      {"name: x", "f:1:7: Expected string, got: x"},
      {"\tname: x", "f:1:15: Expected string, got: x"},
      {"name \"a\"", "f:1:6: Expected \":\", found \"\"a\"\"."},
      {"input { name: 'a'", "f:1:18: Expected identifier, got: "},
      {"input [ { name: 'a' }", "f:1:22: Expected \",\", found \"\"."},
      {"input }", "f:1:7: Expected \"{\", found \"}\"."},
      {"input < name: 'a' }", "f:1:19: Expected \">\", found \"}\"."},
      {"input: 5", "f:1:8: Expected \"{\", found \"5\"."},
      {"input { dims: [1 2] }", "f:1:18: Expected \",\", found \"2\"."},
      {"name: ['a']", "f:1:7: Expected string, got: ["},
      {"name: 'abc", "f:1:11: Unexpected end of string."},
      {"name: 'abc\\", "f:1:12: Unexpected end of string."},
      {"name: 'a\nb'", "f:1:9: String literals cannot cross line boundaries."},
      {"name: 'a\\q'", "f:1:10: Invalid escape sequence in string literal."},
      {"name: '\\xg'", "f:1:10: Expected hex digits for escape sequence."},
      {"name: '\\u12'", "f:1:12: Expected four hex digits for \\u escape sequence."},
      {"name: '\\U00110000'",
       "f:1:7: Expected eight hex digits up to 10ffff for \\U escape sequence"},
      {"name: '\\ud800'", "f:1:7: Escape sequence U+D800 is half a surrogate pair."},
      {"name: 'a\\0b'", "f:1:7: String holds a NUL character, which no configuration value may."},
      {"max_batch_size: 0x", "f:1:19: \"0x\" must be followed by hex digits."},
      {"max_batch_size: 09", "f:1:18: Numbers starting with leading zero must be in octal."},
      {"max_batch_size: 1e", "f:1:19: \"e\" must be followed by exponent."},
      {"max_batch_size: 0x1.5", "f:1:20: Hex and octal numbers must be integers."},
      {"max_batch_size: 1.5.5",
       "f:1:20: Already saw decimal point or exponent; can't have another one."},
      {"sequence_batching { direct { minimum_slot_utilization: abc } }",
       "f:1:56: Expected double, got: abc"},
      {"sequence_batching { direct { minimum_slot_utilization: 0x10 } }",
       "f:1:56: Expect a decimal number, got: 0x10"},
      {"name: 'a' \x01", "f:1:11: Invalid control characters encountered in text."},
      {"nä: 1", "f:1:1: Message type \"inference.ModelConfig\" has no field named \"n\"."},
      {"name: 'a'\xC3", "f:1:10: Interpreting non ascii codepoint 195."},
      {"name: “a”", "f:1:7: Interpreting non ascii codepoint 226. It begins a typographic quote: "
                    "write \" in its place."},
      {"name: ‘a’", "f:1:7: Interpreting non ascii codepoint 226. It begins a typographic quote: "
                    "write \" in its place."},
      {"name: „a“", "f:1:7: Interpreting non ascii codepoint 226. It begins a typographic quote: "
                    "write \" in its place."},
      {"name:\xC2\xA0'a'", "f:1:6: Interpreting non ascii codepoint 194. It begins a no-break "
                           "space: write a plain one in its place."},
      {"input { data_type: \"FP32\" }", "f:1:20: Expected integer or identifier, got: \"FP32\". "
                                        "Write TYPE_FP32, without quotes."},
      {"[foo.bar]: 1", "f:1:1: Expected identifier, got: ["},
      {": 5", "f:1:1: Expected identifier, got: :"},
      {"max_batch_size: 1 2", "f:1:19: Expected identifier, got: 2"},
      {"name: 'a';;", "f:1:11: Expected identifier, got: ;"},
      {"instance_group[{kind KIND_CPU}]", "f:1:22: Expected \":\", found \"KIND_CPU\"."},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
    assert_refused(slice_of(cases[i].text), cases[i].message);
  assert_refused(SLICE("name: 'a\0b'"), "f:1:9: Unexpected end of string.");
}

// What clients, NumPy, PyTorch, ONNX, C and people call a type; NULL: what is no type here.
static void the_name_that_was_meant_is_suggested(void **state)
{
  (void)state;
  const struct {
    const char *written, *meant;
  } cases[] = {
      {"TYPE_BYTES", "TYPE_STRING"},
      {"BYTES", "TYPE_STRING"},
      {"FP32", "TYPE_FP32"},
      {"TYPE_FLOAT", "TYPE_FP32"},
      {"float32", "TYPE_FP32"},
      {"TYPE_DOUBLE", "TYPE_FP64"},
      {"object", "TYPE_STRING"},
      {"str", "TYPE_STRING"},
      {"int64", "TYPE_INT64"},
      {"uint8_t", "TYPE_UINT8"},
      {"f16", "TYPE_FP16"},
      {"TYPE_U8", "TYPE_UINT8"},
      {"bfloat16", "TYPE_BF16"},
      {"np.float32", "TYPE_FP32"},
      {"torch.int64", "TYPE_INT64"},
      {"np.object_", NULL},
      {"tensor(float)", "TYPE_FP32"},
      {"tensor(string)", "TYPE_STRING"},
      {"TYPE_STIRNG", "TYPE_STRING"},
      {"TYPE_INT_32", "TYPE_INT32"},
      {"TYPE_CHAR", NULL},
      {"TYPE_FP8", NULL},
      {"TYPE_INT128", NULL},
      {"TYPE_NUMERIC", NULL},
      {"complex64", NULL},
      {"KIND_TPU", NULL},
      {"", NULL},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    Inference__ModelConfig *config = NULL;
    char text[80], expected[80];
    snprintf(text, sizeof(text), "input { data_type: \"%s\" }", cases[i].written);
    snprintf(expected, sizeof(expected), "got: \"%s\"%s%s%s", cases[i].written,
             cases[i].meant == NULL ? "" : ". Write ", cases[i].meant == NULL ? "" : cases[i].meant,
             cases[i].meant == NULL ? "" : ", without quotes.");
    AUTO_ERROR error *e = config_read_text(slice_of(text), "f", &config);
    assert_non_null(e);
    assert_string_equal(strstr(error_message(e), "got: "), expected);
  }
}

// Names without quotes may be several tokens.
static void the_name_that_was_meant_is_suggested_without_quotes(void **state)
{
  (void)state;
  const struct {
    const char *written, *shown, *meant;
  } cases[] = {
      {"tensor(float)", "tensor", "TYPE_FP32"}, {"tensor(int64),", "tensor", "TYPE_INT64"},
      {"np.float16", "np", "TYPE_FP16"},        {"torch.float64;", "torch", "TYPE_FP64"},
      {"float32", "float32", "TYPE_FP32"},      {"tensor", "tensor", NULL},
      {"tensor(float", "tensor", NULL},         {"tensor (float)", "tensor", NULL},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    Inference__ModelConfig *config = NULL;
    char text[80], expected[160];
    snprintf(text, sizeof(text), "input { data_type: %s }", cases[i].written);
    snprintf(expected, sizeof(expected),
             "f:1:20: Unknown enumeration value of \"%s\" for field \"data_type\".%s%s%s",
             cases[i].shown, cases[i].meant == NULL ? "" : " Did you mean '",
             cases[i].meant == NULL ? "" : cases[i].meant, cases[i].meant == NULL ? "" : "'?");
    AUTO_ERROR error *e = config_read_text(slice_of(text), "f", &config);
    assert_non_null(e);
    assert_string_equal(error_message(e), expected);
  }
}

// protobuf cannot see that a proto3 scalar was given as zero.
static void a_scalar_given_as_zero_may_be_given_again(void **state)
{
  (void)state;
  AUTO_CONFIG Inference__ModelConfig *config = read_text("max_batch_size: 0 max_batch_size: 8");
  assert_int_equal(config->max_batch_size, 8);
}

static void a_long_token_is_cut_in_the_message(void **state)
{
  (void)state;
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  buffer_append_text(&text, "max_batch_size: ");
  for (int i = 0; i < 100000; i++)
    buffer_append_char(&text, '9');
  Inference__ModelConfig *config = NULL;
  AUTO_ERROR error *e = config_read_text(buffer_view(&text), "f", &config);
  assert_non_null(e);
  assert_true(strlen(error_message(e)) < 200);
}

static void many_entries_with_few_keys_are_united_quickly(void **state)
{
  (void)state;
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  for (int i = 0; i < 100000; i++)
    buffer_append_format(&text, "metric_tags{key:'%d' value:'%d'}", i % 50000, i);
  buffer_append_char(&text, '\0');
  AUTO_CONFIG Inference__ModelConfig *config = read_text(text.data);
  assert_int_equal(config->n_metric_tags, 50000);
  assert_string_equal(config->metric_tags[7]->key, "7");
  assert_string_equal(config->metric_tags[7]->value, "50007");
}

static void what_is_printed_as_text_is_read_back_to_the_same(void **state)
{
  (void)state;
  AUTO_CONFIG Inference__ModelConfig *config = read_text(
      "name: 'q\\\"\\\\\\n\\001ä' max_batch_size: 4 input { name: 'a' dims: [ 1, -1 ] reshape { } "
      "}\n"
      "version_policy { specific { versions: [ 3, 9223372036854775807 ] } }\n"
      "sequence_batching { state { initial_state { zero_data: false name: 'z' } }\n"
      "  direct { minimum_slot_utilization: 0.1 max_queue_delay_microseconds: 3 } }\n"
      "parameters { key: 'k' value { string_value: 'v' } } instance_group { kind: KIND_CPU }\n"
      "model_metrics { metric_control { histogram_options { buckets: [0.1, nan, -inf] } } }");
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  assert_null(config_print_text(config, &text));
  buffer_append_char(&text, '\0');
  assert_non_null(strstr(text.data, "name: \"q\\\"\\\\\\n\\001ä\"\n"));
  assert_non_null(
      strstr(text.data, "input {\n  name: \"a\"\n  dims: [ 1, -1 ]\n  reshape {\n  }\n}\n"));
  AUTO_CONFIG Inference__ModelConfig *again = read_text(text.data);
  AUTO_BUFFER buffer first = BUFFER_EMPTY;
  AUTO_BUFFER buffer second = BUFFER_EMPTY;
  assert_null(config_print_json(config, &first));
  assert_null(config_print_json(again, &second));
  assert_true(slice_equal(buffer_view(&first), buffer_view(&second)));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_empty_text_is_an_empty_configuration),
      cmocka_unit_test(every_kind_of_field_is_read),
      cmocka_unit_test(strings_join_and_their_escapes_are_read),
      cmocka_unit_test(of_map_entries_with_the_same_key_the_last_one_wins),
      cmocka_unit_test(what_protobuf_refuses_is_refused_in_its_words),
      cmocka_unit_test(the_name_that_was_meant_is_suggested),
      cmocka_unit_test(the_name_that_was_meant_is_suggested_without_quotes),
      cmocka_unit_test(a_scalar_given_as_zero_may_be_given_again),
      cmocka_unit_test(a_long_token_is_cut_in_the_message),
      cmocka_unit_test(many_entries_with_few_keys_are_united_quickly),
      cmocka_unit_test(what_is_printed_as_text_is_read_back_to_the_same),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

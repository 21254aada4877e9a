// SPDX-License-Identifier: Apache-2.0
// The generate extension's JSON: which member becomes what, and what a reply looks like.
#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "frontend/common/json/generate_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ZEROES_BEHIND 16
#define MAX_DATA      64

// A model with one input of each kind, as its metadata says.
static const char metadata[] =
    "{\"name\":\"m\",\"versions\":[\"1\"],\"inputs\":["
    "{\"name\":\"TEXT\",\"datatype\":\"BYTES\",\"shape\":[-1,-1]},"
    "{\"name\":\"ONE\",\"datatype\":\"INT32\",\"shape\":[1]},"
    "{\"name\":\"PAIRS\",\"datatype\":\"FP32\",\"shape\":[-1,2]},"
    "{\"name\":\"FLAG\",\"datatype\":\"BOOL\",\"shape\":[-1,1]},"
    "{\"name\":\"NONE\",\"datatype\":\"INT8\",\"shape\":[0,-1]}],\"outputs\":[]}";

typedef struct reading {
  char *metadata, *text; // of exactly the size that may be read
  arena arena;
  generate_inputs inputs;
  infer_request_json request;
  error *error;
} reading;

static char *copy_with_zeroes(const char *text)
{
  char *copy = calloc(1, strlen(text) + ZEROES_BEHIND);
  assert_non_null(copy);
  memcpy(copy, text, strlen(text));
  return copy;
}

static reading read_text(const char *text)
{
  reading r = {.metadata = copy_with_zeroes(metadata), .text = copy_with_zeroes(text)};
  arena_init(&r.arena, NULL, 0);
  assert_null(generate_inputs_read((slice){r.metadata, strlen(metadata)}, &r.arena, &r.inputs));
  r.error = generate_request_json_read((slice){r.text, strlen(text)}, &r.inputs, MAX_DATA, &r.arena,
                                       &r.request);
  return r;
}

static void finish(reading *r)
{
  error_free(r->error);
  arena_fini(&r->arena);
  free(r->metadata);
  free(r->text);
}

static reading read_good(const char *text)
{
  reading r = read_text(text);
  if (r.error != NULL)
    fail_msg("%s\nwas refused: %s", text, error_message(r.error));
  return r;
}

static void assert_refused(const char *text, const char *words)
{
  reading r = read_text(text);
  if (r.error == NULL)
    fail_msg("%s\nwas taken", text);
  assert_int_equal(error_get_code(r.error), ERROR_INVALID_ARG);
  if (strstr(error_message(r.error), words) == NULL)
    fail_msg("%s\nwas refused with: %s", text, error_message(r.error));
  finish(&r);
}

// ---- requests ----

static void metadata_tells_the_inputs(void **state)
{
  (void)state;
  reading r = read_good("{}");
  assert_int_equal(r.inputs.count, 5);
  assert_string_equal(r.inputs.items[2].name, "PAIRS");
  assert_int_equal(r.inputs.items[2].datatype, TRITONSERVER_TYPE_FP32);
  assert_int_equal(r.inputs.items[2].shape_count, 2);
  assert_int_equal(r.inputs.items[2].shape[0], -1);
  assert_int_equal(r.inputs.items[2].shape[1], 2);
  finish(&r);
}

static void nothing_is_an_empty_object(void **state)
{
  (void)state;
  reading r = read_good("");
  assert_int_equal(r.request.input_count + r.request.parameters.count, 0);
  assert_string_equal(r.request.id, "");
  finish(&r);
}

static const struct {
  const char *text;
  const char *name;
  int64_t shape[2];
  size_t shape_count;
  const char *data;
  size_t data_size;
} values[] = {
    {"{\"TEXT\":\"ab\"}", "TEXT", {1, 1}, 2, "\2\0\0\0ab", 6},
    {"{\"TEXT\":[\"a\",\"\"]}", "TEXT", {1, 2}, 2, "\1\0\0\0a\0\0\0\0", 9},
    {"{\"TEXT\":\"\\u00e4\"}", "TEXT", {1, 1}, 2, "\2\0\0\0\xc3\xa4", 6},
    {"{\"ONE\":-2}", "ONE", {1}, 1, "\xfe\xff\xff\xff", 4},
    {"{\"ONE\":[3]}", "ONE", {1}, 1, "\3\0\0\0", 4},
    {"{\"PAIRS\":[0,0,0,0]}", "PAIRS", {2, 2}, 2, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16},
    {"{\"FLAG\":true}", "FLAG", {1, 1}, 2, "\1", 1},
    {"{\"FLAG\":[true,false,true]}", "FLAG", {3, 1}, 2, "\1\0\1", 3},
    {"{\"FLAG\":[]}", "FLAG", {0, 1}, 2, "", 0},
    {"{\"TEXT\":[]}", "TEXT", {1, 0}, 2, "", 0},
    {"{\"PAIRS\":[]}", "PAIRS", {0, 2}, 2, "", 0},
    {"{\"parameters\":{\"ONE\":1}}", "ONE", {1}, 1, "\1\0\0\0", 4},
};

static void a_member_named_as_an_input_is_its_value(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
    reading r = read_good(values[i].text);
    assert_int_equal(r.request.input_count, 1);
    assert_int_equal(r.request.parameters.count, 0);
    const infer_json_input *input = &r.request.inputs[0];
    assert_string_equal(input->name, values[i].name);
    assert_int_equal(input->shape_count, values[i].shape_count);
    for (size_t k = 0; k < input->shape_count; k++)
      assert_int_equal(input->shape[k], values[i].shape[k]);
    assert_int_equal(input->data_size, values[i].data_size);
    if (input->data_size > 0)
      assert_memory_equal(input->data, values[i].data, input->data_size);
    finish(&r);
  }
}

static void other_members_are_parameters(void **state)
{
  (void)state;
  reading r = read_good(
      "{\"a\":1,\"b\":\"x\",\"parameters\":{\"c\":true,\"id\":2,\"d\":1.5},\"triton_x\":2}");
  const json_parameters *p = &r.request.parameters;
  assert_int_equal(p->count, 6);
  assert_string_equal(p->items[0].name, "a");
  assert_int_equal(p->items[0].value.integer, 1);
  assert_string_equal(p->items[1].value.string, "x");
  assert_true(p->items[2].value.boolean);
  assert_string_equal(p->items[3].name, "id");
  assert_true(p->items[4].value.real == 1.5);
  assert_string_equal(r.request.id, "");
  finish(&r);
}

static void the_id_is_a_parameter_too(void **state)
{
  (void)state;
  reading r = read_good("{\"id\":\"42\"}");
  assert_string_equal(r.request.id, "42");
  assert_int_equal(r.request.parameters.count, 1);
  assert_string_equal(r.request.parameters.items[0].value.string, "42");
  finish(&r);
}

static void what_does_not_fit_is_refused(void **state)
{
  (void)state;
  static const char *const cases[][2] = {
      {"{\"ONE\":[1,2]}", "The schema can not convert input 'ONE' to tensor with proper shape"},
      {"{\"PAIRS\":[1,2,3]}", "The schema can not convert input 'PAIRS'"},
      {"{\"PAIRS\":1}", "The schema can not convert input 'PAIRS'"},
      {"{\"NONE\":1}", "The schema can not convert input 'NONE'"},
      {"{\"ONE\":[]}", "The schema can not convert input 'ONE' to tensor with proper shape"},
      {"{\"PAIRS\":[[]]}", "The schema can not convert input 'PAIRS'"},
      {"{\"ONE\":\"1\"}", "Unable to parse 'data': attempt to access JSON non-signed-integer as "
                          "signed-integer: ONE: "},
      {"{\"ONE\":3000000000}", "an integer in [-2147483648, 2147483647]"},
      {"{\"TEXT\":{\"a\":1}}", "non-string as string"},
      {"{\"FLAG\":null}", "non-boolean as boolean"},
      {"{\"FLAG\":tru}", "JSON"},
      {"{\"ONE\":1,\"ONE\":1}", "[request id: <id_unknown>] input 'ONE' already exists in request"},
      {"{\"ONE\":1,\"parameters\":{\"ONE\":1}}", "input 'ONE' already exists in request"},
      {"{\"x\":[1]}", "parameter 'x' has invalid type"},
      {"{\"parameters\":{\"parameters\":{}}}", "parameter 'parameters' has invalid type"},
      {"{\"parameters\":[]}", "Expected JSON object for keyword: 'parameters'"},
      {"{\"id\":1}", "Unable to parse 'id'"},
      {"{} {}", "JSON"},
      {"[]", "attempt to get members for non-object: expected an object, got '[]' at byte 0"},
      {"{\"PAIRS\":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}",
       "request size of 0 bytes with input 'PAIRS' of size 72 bytes exceeds the maximum allowed "
       "input size of 64."},
      {"{\"ONE\":1,\"TEXT\":\"0123456789012345678901234567890123456789012345678901234567890\"}",
       "request size of 4 bytes with input 'TEXT' of size 65 bytes exceeds"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
    assert_refused(cases[i][0], cases[i][1]);
}

static void an_input_of_no_known_type_takes_nothing(void **state)
{
  (void)state;
  const generate_input input = {.name = "X", .datatype = TRITONSERVER_TYPE_INVALID};
  const generate_inputs inputs = {(generate_input *)&input, 1};
  char *text = copy_with_zeroes("{\"X\":1}");
  arena a;
  infer_request_json request;
  arena_init(&a, NULL, 0);
  error *e = generate_request_json_read(slice_of(text), &inputs, MAX_DATA, &a, &request);
  assert_non_null(e);
  assert_string_equal(error_message(e), "input 'X' has unsupported datatype");
  error_free(e);
  arena_fini(&a);
  free(text);
}

static void an_input_may_not_be_called_parameters(void **state)
{
  (void)state;
  const generate_input input = {.name = "parameters", .datatype = TRITONSERVER_TYPE_BOOL};
  const generate_inputs inputs = {(generate_input *)&input, 1};
  char *text = copy_with_zeroes("{\"parameters\":true}");
  arena a;
  infer_request_json request;
  arena_init(&a, NULL, 0);
  error *e = generate_request_json_read(slice_of(text), &inputs, MAX_DATA, &a, &request);
  assert_non_null(e);
  assert_string_equal(error_message(e),
                      "Keyword 'parameters' for nested schema also given as input tensor name");
  error_free(e);
  arena_fini(&a);
  free(text);
}

// ---- replies ----

static void assert_written(const infer_response_json *response, const char *expected)
{
  arena a;
  AUTO_BUFFER buffer out = BUFFER_EMPTY;
  arena_init(&a, NULL, 0);
  assert_null(generate_response_json_write(response, &a, &out));
  buffer_append_char(&out, '\0');
  assert_string_equal(out.data, expected);
  arena_fini(&a);
}

static const int64_t one[] = {1, 1}, two[] = {2}, none[] = {0};
static const int32_t numbers[] = {-5, 7};

static void members_are_sorted_and_one_element_is_a_scalar(void **state)
{
  (void)state;
  const response_output_json outputs[] = {
      {.name = "z",
       .datatype = TRITONSERVER_TYPE_INT32,
       .shape = two,
       .shape_count = 1,
       .data = numbers,
       .data_size = 8},
      {.name = "A",
       .datatype = TRITONSERVER_TYPE_INT32,
       .shape = one,
       .shape_count = 2,
       .data = numbers,
       .data_size = 4},
      {.name = "text",
       .datatype = TRITONSERVER_TYPE_BYTES,
       .shape = one,
       .shape_count = 1,
       .data = "\2\0\0\0\"]",
       .data_size = 6},
      {.name = "empty", .datatype = TRITONSERVER_TYPE_FP32, .shape = none, .shape_count = 1},
  };
  const request_parameter parameter = {
      .name = "n", .type = REQUEST_PARAMETER_DOUBLE, .value.real = 0.5};
  const infer_response_json response = {.id = "7",
                                        .model_name = "m",
                                        .model_version = 3,
                                        .parameters = &parameter,
                                        .parameter_count = 1,
                                        .outputs = outputs,
                                        .output_count = 4};
  assert_written(&response,
                 "{\"A\":-5,\"empty\":[],\"id\":\"7\",\"model_name\":\"m\",\"model_version\":\"3\","
                 "\"n\":0.5,\"text\":\"\\\"]\",\"z\":[-5,7]}");
}

static void of_equal_names_the_first_is_kept(void **state)
{
  (void)state;
  const response_output_json outputs[] = {
      {.name = "model_name",
       .datatype = TRITONSERVER_TYPE_INT32,
       .shape = one,
       .shape_count = 1,
       .data = numbers,
       .data_size = 4},
      {.name = "n",
       .datatype = TRITONSERVER_TYPE_INT32,
       .shape = one,
       .shape_count = 1,
       .data = numbers,
       .data_size = 4},
  };
  const request_parameter parameter = {
      .name = "n", .type = REQUEST_PARAMETER_BOOL, .value.boolean = true};
  const infer_response_json response = {.model_name = "m",
                                        .model_version = 1,
                                        .parameters = &parameter,
                                        .parameter_count = 1,
                                        .outputs = outputs,
                                        .output_count = 2};
  assert_written(&response, "{\"model_name\":\"m\",\"model_version\":\"1\",\"n\":true}");
}

static void an_output_of_another_size_than_its_shape_is_an_error(void **state)
{
  (void)state;
  arena a;
  AUTO_BUFFER buffer out = BUFFER_EMPTY;
  const response_output_json output = {.name = "o",
                                       .datatype = TRITONSERVER_TYPE_INT32,
                                       .shape = one,
                                       .shape_count = 1,
                                       .data = numbers,
                                       .data_size = 8};
  const infer_response_json response = {
      .model_name = "m", .model_version = 1, .outputs = &output, .output_count = 1};
  arena_init(&a, NULL, 0);
  error *e = generate_response_json_write(&response, &a, &out);
  assert_non_null(e);
  assert_int_equal(error_get_code(e), ERROR_INTERNAL);
  assert_non_null(strstr(error_message(e), "output 'o'"));
  error_free(e);
  arena_fini(&a);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(metadata_tells_the_inputs),
      cmocka_unit_test(nothing_is_an_empty_object),
      cmocka_unit_test(a_member_named_as_an_input_is_its_value),
      cmocka_unit_test(other_members_are_parameters),
      cmocka_unit_test(the_id_is_a_parameter_too),
      cmocka_unit_test(what_does_not_fit_is_refused),
      cmocka_unit_test(an_input_of_no_known_type_takes_nothing),
      cmocka_unit_test(an_input_may_not_be_called_parameters),
      cmocka_unit_test(members_are_sorted_and_one_element_is_a_scalar),
      cmocka_unit_test(of_equal_names_the_first_is_kept),
      cmocka_unit_test(an_output_of_another_size_than_its_shape_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

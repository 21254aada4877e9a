// SPDX-License-Identifier: Apache-2.0
// Inference replies as JSON: the text, member by member, and that it reads back to the same bytes.
#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/number.h"
#include "frontend/common/json/infer_response_json.h"
#include "frontend/common/json/json_tensor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BYTES(...) (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})
#define SHAPE(...) (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / 8

static infer_response_json reply_of(const response_output_json *outputs, size_t count)
{
  return (infer_response_json){
      .model_name = "m", .model_version = 3, .outputs = outputs, .output_count = count};
}

static void assert_written(const infer_response_json *reply, const char *expected)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  error *e = infer_response_json_write(reply, NULL, &text);
  if (e != NULL)
    fail_msg("refused: %s", error_message(e));
  buffer_append_char(&text, '\0');
  assert_string_equal(text.data, expected);
}

static void assert_output(const response_output_json *output, const char *expected)
{
  char whole[1024];
  const infer_response_json reply = reply_of(output, 1);
  snprintf(whole, sizeof(whole), "{\"model_name\":\"m\",\"model_version\":\"3\",\"outputs\":[%s]}",
           expected);
  assert_written(&reply, whole);
}

// The code and text of the error; the output is named.
static void assert_refused(const response_output_json *output, error_code code, const char *reason)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  const infer_response_json reply = reply_of(output, 1);
  error *e = infer_response_json_write(&reply, NULL, &text);
  assert_non_null(e);
  assert_int_equal(error_get_code(e), code);
  if (strstr(error_message(e), "output 'o'") == NULL || strstr(error_message(e), reason) == NULL)
    fail_msg("%s\nwithout: %s", error_message(e), reason);
  error_free(e);
}

// ---- members ----

static void members_stand_in_tritons_order(void **state)
{
  (void)state;
  const request_parameter parameters[] = {
      {.name = "text", .type = REQUEST_PARAMETER_STRING, .value.string = "a\"b"},
      {.name = "whole", .type = REQUEST_PARAMETER_INT64, .value.integer = INT64_MIN},
      {.name = "flag", .type = REQUEST_PARAMETER_BOOL, .value.boolean = true},
      {.name = "real", .type = REQUEST_PARAMETER_DOUBLE, .value.real = 0.1},
  };
  const response_output_json outputs[] = {
      {"o", TRITONSERVER_TYPE_UINT8, SHAPE(1, 2), BYTES(1, 2), RESPONSE_DATA_JSON},
      {"p", TRITONSERVER_TYPE_FP32, SHAPE(1), BYTES(0, 0, 0, 0), RESPONSE_DATA_BINARY},
      {"q", TRITONSERVER_TYPE_INT64, SHAPE(2), NULL, 16, RESPONSE_DATA_SHARED_MEMORY},
  };
  infer_response_json reply = reply_of(outputs, 3);
  reply.id = "7\n";
  reply.parameters = parameters;
  reply.parameter_count = 4;
  assert_written(&reply,
                 "{\"id\":\"7\\n\",\"model_name\":\"m\",\"model_version\":\"3\","
                 "\"parameters\":{\"text\":\"a\\\"b\",\"whole\":-9223372036854775808,\"flag\":true,"
                 "\"real\":0.1},\"outputs\":["
                 "{\"name\":\"o\",\"datatype\":\"UINT8\",\"shape\":[1,2],\"data\":[1,2]},"
                 "{\"name\":\"p\",\"datatype\":\"FP32\",\"shape\":[1],"
                 "\"parameters\":{\"binary_data_size\":4}},"
                 "{\"name\":\"q\",\"datatype\":\"INT64\",\"shape\":[2]}]}");
}

static void an_empty_id_is_left_out(void **state)
{
  (void)state;
  infer_response_json reply = reply_of(NULL, 0);
  assert_written(&reply, "{\"model_name\":\"m\",\"model_version\":\"3\",\"outputs\":[]}");
  reply.id = "";
  assert_written(&reply, "{\"model_name\":\"m\",\"model_version\":\"3\",\"outputs\":[]}");
}

static void text_is_appended_behind_what_the_buffer_holds(void **state)
{
  (void)state;
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  const infer_response_json reply = reply_of(NULL, 0);
  buffer_append_text(&text, "before");
  assert_null(infer_response_json_write(&reply, NULL, &text));
  assert_memory_equal(text.data, "before{\"model_name\"", 18);
}

// ---- data ----

static const struct {
  TRITONSERVER_DataType datatype;
  const uint8_t *data;
  size_t size;
  uint64_t count;
  const char *text;
} tensors[] = {
    {TRITONSERVER_TYPE_BOOL, BYTES(1, 0), 2, "[true,false]"},
    {TRITONSERVER_TYPE_UINT8, BYTES(0, 255), 2, "[0,255]"},
    {TRITONSERVER_TYPE_UINT16, BYTES(1, 0, 255, 255), 2, "[1,65535]"},
    {TRITONSERVER_TYPE_UINT32, BYTES(255, 255, 255, 255), 1, "[4294967295]"},
    {TRITONSERVER_TYPE_UINT64, BYTES(255, 255, 255, 255, 255, 255, 255, 255), 1,
     "[18446744073709551615]"},
    {TRITONSERVER_TYPE_INT8, BYTES(0x80, 0x7f), 2, "[-128,127]"},
    {TRITONSERVER_TYPE_INT16, BYTES(0, 0x80), 1, "[-32768]"},
    {TRITONSERVER_TYPE_INT32, BYTES(0, 0, 0, 0x80), 1, "[-2147483648]"},
    {TRITONSERVER_TYPE_INT64, BYTES(0, 0, 0, 0, 0, 0, 0, 0x80), 1, "[-9223372036854775808]"},
    {TRITONSERVER_TYPE_FP16, BYTES(0x66, 0x2e, 0, 0x7e, 0, 0xfc), 3, "[0.1,NaN,-Infinity]"},
    {TRITONSERVER_TYPE_BF16, BYTES(0x80, 0x3f, 0xcd, 0x3d), 2, "[1.0,0.1]"},
    {TRITONSERVER_TYPE_FP32, BYTES(0xcd, 0xcc, 0xcc, 0x3d, 0, 0, 0x80, 0x7f), 2, "[0.1,Infinity]"},
    {TRITONSERVER_TYPE_FP64, BYTES(1, 0, 0, 0, 0, 0, 0, 0), 1, "[5e-324]"},
    {TRITONSERVER_TYPE_BYTES, BYTES(0, 0, 0, 0, 3, 0, 0, 0, '"', 0, 0x1f, 2, 0, 0, 0, 0xc3, 0xa9),
     3, "[\"\",\"\\\"\\u0000\\u001f\",\"\xc3\xa9\"]"},
};

static void each_datatype_becomes_its_text(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof(tensors) / sizeof(tensors[0]); i++) {
    char expected[256];
    const int64_t shape = (int64_t)tensors[i].count;
    const response_output_json o = {.name = "o",
                                    .datatype = tensors[i].datatype,
                                    .shape = &shape,
                                    .shape_count = 1,
                                    .data = tensors[i].data,
                                    .data_size = tensors[i].size};
    snprintf(expected, sizeof(expected),
             "{\"name\":\"o\",\"datatype\":\"%s\",\"shape\":[%d],\"data\":%s}",
             TRITONSERVER_DataTypeString(o.datatype), (int)shape, tensors[i].text);
    assert_output(&o, expected);
  }
}

// The bytes that `text` stands for are `bytes` again.
static void assert_reads_back(const buffer *text, TRITONSERVER_DataType datatype, uint64_t count,
                              const void *bytes, size_t size)
{
  char *copy = calloc(1, text->size + NUMBER_BYTES_BEHIND);
  assert_non_null(copy);
  memcpy(copy, text->data, text->size);
  arena a;
  arena_init(&a, NULL, 0);
  json_cursor c = {.begin = copy, .at = copy, .end = copy + text->size, .arena = &a};
  const void *data;
  size_t read_size;
  error *e = json_tensor_read(&c, NULL, datatype, count, &data, &read_size);
  if (e != NULL)
    fail_msg("refused: %s", error_message(e));
  assert_ptr_equal(c.at, c.end);
  assert_int_equal(read_size, size);
  assert_memory_equal(data, bytes, size);
  arena_fini(&a);
  free(copy);
}

static bool is_nan16(uint16_t bits, uint16_t infinity)
{
  return (bits & 0x7fff) > infinity;
}

// All of them, but one NaN in place of the many: a text says no more than NaN.
static void every_16_bit_value_reads_back_to_itself(void **state)
{
  (void)state;
  static const struct {
    TRITONSERVER_DataType datatype;
    uint16_t infinity, nan;
  } types[] = {
      {TRITONSERVER_TYPE_FP16, 0x7c00, 0x7e00},
      {TRITONSERVER_TYPE_BF16, 0x7f80, 0x7fc0},
      {TRITONSERVER_TYPE_INT16, 0x7fff, 0},
      {TRITONSERVER_TYPE_UINT16, 0x7fff, 0},
  };
  static uint16_t values[65536];
  for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
    for (size_t i = 0; i < 65536; i++)
      values[i] = is_nan16((uint16_t)i, types[t].infinity) ? types[t].nan : (uint16_t)i;
    AUTO_BUFFER buffer text = BUFFER_EMPTY;
    assert_null(json_tensor_write(types[t].datatype, values, sizeof(values), 65536, NULL, &text));
    assert_reads_back(&text, types[t].datatype, 65536, values, sizeof(values));
  }
}

// Around the block in which room for numbers is made.
static void tensors_of_any_count_have_a_comma_between_elements_only(void **state)
{
  (void)state;
  static const size_t counts[] = {1, 255, 256, 257, 511, 512, 513, 5000};
  for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
    int64_t *values = calloc(counts[i], sizeof(int64_t));
    assert_non_null(values);
    for (size_t k = 0; k < counts[i]; k++)
      values[k] = INT64_MIN + (int64_t)k; // the longest texts
    AUTO_BUFFER buffer text = BUFFER_EMPTY;
    assert_null(
        json_tensor_write(TRITONSERVER_TYPE_INT64, values, counts[i] * 8, counts[i], NULL, &text));
    assert_reads_back(&text, TRITONSERVER_TYPE_INT64, counts[i], values, counts[i] * 8);
    free(values);
  }
}

static void elements_need_not_be_aligned(void **state)
{
  (void)state;
  uint8_t memory[9] = {0, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f};
  const response_output_json o = {
      .name = "o", .datatype = TRITONSERVER_TYPE_FP64, .data = memory + 1, .data_size = 8};
  assert_output(&o, "{\"name\":\"o\",\"datatype\":\"FP64\",\"shape\":[],\"data\":[1.0]}");
}

static void tensors_without_elements_are_empty_arrays(void **state)
{
  (void)state;
  static const TRITONSERVER_DataType datatypes[] = {TRITONSERVER_TYPE_FP32,
                                                    TRITONSERVER_TYPE_BYTES};
  for (size_t i = 0; i < 2; i++) {
    char expected[128];
    const response_output_json o = {
        .name = "o", .datatype = datatypes[i], .shape = (const int64_t[]){2, 0}, .shape_count = 2};
    snprintf(expected, sizeof(expected),
             "{\"name\":\"o\",\"datatype\":\"%s\",\"shape\":[2,0],\"data\":[]}",
             TRITONSERVER_DataTypeString(datatypes[i]));
    assert_output(&o, expected);
  }
}

static void sizes_that_do_not_fit_the_shape_are_internal_errors(void **state)
{
  (void)state;
  static const struct {
    TRITONSERVER_DataType datatype;
    int64_t shape[2];
    size_t size;
    const char *reason;
  } cases[] = {
      {TRITONSERVER_TYPE_INT32, {1, 2}, 7, "has 7 bytes, expected 2 elements of 4 bytes"},
      {TRITONSERVER_TYPE_INT32, {1, 2}, 12, "has 12 bytes, expected 2 elements of 4 bytes"},
      {TRITONSERVER_TYPE_INT32, {0, 2}, 4, "has 4 bytes, expected 0 elements"},
      {TRITONSERVER_TYPE_FP64, {1, INT64_MAX / 2}, 8, "expected 4611686018427387903 elements"},
      {TRITONSERVER_TYPE_INT8, {INT64_MAX, INT64_MAX}, 8, "invalid dimension"},
      {TRITONSERVER_TYPE_INT8, {-1, -1}, 1, "invalid dimension"},
      {TRITONSERVER_TYPE_INVALID, {1, 1}, 1, "has 1 bytes"},
  };
  const uint8_t data[16] = {0};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    const response_output_json o = {.name = "o",
                                    .datatype = cases[i].datatype,
                                    .shape = cases[i].shape,
                                    .shape_count = 2,
                                    .data = data,
                                    .data_size = cases[i].size};
    assert_refused(&o, ERROR_INTERNAL, cases[i].reason);
  }
}

static void malformed_bytes_tensors_are_refused(void **state)
{
  (void)state;
  const struct {
    const uint8_t *data;
    size_t size;
    int64_t count;
    error_code code;
    const char *reason;
  } cases[] = {
      {BYTES(5, 0, 0, 0, 'a'), 1, ERROR_INTERNAL, "element 0 of BYTES has length 5, but 1 bytes"},
      {BYTES(2, 0, 0, 0, 'a'), 1, ERROR_INTERNAL, "element 0 of BYTES has length 2, but 1 bytes"},
      {BYTES(255, 255, 255, 255), 1, ERROR_INTERNAL, "has length 4294967295, but 0 bytes"},
      {BYTES(1, 0, 0, 0, 'a', 1, 0), 2, ERROR_INTERNAL, "element 1 has no length: 2 bytes"},
      {BYTES(1, 0, 0, 0, 'a'), 2, ERROR_INTERNAL, "element 1 has no length: 0 bytes"},
      {BYTES(1, 0, 0, 0, 'a', 'b'), 1, ERROR_INTERNAL, "1 bytes are left"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    const response_output_json o = {.name = "o",
                                    .datatype = TRITONSERVER_TYPE_BYTES,
                                    .shape = &cases[i].count,
                                    .shape_count = 1,
                                    .data = cases[i].data,
                                    .data_size = cases[i].size};
    assert_refused(&o, cases[i].code, cases[i].reason);
  }
}

static void datatypes_are_found_by_their_exact_names(void **state)
{
  (void)state;
  for (int i = TRITONSERVER_TYPE_BOOL; i <= TRITONSERVER_TYPE_BF16; i++) {
    const TRITONSERVER_DataType datatype = (TRITONSERVER_DataType)i;
    assert_int_equal(datatype_named(slice_of(TRITONSERVER_DataTypeString(datatype))), datatype);
  }
  assert_int_equal(datatype_named(SLICE("fp32")), TRITONSERVER_TYPE_INVALID);
  assert_int_equal(datatype_named(SLICE("FP3")), TRITONSERVER_TYPE_INVALID);
  assert_int_equal(datatype_named(SLICE("")), TRITONSERVER_TYPE_INVALID);
  assert_int_equal(TRITONSERVER_DataTypeByteSize((TRITONSERVER_DataType)99), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(members_stand_in_tritons_order),
      cmocka_unit_test(an_empty_id_is_left_out),
      cmocka_unit_test(text_is_appended_behind_what_the_buffer_holds),
      cmocka_unit_test(each_datatype_becomes_its_text),
      cmocka_unit_test(every_16_bit_value_reads_back_to_itself),
      cmocka_unit_test(tensors_of_any_count_have_a_comma_between_elements_only),
      cmocka_unit_test(elements_need_not_be_aligned),
      cmocka_unit_test(tensors_without_elements_are_empty_arrays),
      cmocka_unit_test(sizes_that_do_not_fit_the_shape_are_internal_errors),
      cmocka_unit_test(malformed_bytes_tensors_are_refused),
      cmocka_unit_test(datatypes_are_found_by_their_exact_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

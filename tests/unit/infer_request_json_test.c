// Inference requests as JSON: what is taken, byte by byte, and what is refused, by name.
#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "frontend/protocol/datatype.h"
#include "frontend/protocol/infer_request_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BYTES_BEHIND 8 // readable bytes that the reader asks for

typedef struct reading {
  char *text; // of exactly the size that the reader may touch, so that ASan sees one byte more
  arena arena;
  infer_request_json request;
  error *error;
} reading;

static reading read_bytes(const void *text, size_t size, const char *behind)
{
  reading r = {.text = malloc(size + BYTES_BEHIND)};
  assert_non_null(r.text);
  memcpy(r.text, text, size);
  memcpy(r.text + size, behind, BYTES_BEHIND);
  arena_init(&r.arena, NULL, 0);
  r.error = infer_request_json_read((slice){r.text, size}, &r.arena, &r.request);
  return r;
}

static reading read_text(const char *text)
{
  return read_bytes(text, strlen(text), "\0\0\0\0\0\0\0");
}

static reading read_good(const char *text)
{
  reading r = read_text(text);
  if (r.error != NULL)
    fail_msg("%s\nwas refused: %s", text, error_message(r.error));
  return r;
}

static void finish(reading *r)
{
  error_free(r->error);
  arena_fini(&r->arena);
  free(r->text);
}

// Refused as INVALID_ARG with a message that holds each of the words.
static void assert_refused(const char *text, const char *const *words)
{
  reading r = read_text(text);
  if (r.error == NULL)
    fail_msg("%s\nwas taken", text);
  assert_int_equal(error_get_code(r.error), ERROR_INVALID_ARG);
  for (; *words != NULL; words++)
    if (strstr(error_message(r.error), *words) == NULL)
      fail_msg("%s\nwas refused with: %s\nwithout: %s", text, error_message(r.error), *words);
  finish(&r);
}

#define ASSERT_REFUSED(text, ...) assert_refused(text, (const char *const[]){__VA_ARGS__, NULL})

// ---- tensors ----

#define BYTES(...) (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})

static const struct {
  const char *datatype;
  const char *shape;
  const char *data;
  const uint8_t *bytes;
  size_t size;
} good_tensors[] = {
    {"BOOL", "[3]", "[true,false,true]", BYTES(1, 0, 1)},
    {"UINT8", "[2]", "[0,255]", BYTES(0, 255)},
    {"UINT16", "[2]", "[1,65535]", BYTES(1, 0, 255, 255)},
    {"UINT32", "[2]", "[1,4294967295]", BYTES(1, 0, 0, 0, 255, 255, 255, 255)},
    {"UINT64", "[2]", "[1,18446744073709551615]",
     BYTES(1, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255)},
    {"INT8", "[3]", "[-128,127,-1]", BYTES(0x80, 0x7f, 0xff)},
    {"INT16", "[2]", "[-32768,32767]", BYTES(0, 0x80, 0xff, 0x7f)},
    {"INT32", "[2]", "[-2147483648,2147483647]", BYTES(0, 0, 0, 0x80, 255, 255, 255, 0x7f)},
    {"INT64", "[2]", "[-9223372036854775808,9223372036854775807]",
     BYTES(0, 0, 0, 0, 0, 0, 0, 0x80, 255, 255, 255, 255, 255, 255, 255, 0x7f)},
    {"FP16", "[4]", "[1,-2.5,65504,NaN]", BYTES(0, 0x3c, 0, 0xc1, 0xff, 0x7b, 0, 0x7e)},
    {"BF16", "[3]", "[1,-2.5,Infinity]", BYTES(0x80, 0x3f, 0x20, 0xc0, 0x80, 0x7f)},
    {"FP32", "[4]", "[1,-0.1,-Infinity,-0.0]",
     BYTES(0, 0, 0x80, 0x3f, 0xcd, 0xcc, 0xcc, 0xbd, 0, 0, 0x80, 0xff, 0, 0, 0, 0x80)},
    {"FP64", "[2]", "[1,5e-324]", BYTES(0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 1, 0, 0, 0, 0, 0, 0, 0)},
    {"BYTES", "[3]", "[\"ab\",\"\",\"\xc3\xa9\"]",
     BYTES(2, 0, 0, 0, 'a', 'b', 0, 0, 0, 0, 2, 0, 0, 0, 0xc3, 0xa9)},
    // strings: each escape, a NUL byte, a pair of surrogates
    {"BYTES", "[1]", "[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]",
     BYTES(8, 0, 0, 0, '"', '\\', '/', 8, 12, 10, 13, 9)},
    {"BYTES", "[2]", "[\"\\u0000\\u00E9\",\"\\uD83D\\ude00\"]",
     BYTES(3, 0, 0, 0, 0, 0xc3, 0xa9, 4, 0, 0, 0, 0xf0, 0x9f, 0x98, 0x80)},
    {"BYTES", "[2]", "[[\"]\"],[\",\"]]", BYTES(1, 0, 0, 0, ']', 1, 0, 0, 0, ',')},
    // whole numbers in other clothes
    {"INT8", "[4]", "[1.0,1e2,-0,120E-1]", BYTES(1, 100, 0, 12)},
    // nested as the shape says, otherwise, and flat
    {"UINT8", "[2,2]", "[[1,2],[3,4]]", BYTES(1, 2, 3, 4)},
    {"UINT8", "[2,2]", "[1,2,3,4]", BYTES(1, 2, 3, 4)},
    {"UINT8", "[4]", "[[[1],2],[[3,[4]]]]", BYTES(1, 2, 3, 4)},
    {"UINT8", "[1]", "[[],[[1]],[]]", BYTES(1)},
    {"UINT8", "[]", "[7]", BYTES(7)},
    {"UINT8", "[2]", " [ \t1\r\n,\n2 ] ", BYTES(1, 2)},
};

static void assert_tensor(const char *text, const uint8_t *bytes, size_t size, const char *datatype)
{
  reading r = read_good(text);
  assert_int_equal(r.request.input_count, 1);
  const infer_json_input *input = &r.request.inputs[0];
  assert_string_equal(input->name, "x");
  assert_string_equal(protocol_datatype_name(input->datatype), datatype);
  assert_int_equal((uintptr_t)input->data % 64, 0);
  assert_int_equal(input->data_size, size);
  assert_memory_equal(input->data, bytes, size);
  assert_false(input->binary);
  finish(&r);
}

static void each_datatype_becomes_its_bytes(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof(good_tensors) / sizeof(good_tensors[0]); i++) {
    char text[1024];
    snprintf(text, sizeof(text),
             "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"%s\",\"shape\":%s,\"data\":%s}]}",
             good_tensors[i].datatype, good_tensors[i].shape, good_tensors[i].data);
    assert_tensor(text, good_tensors[i].bytes, good_tensors[i].size, good_tensors[i].datatype);
  }
}

static void data_may_come_before_what_tells_how_to_read_it(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof(good_tensors) / sizeof(good_tensors[0]); i++) {
    char text[1024];
    snprintf(text, sizeof(text),
             "{\"inputs\":[{\"data\":%s,\"shape\":%s,\"datatype\":\"%s\",\"name\":\"x\"}]}",
             good_tensors[i].data, good_tensors[i].shape, good_tensors[i].datatype);
    assert_tensor(text, good_tensors[i].bytes, good_tensors[i].size, good_tensors[i].datatype);
  }
}

#define TENSOR(datatype, shape, data)                                                              \
  "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"" datatype "\",\"shape\":" shape ",\"data\":" data  \
  "}]}"

static void integers_out_of_range_are_refused_with_place_value_and_range(void **state)
{
  (void)state;
  static const struct {
    const char *text, *value, *range;
  } cases[] = {
      {TENSOR("UINT8", "[2]", "[1,256]"), "'256]", "[0, 255]"},
      {TENSOR("UINT8", "[2]", "[1,-1]"), "'-1]", "[0, 255]"},
      {TENSOR("UINT16", "[2]", "[1,65536]"), "'65536]", "[0, 65535]"},
      {TENSOR("UINT32", "[2]", "[1,4294967296]"), "'4294967296]", "[0, 4294967295]"},
      {TENSOR("UINT64", "[2]", "[1,18446744073709551616]"), "'18446744073709551616]",
       "[0, 18446744073709551615]"},
      {TENSOR("UINT64", "[2]", "[1,-1]"), "'-1]", "[0, 18446744073709551615]"},
      {TENSOR("INT8", "[2]", "[1,128]"), "'128]", "[-128, 127]"},
      {TENSOR("INT8", "[2]", "[1,-129]"), "'-129]", "[-128, 127]"},
      {TENSOR("INT16", "[2]", "[1,32768]"), "'32768]", "[-32768, 32767]"},
      {TENSOR("INT32", "[2]", "[1,2147483648]"), "'2147483648]", "[-2147483648, 2147483647]"},
      {TENSOR("INT64", "[2]", "[1,9223372036854775808]"), "'9223372036854775808]",
       "[-9223372036854775808, 9223372036854775807]"},
      {TENSOR("INT64", "[2]", "[1,1e300]"), "'1e300]", "9223372036854775807]"},
      {TENSOR("FP16", "[2]", "[1,65520]"), "'65520]", "range of FP16"},
      {TENSOR("BF16", "[2]", "[1,3.4e38]"), "'3.4e38]", "range of BF16"},
      {TENSOR("FP32", "[2]", "[1,1e39]"), "'1e39]", "range of FP32"},
      {TENSOR("FP64", "[2]", "[1,-1e309]"), "'-1e309]", "range of FP64"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
    ASSERT_REFUSED(cases[i].text, "Unable to parse 'inputs[0].data[1]'", cases[i].value,
                   cases[i].range);
}

static void elements_of_another_kind_are_refused_in_tritons_words(void **state)
{
  (void)state;
  static const struct {
    const char *text, *kind;
  } cases[] = {
      {TENSOR("INT32", "[2]", "[1,1.5]"), "non-signed-integer as signed-integer"},
      {TENSOR("INT32", "[2]", "[1,NaN]"), "non-signed-integer as signed-integer"},
      {TENSOR("UINT8", "[2]", "[1,true]"), "non-unsigned-integer as unsigned-integer"},
      {TENSOR("UINT64", "[2]", "[1,\"1\"]"), "non-unsigned-integer as unsigned-integer"},
      {TENSOR("FP32", "[2]", "[1,\"1\"]"), "non-number as double"},
      {TENSOR("FP16", "[2]", "[1,null]"), "non-number as double"},
      {TENSOR("BOOL", "[2]", "[true,1]"), "non-boolean as boolean"},
      {TENSOR("BYTES", "[2]", "[\"\",1]"), "non-string as string"},
      {TENSOR("FP64", "[2]", "[1,{}]"), "non-number as double"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
    ASSERT_REFUSED(cases[i].text, "Unable to parse 'inputs[0].data[1]': attempt to access JSON ",
                   cases[i].kind, "expected ", "at byte ");
}

static void data_must_hold_exactly_the_elements_of_the_shape(void **state)
{
  (void)state;
  const char *shape_differs = "Shape does not match true shape of 'data' field";
  ASSERT_REFUSED(TENSOR("INT8", "[3]", "[1,2]"), shape_differs, "expected 3 elements, got 2");
  ASSERT_REFUSED(TENSOR("INT8", "[2]", "[[1],[2],[3]]"), shape_differs, "expected 2 elements");
  ASSERT_REFUSED(TENSOR("INT8", "[0]", "[1]"), shape_differs, "expected 0 elements");
  ASSERT_REFUSED(TENSOR("INT8", "[1]", "[]"), shape_differs, "expected 1 elements, got 0");
  ASSERT_REFUSED(TENSOR("BYTES", "[2]", "[\"a\"]"), shape_differs, "expected 2 elements, got 1");
  ASSERT_REFUSED(TENSOR("BYTES", "[1]", "[\"a\",\"b\"]"), shape_differs, "expected 1 elements");
  ASSERT_REFUSED(TENSOR("INT8", "[1]", "1"), "'inputs[0].data'", "non-array as array");
  ASSERT_REFUSED(TENSOR("INT8", "[1]", "\"1\""), "'inputs[0].data'", "non-array as array");
  ASSERT_REFUSED(TENSOR("INT8", "[1]", "[1,]"), "inputs[0].data");
  ASSERT_REFUSED(TENSOR("INT8", "[2]", "[1 2]"), "',' or ']'");
  ASSERT_REFUSED(TENSOR("INT8", "[1]", "[,1]"), "inputs[0].data");
  ASSERT_REFUSED(TENSOR("INT8", "[1]", "[1}"), "',' or ']'");
  ASSERT_REFUSED(TENSOR("INT8", "[1]", "[01]"), "',' or ']'");
}

// Refused for its size alone: the arena takes no block for it.
static void a_shape_that_the_text_cannot_hold_costs_no_memory(void **state)
{
  (void)state;
  static const char *const shapes[] = {"[1000000000]", "[4611686018427387904]", "[100000,100000]",
                                       "[9223372036854775807]"};
  static const char *const datatypes[] = {"FP64", "BYTES", "BOOL"};
  for (size_t i = 0; i < 4; i++)
    for (size_t k = 0; k < 3; k++) {
      char text[256], initial[2048];
      snprintf(text, sizeof(text),
               "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"%s\",\"shape\":%s,\"data\":[1,2,3]}]}",
               datatypes[k], shapes[i]);
      char *exact = calloc(1, strlen(text) + BYTES_BEHIND);
      assert_non_null(exact);
      memcpy(exact, text, strlen(text));
      arena a;
      arena_init(&a, initial, sizeof(initial));
      infer_request_json request;
      error *e = infer_request_json_read((slice){exact, strlen(text)}, &a, &request);
      assert_non_null(e);
      assert_null(a.blocks);
      assert_non_null(strstr(error_message(e), "Unable to parse 'inputs[0].data'"));
      error_free(e);
      arena_fini(&a);
      free(exact);
    }
}

static void shapes_are_lists_of_whole_numbers_whose_product_fits(void **state)
{
  (void)state;
  ASSERT_REFUSED(TENSOR("INT8", "[4294967296,4294967296]", "[1]"), "'inputs[0].shape'",
                 "exceed maximum size of 9223372036854775807");
  ASSERT_REFUSED(TENSOR("INT8", "[-1]", "[1]"), "'inputs[0].shape[0]'", "-1");
  ASSERT_REFUSED(TENSOR("INT8", "[1,1.5]", "[1]"), "'inputs[0].shape[1]'", "1.5");
  ASSERT_REFUSED(TENSOR("INT8", "[\"1\"]", "[1]"), "'inputs[0].shape[0]'", "\"1\"");
  ASSERT_REFUSED(TENSOR("INT8", "1", "[1]"), "'inputs[0].shape'", "non-array as array");
  ASSERT_REFUSED(TENSOR("INT8", "[9223372036854775808]", "[1]"), "'inputs[0].shape[0]'");
}

static void tensors_without_elements_need_an_empty_array_or_nothing(void **state)
{
  (void)state;
  static const char *const texts[] = {
      TENSOR("FP32", "[0]", "[]"),
      TENSOR("FP32", "[2,0]", "[[],[]]"),
      TENSOR("BYTES", "[0]", "[]"),
      "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[3,0]}]}",
  };
  for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
    reading r = read_good(texts[i]);
    assert_int_equal(r.request.inputs[0].element_count, 0);
    assert_int_equal(r.request.inputs[0].data_size, 0);
    finish(&r);
  }
}

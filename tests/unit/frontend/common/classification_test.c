// SPDX-License-Identifier: Apache-2.0
// Classification of outputs: against a plain sort, for all types, counts and sizes.
#include "frontend/common/json/classification.h"

#include "base/number.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "errors.h"

// ---- the seam: a response whose first output has labels for classes 1 and 2 ----

TRITONSERVER_Error *
TRITONSERVER_InferenceResponseOutputClassificationLabel(TRITONSERVER_InferenceResponse *response,
                                                        const uint32_t index, const size_t class_,
                                                        const char **label)
{
  (void)response;
  static const char *const labels[] = {NULL, "one", "two:2"};
  *label = index == 0 && class_ < 3 ? labels[class_] : NULL;
  return NULL;
}

// ---- helpers ----

#define SHAPE(...) (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / 8

static class_scores scores_of(TRITONSERVER_DataType datatype, const int64_t *shape, size_t count,
                              const void *data, size_t size)
{
  return (class_scores){.index = 1,
                        .output = {.datatype = datatype,
                                   .shape = shape,
                                   .shape_count = count,
                                   .data = data,
                                   .data_size = size}};
}

// The strings with blanks between them.
static char *joined(const class_strings *strings)
{
  const char *at = strings->elements.data, *end = at + strings->elements.size;
  char *text = calloc(1, strings->elements.size + 1), *to = text;
  while (at < end) {
    uint32_t size;
    memcpy(&size, at, sizeof(size));
    at += sizeof(size);
    if (to > text)
      *to++ = ' ';
    memcpy(to, at, size);
    to += size;
    at += size;
  }
  assert_ptr_equal(at, end);
  return text;
}

static void assert_classes(const class_scores *scores, uint64_t count, const char *expected)
{
  class_strings strings = {0};
  assert_taken(classification_make(scores, count, &strings));
  char *text = joined(&strings);
  assert_string_equal(text, expected);
  free(text);
  buffer_fini(&strings.elements);
}

static void assert_not_classified(const class_scores *scores, uint64_t count, error_code code,
                                  const char *text)
{
  class_strings strings = {0};
  assert_refused(classification_make(scores, count, &strings), code, text);
  buffer_fini(&strings.elements);
}

// ---- what it says ----

static void the_largest_come_first_with_index_and_label(void **state)
{
  (void)state;
  const float data[] = {0.5f, 2, -1, 2, 0};
  class_scores s = scores_of(TRITONSERVER_TYPE_FP32, SHAPE(5), data, sizeof(data));
  assert_classes(&s, 3, "2.000000:1 2.000000:3 0.500000:0");
  s.index = 0;
  assert_classes(&s, 5, "2.000000:1:one 2.000000:3 0.500000:0 0.000000:4 -1.000000:2:two:2");
}

static void each_row_has_its_own_classes(void **state)
{
  (void)state;
  const int32_t data[] = {1, 2, 3, 6, 5, 4};
  class_scores s = scores_of(TRITONSERVER_TYPE_INT32, SHAPE(2, 3), data, sizeof(data));
  assert_classes(&s, 2, "6:3 5:4");
  s.has_rows = true;
  class_strings strings = {0};
  assert_taken(classification_make(&s, 2, &strings));
  char *text = joined(&strings);
  assert_string_equal(text, "3:2 2:1 6:0 5:1");
  assert_int_equal(strings.shape_count, 2);
  assert_int_equal(strings.shape[0], 2);
  assert_int_equal(strings.shape[1], 2);
  free(text);
  buffer_fini(&strings.elements);
}

static void no_number_comes_last(void **state)
{
  (void)state;
  const double data[] = {NAN, -INFINITY, -0.0, 0.0, INFINITY, 1e308};
  class_scores s = scores_of(TRITONSERVER_TYPE_FP64, SHAPE(6), data, sizeof(data));
  class_strings strings = {0};
  assert_taken(classification_make(&s, 6, &strings));
  char *text = joined(&strings);
  assert_non_null(strstr(text, "inf:4 1000000000"));
  assert_non_null(strstr(text, ":5 -0.000000:2 0.000000:3 -inf:1 nan:0"));
  free(text);
  buffer_fini(&strings.elements);
}

static void limits_of_types_are_told_exactly(void **state)
{
  (void)state;
  const int64_t signed_[] = {INT64_MIN, -1, INT64_MAX};
  const uint64_t unsigned_[] = {0, UINT64_MAX, INT64_MAX};
  const int8_t small[] = {-128, 127, 0};
  const uint16_t halves[] = {0x7c00, 0x3c00, 0xbc00}; // FP16: inf, 1, -1
  class_scores s = scores_of(TRITONSERVER_TYPE_INT64, SHAPE(3), signed_, sizeof(signed_));
  assert_classes(&s, 3, "9223372036854775807:2 -1:1 -9223372036854775808:0");
  s = scores_of(TRITONSERVER_TYPE_UINT64, SHAPE(3), unsigned_, sizeof(unsigned_));
  assert_classes(&s, 3, "18446744073709551615:1 9223372036854775807:2 0:0");
  s = scores_of(TRITONSERVER_TYPE_INT8, SHAPE(3), small, sizeof(small));
  assert_classes(&s, 3, "127:1 0:2 -128:0");
  s = scores_of(TRITONSERVER_TYPE_FP16, SHAPE(3), halves, sizeof(halves));
  assert_classes(&s, 3, "inf:0 1.000000:1 -1.000000:2");
}

// ---- counts and types ----

static const TRITONSERVER_DataType numeric[] = {
    TRITONSERVER_TYPE_UINT8,  TRITONSERVER_TYPE_UINT16, TRITONSERVER_TYPE_UINT32,
    TRITONSERVER_TYPE_UINT64, TRITONSERVER_TYPE_INT8,   TRITONSERVER_TYPE_INT16,
    TRITONSERVER_TYPE_INT32,  TRITONSERVER_TYPE_INT64,  TRITONSERVER_TYPE_FP16,
    TRITONSERVER_TYPE_BF16,   TRITONSERVER_TYPE_FP32,   TRITONSERVER_TYPE_FP64,
};

#define NUMERIC_COUNT (sizeof(numeric) / sizeof(numeric[0]))

// Exact for all of them.
static long double value_at(TRITONSERVER_DataType datatype, const void *data, size_t index)
{
  switch (datatype) {
  case TRITONSERVER_TYPE_UINT8:
    return ((const uint8_t *)data)[index];
  case TRITONSERVER_TYPE_UINT16:
    return ((const uint16_t *)data)[index];
  case TRITONSERVER_TYPE_UINT32:
    return ((const uint32_t *)data)[index];
  case TRITONSERVER_TYPE_UINT64:
    return ((const uint64_t *)data)[index];
  case TRITONSERVER_TYPE_INT8:
    return ((const int8_t *)data)[index];
  case TRITONSERVER_TYPE_INT16:
    return ((const int16_t *)data)[index];
  case TRITONSERVER_TYPE_INT32:
    return ((const int32_t *)data)[index];
  case TRITONSERVER_TYPE_INT64:
    return ((const int64_t *)data)[index];
  case TRITONSERVER_TYPE_FP16:
    return number_f16_to_f32(((const uint16_t *)data)[index]);
  case TRITONSERVER_TYPE_BF16:
    return number_bf16_to_f32(((const uint16_t *)data)[index]);
  case TRITONSERVER_TYPE_FP32:
    return ((const float *)data)[index];
  default:
    return ((const double *)data)[index];
  }
}

// How many elements come before `index`: larger ones, and equal ones that stand before it.
static size_t place_of(TRITONSERVER_DataType datatype, const void *data, size_t count, size_t index)
{
  long double value = value_at(datatype, data, index);
  size_t before = 0;
  for (size_t i = 0; i < count; i++) {
    long double other = value_at(datatype, data, i);
    if (isnan(value))
      before += !isnan(other) || i < index;
    else
      before += other > value || (other == value && i < index);
  }
  return before;
}

static void check_against_places(TRITONSERVER_DataType datatype, const void *data, size_t count,
                                 uint64_t classes)
{
  const int64_t shape[] = {(int64_t)count};
  const class_scores s =
      scores_of(datatype, shape, 1, data, count * TRITONSERVER_DataTypeByteSize(datatype));
  class_strings strings = {0};
  assert_taken(classification_make(&s, classes, &strings));
  size_t expected = classes < count ? (size_t)classes : count;
  assert_int_equal(strings.shape_count, 1);
  assert_int_equal(strings.shape[0], expected);
  char *text = joined(&strings), *at = text;
  for (size_t i = 0; i < expected; i++) {
    char *colon = strchr(at, ':');
    assert_non_null(colon);
    size_t index = strtoull(colon + 1, &at, 10);
    assert_int_equal(place_of(datatype, data, count, index), i);
  }
  assert_string_equal(at, "");
  free(text);
  buffer_fini(&strings.elements);
}

static void cve_2025_23321_every_type_and_count_against_a_plain_sort(void **state)
{
  (void)state;
  uint8_t data[8 * 40];
  srand(23321);
  for (int round = 0; round < 40; round++) {
    for (size_t i = 0; i < sizeof(data); i++) // few values: many are equal
      data[i] = (uint8_t)(round % 2 == 0 ? rand() : (rand() % 3) * 0x3c);
    size_t n = 1 + (size_t)rand() % 40;
    const uint64_t counts[] = {1, n / 2 + 1, n, n + 1, (uint64_t)1 << 32, UINT64_MAX};
    for (size_t t = 0; t < NUMERIC_COUNT; t++)
      for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++)
        check_against_places(numeric[t], data, n, counts[k]);
  }
}

static void cve_2025_23321_what_is_no_number_is_refused(void **state)
{
  (void)state;
  static const TRITONSERVER_DataType types[] = {TRITONSERVER_TYPE_BYTES, TRITONSERVER_TYPE_BOOL};
  for (size_t i = 0; i < 2; i++) {
    class_scores s = scores_of(types[i], SHAPE(1), "\x01\0\0\0a", 5);
    assert_not_classified(&s, 1, ERROR_INVALID_ARG,
                          "class result not available for output due to unsupported type '");
  }
}

static void cve_2026_24146_there_is_a_limit(void **state)
{
  (void)state;
  const char *text = "classification output tensor too large";
  uint8_t *data = calloc(4, CLASSIFICATION_MAX_ELEMENTS);
  class_scores s =
      scores_of(TRITONSERVER_TYPE_UINT8, SHAPE(CLASSIFICATION_MAX_ELEMENTS + 1), data, 1000001);
  assert_not_classified(&s, 1, ERROR_INVALID_ARG, text);
  s = scores_of(TRITONSERVER_TYPE_UINT8, SHAPE(CLASSIFICATION_MAX_ELEMENTS), data, 1000000);
  assert_classes(&s, 2, "0:0 0:1");
  s = scores_of(TRITONSERVER_TYPE_UINT8, SHAPE(4, 1000000), data, 4000000); // each row is within
  s.has_rows = true;
  assert_classes(&s, 1, "0:0 0:0 0:0 0:0");
  assert_not_classified(&s, 250001, ERROR_INVALID_ARG, text); // but not all of it
  double *wide = (double *)(void *)data;
  for (size_t i = 0; i < 250000; i++)
    wide[i] = -1e308; // more than 300 characters each
  s = scores_of(TRITONSERVER_TYPE_FP64, SHAPE(250000), data, 2000000);
  assert_not_classified(&s, 250000, ERROR_INVALID_ARG, text);
  free(data);
}

static void sizes_that_are_not_the_shapes_are_refused(void **state)
{
  (void)state;
  const float data[4] = {0};
  const char *text = "the size of an output to be classified is not that of its shape";
  class_scores s = scores_of(TRITONSERVER_TYPE_FP32, SHAPE(5), data, sizeof(data));
  assert_not_classified(&s, 1, ERROR_INTERNAL, text);
  s = scores_of(TRITONSERVER_TYPE_FP32, SHAPE(-4), data, sizeof(data));
  assert_not_classified(&s, 1, ERROR_INTERNAL, text);
  s = scores_of(TRITONSERVER_TYPE_FP32, SHAPE(INT64_MAX, 4, 4), data, sizeof(data));
  assert_not_classified(&s, 1, ERROR_INTERNAL, text);
  s = scores_of(TRITONSERVER_TYPE_FP32, SHAPE(0, 7), NULL, 0);
  s.has_rows = true;
  assert_classes(&s, 3, "");
  s = scores_of(TRITONSERVER_TYPE_FP32, SHAPE(7, 0), NULL, 0);
  s.has_rows = true;
  assert_classes(&s, 3, "");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_largest_come_first_with_index_and_label),
      cmocka_unit_test(each_row_has_its_own_classes),
      cmocka_unit_test(no_number_comes_last),
      cmocka_unit_test(limits_of_types_are_told_exactly),
      cmocka_unit_test(cve_2025_23321_every_type_and_count_against_a_plain_sort),
      cmocka_unit_test(cve_2025_23321_what_is_no_number_is_refused),
      cmocka_unit_test(cve_2026_24146_there_is_a_limit),
      cmocka_unit_test(sizes_that_are_not_the_shapes_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// What Triton passes over or leaves to the model in a JSON inference request: clients send it.
#include "json_request.h"

static void a_number_beyond_fp32_is_an_infinity(void **state)
{
  (void)state;
  reading r = read_good(TENSOR("FP32", "[3]", "[1e39,-3.5e38,1]"));
  const float *data = r.request.inputs[0].data;
  assert_true(data[0] == INFINITY && data[1] == -INFINITY && data[2] == 1);
  finish(&r);
}

// Strings of `count` elements: their bytes as a tensor has them, for the core to count.
static void assert_strings(const char *text, const char *bytes, size_t size)
{
  reading r = read_good(text);
  assert_int_equal(r.request.inputs[0].data_size, size);
  assert_memory_equal(r.request.inputs[0].data, bytes, size);
  finish(&r);
}

static void strings_are_counted_by_the_core(void **state)
{
  (void)state;
  assert_strings(TENSOR("BYTES", "[2]", "[\"a\"]"), "\1\0\0\0a", 5);
  assert_strings(TENSOR("BYTES", "[1000000]", "[[\"a\"],[]]"), "\1\0\0\0a", 5);
  assert_strings(TENSOR("BYTES", "[1]", "[\"a\",\"b\"]"), "\1\0\0\0a\1\0\0\0b", 10);
  assert_strings(TENSOR("BYTES", "[1]", "[\"\",\"b\",[\"c\"],\"d\"]"), "\0\0\0\0\1\0\0\0b", 9);
  ASSERT_REFUSED(TENSOR("BYTES", "[1]", "[\"a\",\"b\",x]"), "failed to parse the request JSON");
}

static void strings_of_a_tensor_may_be_of_any_bytes(void **state)
{
  (void)state;
  assert_strings(TENSOR("BYTES", "[2]", "[\"\xff\\n\",\"\xc0\xaf\"]"),
                 "\2\0\0\0\xff\n\2\0\0\0\xc0\xaf", 12);
  reading r = read_good("{\"inputs\":[],\"other\":{\"\xff\":[\"\xfe\"]}}");
  finish(&r);
}

static void what_means_nothing_is_passed_over(void **state)
{
  (void)state;
  static const char *const texts[] = {
      "\xef\xbb\xbf{\"inputs\":[]}",
      INPUT(X ",\"data\":[1],\"parameters\":[1]"),
      INPUT(X ",\"data\":[1],\"parameters\":\"\""),
      INPUT(X ",\"data\":[1],\"parameters\":{\"mine\":[1],\"other\":null,\"b\":\"\xff\"}"),
      "{\"inputs\":[],\"outputs\":[{\"name\":\"o\",\"parameters\":1}]}",
      TENSOR("INT8", "[0]", "[1,[2]]"),
      TENSOR("BYTES", "[2,0]", "[\"a\"]"),
  };
  for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
    reading r = read_good(texts[i]);
    finish(&r);
  }
  reading r = read_bytes("{\"inputs\":[]}\0\0", 15, "");
  assert_null(r.error);
  finish(&r);
  r = read_bytes("{\"inputs\":[]}\0x", 15, "");
  assert_non_null(r.error); // two readings of one body
  finish(&r);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_number_beyond_fp32_is_an_infinity),
      cmocka_unit_test(strings_are_counted_by_the_core),
      cmocka_unit_test(strings_of_a_tensor_may_be_of_any_bytes),
      cmocka_unit_test(what_means_nothing_is_passed_over),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// The lines of curl that nereid serve prints, and the report of nereid check for people.
#include "daemon/call_lines.h"
#include "daemon/check_print.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const plain = "{}";

static void assert_call(call_target target, const char *metadata, const char *config,
                        const char *expected)
{
  AUTO_BUFFER buffer out = BUFFER_EMPTY;
  assert_true(call_line_print(&target, slice_of(metadata), slice_of(config), &out));
  buffer_append_char(&out, '\0');
  assert_string_equal(out.data, expected);
}

#define METADATA(name, inputs) "{\"name\":\"" name "\",\"inputs\":[" inputs "]}"
#define INPUT(name, type, shape)                                                                   \
  "{\"name\":\"" name "\",\"datatype\":\"" type "\",\"shape\":" shape "}"

static void small_inputs_are_written_out(void **state)
{
  (void)state;
  assert_call(
      (call_target){"0.0.0.0:8000", NULL},
      METADATA("a b", INPUT("x", "FP32", "[-1,2]") "," INPUT("it's", "BYTES",
                                                             "[1]") "," INPUT("b", "BOOL", "[0]")),
      plain,
      "curl -d '{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[1,2],\"data\":"
      "[0,0]},{\"name\":\"it'\\''s\",\"datatype\":\"BYTES\",\"shape\":[1],\"data\":[\"a\"]},"
      "{\"name\":\"b\",\"datatype\":\"BOOL\",\"shape\":[0],\"data\":[]}]}' "
      "localhost:8000/v2/models/a%20b/infer");
}

static void large_inputs_come_from_dev_zero(void **state)
{
  (void)state;
  assert_call((call_target){"[::]:1", NULL}, METADATA("m", INPUT("x", "INT64", "[5,20]")), plain,
              "(printf %s '{\"inputs\":[{\"name\":\"x\",\"datatype\":\"INT64\",\"shape\":[5,20],"
              "\"parameters\":{\"binary_data_size\":800}}]}'; head -c 800 /dev/zero) | curl -H "
              "'Inference-Header-Content-Length: 97' --data-binary @- "
              "localhost:1/v2/models/m/infer");
}

static void sockets_tls_and_streams_are_called_as_they_want(void **state)
{
  (void)state;
  static const char decoupled[] = "{\"model_transaction_policy\":{\"decoupled\":true}}";
  const char *metadata = METADATA("m", INPUT("x", "FP32", "[1]") "," INPUT("y", "INT8", "[2]"));
  assert_call((call_target){"unix:/run/it's", NULL}, metadata, decoupled,
              "curl -N -d '{\"x\":0,\"y\":[0,0]}' --unix-socket '/run/it'\\''s' "
              "localhost/v2/models/m/generate_stream");
  assert_call((call_target){"unix:@n", "/c.pem"}, METADATA("m", ""), plain,
              "curl -d '{\"inputs\":[]}' --cacert '/c.pem' --abstract-unix-socket 'n' "
              "https://localhost/v2/models/m/infer");
  assert_call((call_target){"[::1]:5", NULL}, METADATA("m", ""), plain,
              "curl -d '{\"inputs\":[]}' [::1]:5/v2/models/m/infer");
}

static void what_is_no_metadata_gives_no_line(void **state)
{
  (void)state;
  static const char *const wrong[] = {
      "",
      "[]",
      "{}",
      METADATA("m", "7"),
      METADATA("m", INPUT("x", "FP31", "[1]")),
      METADATA("m", INPUT("x", "FP32", "[9223372036854775807,9223372036854775807]"))};
  const call_target target = {"0.0.0.0:8000", NULL};
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    AUTO_BUFFER buffer out = BUFFER_EMPTY;
    assert_false(call_line_print(&target, slice_of(wrong[i]), slice_of(plain), &out));
  }
}

static void assert_report(const char *json, bool strict, bool well, const char *expected)
{
  AUTO_BUFFER buffer out = BUFFER_EMPTY;
  assert_int_equal(check_print_report(slice_of(json), strict, false, &out), well);
  buffer_append_char(&out, '\0');
  assert_string_equal(out.data, expected);
}

static void warnings_are_well_unless_strict(void **state)
{
  (void)state;
  static const char warning[] =
      "{\"models\":2,\"errors\":0,\"warnings\":1,\"problems\":[{\"severity\":\"warning\",\"file\":"
      "\"m\\u001b\",\"message\":\"x\\ny\",\"fix\":\"z\"}]}";
  static const char shown[] = "m : warning: x y\n      fix: z\n2 models checked: 1 warning\n";
  assert_report(warning, false, true, shown);
  assert_report(warning, true, false, shown);
  assert_report("{\"models\":1,\"errors\":0,\"warnings\":0,\"problems\":[]}", true, true,
                "1 model checked: no problems\n");
  assert_report("nonsense", false, false, "0 models checked: no problems\n");
}

static void values_have_a_comment(void **state)
{
  (void)state;
  AUTO_BUFFER buffer out = BUFFER_EMPTY;
  assert_true(check_print_config(
      slice_of("{\"file\":\"config.pbtxt\",\"lines\":[{\"text\":\"a {\"},{\"text\":\"  b: 1\","
               "\"from\":\"file\",\"line\":3},{\"text\":\"}\"},{\"text\":\"c: 22\",\"from\":"
               "\"default\"}]}"),
      false, &out));
  buffer_append_char(&out, '\0');
  assert_string_equal(out.data, "a {\n  b: 1  # config.pbtxt:3\n}\nc: 22   # default\n");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(small_inputs_are_written_out),
      cmocka_unit_test(large_inputs_come_from_dev_zero),
      cmocka_unit_test(sockets_tls_and_streams_are_called_as_they_want),
      cmocka_unit_test(what_is_no_metadata_gives_no_line),
      cmocka_unit_test(warnings_are_well_unless_strict),
      cmocka_unit_test(values_have_a_comment),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

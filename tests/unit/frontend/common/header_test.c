// SPDX-License-Identifier: Apache-2.0
// Header fields: which ones a pattern forwards, what a pattern may not cost; the load report in a
// reply.
#include "frontend/common/observe/load_metrics.h"
#include "frontend/common/policy/header_forward.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static bool forwards(const char *pattern, const char *name)
{
  header_forward *forward;
  bool matches;
  assert_null(header_forward_new(pattern, &forward));
  assert_null(header_forward_matches(forward, slice_of(name), &matches));
  header_forward_free(forward);
  return matches;
}

static void a_name_is_searched_for_in_any_case(void **state)
{
  (void)state;
  assert_true(forwards("MY_HEADER.*", "my_header_1"));
  assert_true(forwards("my_header", "x-MY_HEADER-y"));
  assert_false(forwards("^my_header", "x-my_header"));
  assert_false(forwards("(?-i)MY_HEADER", "my_header"));
  assert_true(forwards("(?-i)MY_HEADER", "MY_HEADER"));
  assert_true(forwards("^(a|b)-\\d+$", "B-12"));
  assert_false(forwards("^(a|b)-\\d+$", "B-12c"));
  assert_true(forwards(".*", "anything"));
}

static void nothing_is_forwarded_without_a_pattern(void **state)
{
  (void)state;
  header_forward *forward;
  assert_null(header_forward_new("", &forward));
  assert_null(forward);
}

static void what_is_no_pattern_is_refused(void **state)
{
  (void)state;
  static const char *const wrong[] = {"(", "[a", "a{2,1}", "(?<n>a)(?<n>b)", "\\C", "*"};
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    header_forward *forward;
    error *e = header_forward_new(wrong[i], &forward);
    if (e == NULL)
      fail_msg("'%s' was taken", wrong[i]);
    assert_non_null(strstr(error_message(e), wrong[i]));
    error_free(e);
  }
}

static void expect_refusal(const char *pattern, const char *name, const char *words)
{
  header_forward *forward;
  bool matches;
  assert_null(header_forward_new(pattern, &forward));
  error *e = header_forward_matches(forward, slice_of(name), &matches);
  if (e == NULL)
    fail_msg("'%s' was taken", name);
  assert_int_equal(error_get_code(e), ERROR_INVALID_ARG);
  if (strstr(error_message(e), words) == NULL)
    fail_msg("'%s': %s", name, error_message(e));
  error_free(e);
  header_forward_free(forward);
}

static void names_that_steer_the_server_are_refused(void **state)
{
  (void)state;
  static const char *const reserved[] = {"sequence_id",        "sequence_start", "sequence_end",
                                         "priority",           "timeout",        "headers",
                                         "binary_data_output", "triton_",        "triton_x",
                                         "Sequence_ID",        "TRITON_enable"};
  for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
    expect_refusal(".*", reserved[i], "is reserved for Triton usage and cannot be forwarded.");
  assert_true(forwards(".*", "priority2"));
  assert_true(forwards(".*", "x-triton_"));
  assert_false(forwards("my_header", "priority")); // not asked for
}

// Steps of these searches grow exponentially with the name.
static void a_pattern_cannot_hold_a_thread(void **state)
{
  (void)state;
  char name[257];
  memset(name, 'a', sizeof(name) - 1);
  name[sizeof(name) - 2] = '!';
  name[sizeof(name) - 1] = '\0';
  expect_refusal("^(a+)+$", name, "takes too long");
  expect_refusal("^(a|a)*$", name, "takes too long");
  expect_refusal("^(a|aa)+$", name, "takes too long");
  char long_name[300] = {0};
  memset(long_name, 'a', sizeof(long_name) - 1);
  expect_refusal("b", long_name, "takes too long");
}

static bool report(const char *metrics, const char *format, const char *expected)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  bool written = load_metrics_write_from(slice_of(metrics), slice_of(format), &text);
  if (written && !slice_equal_text(buffer_view(&text), expected))
    fail_msg("%.*s", (int)text.size, text.data);
  return written;
}

#define BLOCKS "nv_trt_llm_kv_cache_block_metrics"
#define GOOD                                                                                       \
  "# TYPE " BLOCKS " gauge\n" BLOCKS                                                               \
  "{kv_cache_block_type=\"used\",model=\"m\",version=\"1\"} 3\n"                                   \
  "other{kv_cache_block_type=\"used\"} 7\n" BLOCKS                                                 \
  "{model=\"m\",kv_cache_block_type=\"max\"} 8\n" BLOCKS                                           \
  "{kv_cache_block_type=\"tokens_per\"} 64\n" BLOCKS "{kv_cache_block_type=\"free\"} 5"

static void a_load_report_is_made_of_the_cache_metrics(void **state)
{
  (void)state;
  assert_true(report(GOOD, "text",
                     "TEXT named_metrics.kv_cache_utilization=0.375000, "
                     "named_metrics.max_token_capacity=512"));
  assert_true(report(GOOD, "json",
                     "JSON {\"named_metrics\":{\"kv_cache_utilization\":0.375,"
                     "\"max_token_capacity\":512}}"));
  assert_false(report(GOOD, "xml", ""));
  assert_false(report(GOOD, "", ""));
  assert_false(report("", "text", ""));
  assert_false(report(BLOCKS "{kv_cache_block_type=\"used\"} 3\n", "text", ""));
  assert_true(report(GOOD "\n" BLOCKS "{kv_cache_block_type=\"max\"} 0\n", "text",
                     "TEXT named_metrics.kv_cache_utilization=0.000000, "
                     "named_metrics.max_token_capacity=0"));
  assert_false(report(GOOD "\n" BLOCKS "{kv_cache_block_type=\"max\"} NaN\n", "text", ""));
  assert_false(report(GOOD "\n" BLOCKS "{kv_cache_block_type=\"max\"} -1\n", "json", ""));
  assert_false(report(GOOD "\n" BLOCKS "{kv_cache_block_type=\"max\"} 1e300\n", "json", ""));
  assert_false(report(BLOCKS "{kv_cache_block_type=\"used", "text", ""));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_name_is_searched_for_in_any_case),
      cmocka_unit_test(nothing_is_forwarded_without_a_pattern),
      cmocka_unit_test(what_is_no_pattern_is_refused),
      cmocka_unit_test(names_that_steer_the_server_are_refused),
      cmocka_unit_test(a_pattern_cannot_hold_a_thread),
      cmocka_unit_test(a_load_report_is_made_of_the_cache_metrics),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

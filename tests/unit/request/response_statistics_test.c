// SPDX-License-Identifier: Apache-2.0
// Counters of responses by their place in an answer.
#include "base/error.h"
#include "request/response_statistics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void assert_counted(const response_duration *d, uint64_t count, uint64_t ns)
{
  assert_int_equal(d->count, count);
  assert_int_equal(d->ns, ns);
}

static void each_outcome_has_its_counters(void **state)
{
  (void)state;
  response_statistics s;
  size_t count;
  response_statistics_init(&s);
  assert_null(response_statistics_copy(&s, &count));
  assert_int_equal(count, 0);
  assert_null(response_statistics_count(&s, 0, RESPONSE_SUCCESS, &(response_times){10, 13, 20}));
  assert_null(response_statistics_count(&s, 0, RESPONSE_SUCCESS, &(response_times){10, 14, 20}));
  assert_null(response_statistics_count(&s, 0, RESPONSE_FAIL, &(response_times){10, 0, 15}));
  assert_null(response_statistics_count(&s, 2, RESPONSE_EMPTY, &(response_times){1, 0, 3}));
  assert_null(response_statistics_count(&s, 2, RESPONSE_CANCEL, &(response_times){1, 0, 9}));
  response_counters *rows = response_statistics_copy(&s, &count);
  assert_int_equal(count, 3);
  assert_counted(&rows[0].success, 2, 20);
  assert_counted(&rows[0].compute_infer, 3, 3 + 4 + 5);
  assert_counted(&rows[0].compute_output, 2, 7 + 6);
  assert_counted(&rows[0].fail, 1, 5);
  assert_counted(&rows[1].compute_infer, 0, 0);
  assert_counted(&rows[2].empty_response, 1, 2);
  assert_counted(&rows[2].cancel, 1, 8);
  assert_counted(&rows[2].compute_infer, 1, 2); // not of what was cancelled
  free(rows);
  response_statistics_fini(&s);
}

static void moments_are_in_order(void **state)
{
  (void)state;
  static const struct {
    response_times times;
    const char *text;
  } cases[] = {
      {{5, 4, 9}, "Response start cannot happen after compute output start"},
      {{5, 9, 8}, "Compute output start cannot happen after response end"},
      {{5, 0, 4}, "Response start cannot happen after response end"},
  };
  response_statistics s;
  size_t count;
  response_statistics_init(&s);
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    error *e = response_statistics_count(&s, 0, RESPONSE_SUCCESS, &cases[i].times);
    assert_non_null(e);
    assert_int_equal(error_get_code(e), ERROR_INVALID_ARG);
    assert_string_equal(error_message(e), cases[i].text);
    error_free(e);
  }
  assert_null(response_statistics_copy(&s, &count));
  response_statistics_fini(&s);
}

static void long_answers_end_in_the_last_row(void **state)
{
  (void)state;
  const uint64_t places[] = {RESPONSE_STATISTICS_ROWS - 1, RESPONSE_STATISTICS_ROWS, UINT64_MAX};
  response_statistics s;
  size_t count;
  response_statistics_init(&s);
  for (size_t i = 0; i < 3; i++)
    assert_null(
        response_statistics_count(&s, places[i], RESPONSE_EMPTY, &(response_times){1, 0, 2}));
  response_counters *rows = response_statistics_copy(&s, &count);
  assert_int_equal(count, RESPONSE_STATISTICS_ROWS);
  assert_counted(&rows[RESPONSE_STATISTICS_ROWS - 1].empty_response, 3, 3);
  free(rows);
  response_statistics_fini(&s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_outcome_has_its_counters),
      cmocka_unit_test(moments_are_in_order),
      cmocka_unit_test(long_answers_end_in_the_last_row),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// What signals mean while the server stops, at moments of the test's own.
#include "daemon/stop_signals.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MS        UINT64_C(1000000)
#define BEGIN_NS  (5 * MS)
#define NO_SIGNAL (-1)

static bool ends(stop_signals *s, int number, uint64_t after_ms)
{
  return stop_signals_again(s, number, BEGIN_NS + after_ms * MS);
}

static void a_second_sigterm_is_ignored_for_ten_seconds(void **state)
{
  (void)state;
  stop_signals s = stop_signals_first(SIGTERM, BEGIN_NS);
  assert_false(ends(&s, SIGTERM, 0));
  assert_false(ends(&s, SIGTERM, 1500));
  assert_false(ends(&s, SIGTERM, 9999));
  assert_true(ends(&s, SIGTERM, 10000));
}

static void a_second_sigint_ends(void **state)
{
  (void)state;
  stop_signals s = stop_signals_first(SIGINT, BEGIN_NS);
  assert_true(ends(&s, SIGINT, 400));
}

static void a_sigint_that_a_launcher_passes_on_is_the_same(void **state)
{
  (void)state;
  stop_signals s = stop_signals_first(SIGINT, BEGIN_NS);
  assert_false(ends(&s, SIGINT, 20));
  assert_true(ends(&s, SIGINT, 800));
}

static void the_first_sigint_after_a_sigterm_is_no_second_one(void **state)
{
  (void)state;
  stop_signals s = stop_signals_first(SIGTERM, BEGIN_NS);
  assert_false(ends(&s, SIGINT, 3000));
  assert_false(ends(&s, SIGTERM, 4000));
  assert_true(ends(&s, SIGINT, 5000));
}

static void a_sigterm_after_a_sigint_is_ignored_too(void **state)
{
  (void)state;
  stop_signals s = stop_signals_first(SIGINT, BEGIN_NS);
  assert_false(ends(&s, SIGTERM, 3000));
  assert_true(ends(&s, SIGTERM, 12000));
}

static void after_ten_seconds_any_signal_ends_whatever_began_the_stop(void **state)
{
  (void)state;
  stop_signals s = stop_signals_first(NO_SIGNAL, BEGIN_NS);
  assert_false(ends(&s, SIGINT, 1000));
  assert_true(ends(&s, SIGTERM, 10001));
  s = stop_signals_first(SIGTERM, BEGIN_NS);
  assert_true(ends(&s, SIGINT, 10001));
}

static void that_a_signal_is_ignored_is_told_once(void **state)
{
  (void)state;
  stop_signals s = stop_signals_first(SIGTERM, BEGIN_NS);
  assert_true(stop_signals_tell(&s));
  assert_false(stop_signals_tell(&s));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_second_sigterm_is_ignored_for_ten_seconds),
      cmocka_unit_test(a_second_sigint_ends),
      cmocka_unit_test(a_sigint_that_a_launcher_passes_on_is_the_same),
      cmocka_unit_test(the_first_sigint_after_a_sigterm_is_no_second_one),
      cmocka_unit_test(a_sigterm_after_a_sigint_is_ignored_too),
      cmocka_unit_test(after_ten_seconds_any_signal_ends_whatever_began_the_stop),
      cmocka_unit_test(that_a_signal_is_ignored_is_told_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

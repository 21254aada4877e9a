// SPDX-License-Identifier: Apache-2.0
// The end of a listener: waiting for a count to be 0, while other threads count down.
// haste.
#include "base/clock.h"
#include "base/thread.h"
#include "frontend/common/net/drain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define COUNTED 1000
#define THREADS 4
#define SOON_NS UINT64_C(1000000)

typedef struct fixture {
  drain drain;
  _Atomic size_t count;
} fixture;

static void *count_down(void *fixture_pointer)
{
  fixture *f = fixture_pointer;
  for (int i = 0; i < COUNTED / THREADS; i++)
    drain_count_down(&f->drain, &f->count);
  return NULL;
}

static void the_last_of_a_count_wakes_who_waits(void **state)
{
  (void)state;
  fixture f = {.count = COUNTED};
  pthread_t threads[THREADS];
  drain_init(&f.drain);
  drain_begin(&f.drain);
  for (int i = 0; i < THREADS; i++)
    assert_null(thread_start(&threads[i], "count-down", count_down, &f));
  assert_int_equal(drain_wait(&f.drain, &f.count, CLOCK_NEVER), 0);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  drain_fini(&f.drain);
}

static void who_waits_goes_on_when_the_moment_has_come(void **state)
{
  (void)state;
  fixture f = {.count = 2};
  drain_init(&f.drain);
  drain_begin(&f.drain);
  drain_count_down(&f.drain, &f.count);
  uint64_t moment_ns = clock_monotonic_ns() + SOON_NS;
  assert_int_equal(drain_wait(&f.drain, &f.count, moment_ns), 1);
  assert_true(clock_monotonic_ns() >= moment_ns);
  drain_fini(&f.drain);
}

static void nobody_waits_for_a_count_that_is_nothing(void **state)
{
  (void)state;
  fixture f = {.count = 1};
  drain_init(&f.drain);
  assert_false(drain_has_begun(&f.drain));
  drain_count_down(&f.drain, &f.count);
  drain_begin(&f.drain);
  assert_true(drain_has_begun(&f.drain));
  assert_int_equal(drain_wait(&f.drain, &f.count, CLOCK_NEVER), 0);
  drain_fini(&f.drain);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_last_of_a_count_wakes_who_waits),
      cmocka_unit_test(who_waits_goes_on_when_the_moment_has_come),
      cmocka_unit_test(nobody_waits_for_a_count_that_is_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

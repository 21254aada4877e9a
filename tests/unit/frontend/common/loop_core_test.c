// SPDX-License-Identifier: Apache-2.0
// A loop's waking and its end.
#include "frontend/common/net/loop_core.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sched.h>

typedef struct fixture {
  loop_group group;
  loop_core loop;
} fixture;

static int begin(void **state)
{
  static fixture f;
  f = (fixture){0};
  loop_group_init(&f.group, "test", "1", 2, 0);
  assert_true(loop_core_open(&f.loop, &f.group));
  *state = &f;
  return 0;
}

static int end(void **state)
{
  fixture *f = *state;
  loop_core_fini(&f->loop);
  return 0;
}

static int sleep_for(fixture *f, int timeout_ms)
{
  struct epoll_event event;
  return loop_core_sleep(&f->loop, &event, 1, timeout_ms);
}

static void a_wake_before_sleep_is_seen_once(void **state)
{
  fixture *f = *state;
  loop_core_begin_pass(&f->loop);
  loop_core_wake(&f->loop);
  assert_int_equal(sleep_for(f, -1), -1);
  loop_core_begin_pass(&f->loop);
  assert_int_equal(sleep_for(f, 0), 0);
}

// HTTP's loops look at `stopping` before they begin a pass: the wake of their end may come between.
static void a_loop_that_is_to_stop_does_not_sleep(void **state)
{
  fixture *f = *state;
  atomic_store(&f->group.stopping, true);
  loop_core_wake(&f->loop);
  loop_core_begin_pass(&f->loop);
  assert_int_equal(sleep_for(f, 0), -1);
}

static void *wait_for_the_end(void *loop)
{
  loop_core *l = loop;
  while (!atomic_load(&l->group->stopping))
    sched_yield();
  return NULL;
}

static void a_loop_that_makes_no_pass_is_silent(void **state)
{
  fixture *f = *state;
  assert_null(loops_silent()); // there is no loop
  assert_null(loop_core_start(&f->loop, "loop", wait_for_the_end, &f->loop));
  assert_null(loops_silent()); // the first question
  assert_string_equal(loops_silent(), "test");
  loop_core_begin_pass(&f->loop); // for the thread, which does not do so
  assert_null(loops_silent());
  assert_int_equal(sleep_for(f, -1), -1); // the question wakes it
  loop_core_begin_pass(&f->loop);
  atomic_store(&f->group.stopping, true);
  loop_core_join(&f->loop);
  assert_null(loops_silent());
  assert_null(loops_silent());
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_wake_before_sleep_is_seen_once, begin, end),
      cmocka_unit_test_setup_teardown(a_loop_that_makes_no_pass_is_silent, begin, end),
      cmocka_unit_test_setup_teardown(a_loop_that_is_to_stop_does_not_sleep, begin, end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

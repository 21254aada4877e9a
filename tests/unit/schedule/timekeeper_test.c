// SPDX-License-Identifier: Apache-2.0
// The timekeeper: order, re-arming, cancelling against a callback that runs, and its thread.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/thread.h"
#include "schedule_inside.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static uint64_t test_now;

static uint64_t read_test_clock(void *context)
{
  (void)context;
  return test_now;
}

static const clock_source test_clock = {read_test_clock, NULL};

typedef struct record {
  timer timer;
  int number;
  uint64_t again_at; // what the callback returns, once
} record;

static int fired[64];
static size_t fired_count;

static uint64_t note(void *context, uint64_t now_ns)
{
  record *r = context;
  assert_int_equal(now_ns, test_now);
  fired[fired_count++] = r->number;
  uint64_t again = r->again_at;
  r->again_at = CLOCK_NEVER;
  return again;
}

static void init_record(record *r, int number)
{
  *r = (record){.number = number, .again_at = CLOCK_NEVER};
  timer_init(&r->timer, note, r);
}

static void timers_fire_in_order_of_their_moments_and_equal_ones_in_order_of_arming(void **state)
{
  (void)state;
  test_now = 0;
  fired_count = 0;
  timekeeper *k;
  assert_null(make_timekeeper(test_clock, &k));
  static const uint64_t moments[] = {50, 10, 30, 10, 40, 30, 20, 10};
  static const int expected[] = {1, 3, 7, 6, 2, 5, 4, 0};
  record records[8];
  for (int i = 0; i < 8; i++) {
    init_record(&records[i], i);
    timekeeper_arm(k, &records[i].timer, moments[i]);
  }
  assert_int_equal(fire_now(k), 10);
  assert_int_equal(fired_count, 0);
  test_now = 35;
  assert_int_equal(fire_now(k), 40);
  assert_int_equal(fired_count, 6);
  test_now = 100;
  assert_int_equal(fire_now(k), CLOCK_NEVER);
  assert_memory_equal(fired, expected, sizeof(expected));
  timekeeper_free(k);
}

static void arming_again_can_only_make_a_timer_earlier(void **state)
{
  (void)state;
  test_now = 0;
  fired_count = 0;
  timekeeper *k;
  assert_null(make_timekeeper(test_clock, &k));
  record r;
  init_record(&r, 1);
  timekeeper_arm(k, &r.timer, 50);
  timekeeper_arm(k, &r.timer, 70);
  assert_int_equal(fire_now(k), 50);
  timekeeper_arm(k, &r.timer, 20);
  assert_int_equal(fire_now(k), 20);
  timekeeper_arm(k, &r.timer, CLOCK_NEVER);
  assert_int_equal(fire_now(k), 20);
  timekeeper_cancel(k, &r.timer);
  timekeeper_cancel(k, &r.timer);
  test_now = 100;
  assert_int_equal(fire_now(k), CLOCK_NEVER);
  assert_int_equal(fired_count, 0);
  timekeeper_free(k);
}

static void a_callback_says_when_it_comes_again(void **state)
{
  (void)state;
  test_now = 10;
  fired_count = 0;
  timekeeper *k;
  assert_null(make_timekeeper(test_clock, &k));
  record r;
  init_record(&r, 1);
  r.again_at = 30;
  timekeeper_arm(k, &r.timer, 5);
  assert_int_equal(fire_now(k), 30);
  test_now = 30;
  assert_int_equal(fire_now(k), CLOCK_NEVER);
  assert_int_equal(fired_count, 2);
  timekeeper_free(k);
}

// --- With the thread

typedef struct shared {
  timer timer;
  timekeeper *keeper;
  _Atomic int runs;
  _Atomic bool alive; // false: a callback that runs now is a failure
  _Atomic int failures;
} shared;

static uint64_t count_run(void *context, uint64_t now_ns)
{
  shared *s = context;
  if (!atomic_load(&s->alive))
    atomic_fetch_add(&s->failures, 1);
  atomic_fetch_add(&s->runs, 1);
  return now_ns + 20000; // again in 20 us
}

static void cancelling_waits_for_a_callback_that_runs(void **state)
{
  (void)state;
  timekeeper *k;
  assert_null(timekeeper_new(clock_system(), &k));
  for (int round = 0; round < 200; round++) {
    shared *s = calloc(1, sizeof(*s)); // freed right after: the sanitizers see a late callback
    timer_init(&s->timer, count_run, s);
    atomic_store(&s->alive, true);
    timekeeper_arm(k, &s->timer, clock_monotonic_ns());
    while (atomic_load(&s->runs) < 3)
      timekeeper_arm(k, &s->timer, clock_monotonic_ns() + 1000);
    timekeeper_cancel(k, &s->timer);
    atomic_store(&s->alive, false);
    assert_int_equal(atomic_load(&s->failures), 0);
    free(s);
  }
  timekeeper_free(k);
}

typedef struct short_lived {
  timer timer;
  timekeeper *timekeeper;
} short_lived;

static uint64_t end_itself(void *context, uint64_t now_ns)
{
  short_lived *s = context;
  timekeeper_cancel(s->timekeeper, &s->timer);
  free(s);
  fired_count++;
  return now_ns; // which would be at once
}

static void a_callback_may_cancel_its_own_timer_which_may_then_go(void **state)
{
  (void)state;
  test_now = 10;
  fired_count = 0;
  timekeeper *k;
  assert_null(make_timekeeper(test_clock, &k));
  short_lived *s = malloc(sizeof(*s));
  assert_non_null(s);
  s->timekeeper = k;
  timer_init(&s->timer, end_itself, s);
  timekeeper_arm(k, &s->timer, 5);
  assert_int_equal(fire_now(k), CLOCK_NEVER);
  assert_int_equal(fired_count, 1);
  timekeeper_free(k);
}

static void *arm_and_cancel(void *argument)
{
  timekeeper *k = argument;
  for (int i = 0; i < 500; i++) {
    shared s = {.alive = true};
    timer_init(&s.timer, count_run, &s);
    timekeeper_arm(k, &s.timer, clock_monotonic_ns() + (uint64_t)(i % 7) * 5000);
    timekeeper_cancel(k, &s.timer);
  }
  return NULL;
}

static void many_threads_arm_and_cancel_at_once(void **state)
{
  (void)state;
  timekeeper *k;
  assert_null(timekeeper_new(clock_system(), &k));
  pthread_t threads[4];
  for (int i = 0; i < 4; i++)
    assert_null(thread_start(&threads[i], "armer", arm_and_cancel, k));
  for (int i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
  timekeeper_free(k);
}

static void a_question_is_answered_by_the_thread_and_one_without_an_answer_is_told(void **state)
{
  (void)state;
  test_now = 10;
  timekeeper *k;
  assert_null(make_timekeeper(test_clock, &k));
  assert_true(timekeeper_answers(k)); // nothing was asked before
  assert_false(timekeeper_answers(k));
  assert_int_equal(fire_now(k), CLOCK_NEVER);
  assert_true(timekeeper_answers(k));
  timekeeper_free(k); // with an open question
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(timers_fire_in_order_of_their_moments_and_equal_ones_in_order_of_arming),
      cmocka_unit_test(arming_again_can_only_make_a_timer_earlier),
      cmocka_unit_test(a_callback_says_when_it_comes_again),
      cmocka_unit_test(cancelling_waits_for_a_callback_that_runs),
      cmocka_unit_test(a_callback_may_cancel_its_own_timer_which_may_then_go),
      cmocka_unit_test(a_question_is_answered_by_the_thread_and_one_without_an_answer_is_told),
      cmocka_unit_test(many_threads_arm_and_cancel_at_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

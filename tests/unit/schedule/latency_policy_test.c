// SPDX-License-Identifier: Apache-2.0
// The policy that holds a latency objective, and the curve of what executions take.
#include "schedule/latency_policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define MS 1000000.0

// ---- the curve

static void test_sizes_have_places(void **state)
{
  (void)state;
  const uint64_t max = 1000000;
  uint64_t n = 0, count = 0, before = 0;
  while ((n = service_curve_next_size(n, max)) != 0) {
    assert_true(n > before && n <= max);
    assert_true(n <= 16 ? n == before + 1 : n <= before + before / 8 + 1);
    before = n;
    count++;
  }
  assert_int_equal(before, max);
  assert_true(count < 200);
}

static void test_between_sizes_is_a_straight_line(void **state)
{
  (void)state;
  service_curve c;
  service_curve_init(&c);
  assert_true(service_curve_is_empty(&c) && service_curve_mean(&c, 5) == 0 &&
              service_curve_largest(&c) == 0);
  service_curve_add(&c, 8, 800);
  assert_float_equal(service_curve_mean(&c, 1), 800, 0.01); // less is not known to be cheaper
  assert_float_equal(service_curve_mean(&c, 16), 1600, 0.01);
  service_curve_add(&c, 2, 500);
  assert_float_equal(service_curve_mean(&c, 5), 650, 0.01);
  assert_float_equal(service_curve_mean(&c, 2), 500, 0.01);
  assert_float_equal(service_curve_mean(&c, 14), 1100, 0.01); // as from 2 to 8
  assert_float_equal(service_curve_high(&c, 16), 1600, 0.01);
  assert_int_equal(service_curve_largest(&c), 8);
}

static void test_a_curve_follows_what_changes(void **state)
{
  (void)state;
  service_curve c;
  service_curve_init(&c);
  for (int i = 0; i < 20; i++)
    service_curve_add(&c, 4, 1000);
  for (int i = 0; i < 60; i++)
    service_curve_add(&c, 4, 2000);
  assert_float_equal(service_curve_mean(&c, 4), 2000, 10);
  assert_true(service_curve_high(&c, 4) > service_curve_mean(&c, 4));
}

// ---- the policy, with a model that takes base + rows · slope

typedef struct setup {
  double base, slope;
  uint64_t max, workers;
  double objective;
} setup;

// More comes than there can be: batches are as chosen.
static void feed(latency_policy *p, const setup *s, uint64_t *now_ns, int executions)
{
  for (int i = 0; i < executions; i++) {
    uint64_t rows = p->choice.max_rows < s->max ? p->choice.max_rows : s->max;
    double took = s->base + s->slope * (double)rows;
    *now_ns += (uint64_t)took;
    latency_policy_executed(p, rows, 1, (uint64_t)took, rows, 0, *now_ns);
  }
}

static latency_policy learn(const setup *s)
{
  latency_policy p;
  uint64_t now_ns = 1;
  const latency_settings settings = {(uint64_t)s->objective, s->max, s->workers};
  latency_policy_init(&p, &settings);
  for (uint64_t rows = 1; rows != 0; rows = service_curve_next_size(rows, s->max))
    service_curve_add(&p.curve, rows, (uint64_t)(s->base + s->slope * (double)rows));
  feed(&p, s, &now_ns, 400);
  return p;
}

static void test_two_executions_fit_into_the_objective(void **state)
{
  (void)state;
  const setup s = {2 * MS, 0.1 * MS, 64, 1, 10 * MS};
  latency_policy p = learn(&s);
  double two = 2 * (s.base + s.slope * (double)p.choice.max_rows);
  assert_true(two <= s.objective && two >= 0.8 * s.objective);
  assert_true(p.choice.admit_rows >= p.choice.max_rows &&
              p.choice.admit_rows <= 2 * p.choice.max_rows);
}

static void test_a_long_objective_takes_what_serves_most(void **state)
{
  (void)state;
  const setup s = {2 * MS, 0.1 * MS, 64, 1, 500 * MS};
  latency_policy p = learn(&s);
  assert_in_range(p.choice.max_rows, 56, 64);       // within 3 % of the best
  assert_in_range(p.choice.admit_rows, 1000, 5000); // 475 ms are 55 executions
}

static void test_an_objective_that_cannot_be_held_takes_one_after_another(void **state)
{
  (void)state;
  const setup s = {20 * MS, 1 * MS, 64, 1, 10 * MS};
  latency_policy p = learn(&s);
  assert_int_equal(p.choice.max_rows, 1);
  assert_int_equal(p.choice.admit_rows, 1);
  assert_true(latency_policy_admits(&p, 8, 0)); // an idle model refuses nobody
  assert_false(latency_policy_admits(&p, 1, 1));
  assert_true(latency_policy_retry_ns(&p, 1, 3) >= (uint64_t)(2 * (s.base + s.slope)));
}

static void answer(latency_policy *p, const setup *s, uint64_t late, uint64_t *now_ns,
                   int executions)
{
  for (int i = 0; i < executions; i++, *now_ns += 10 * 1000000) {
    uint64_t rows = p->choice.max_rows;
    latency_policy_executed(p, rows, 1, (uint64_t)(s->base + s->slope * (double)rows), 200, late,
                            *now_ns);
  }
}

static void test_late_answers_make_it_careful_and_good_ones_bold_again(void **state)
{
  (void)state;
  const setup s = {2 * MS, 0.1 * MS, 64, 1, 100 * MS};
  latency_policy p = learn(&s);
  uint64_t now_ns = p.next_choice_ns, before = p.choice.admit_rows;
  answer(&p, &s, 20, &now_ns, 20);
  assert_true(p.choice.admit_rows < before / 2 && p.choice.max_rows >= 56);
  answer(&p, &s, 0, &now_ns, 400);
  assert_in_range(p.choice.admit_rows, before * 9 / 10, before * 11 / 10);
}

// ---- random histories: whatever happens, what is chosen makes sense

static uint64_t chance(uint64_t *state)
{
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

static void check_choice(const latency_policy *p)
{
  const latency_choice *c = &p->choice;
  assert_in_range(c->max_rows, 1, p->settings.max_batch_size);
  assert_true(c->admit_rows >= 1);
  assert_true(p->budget >= 0.3 && p->budget <= 0.95 && p->fill > 0 && p->fill <= 1);
}

static void run_history(uint64_t seed)
{
  uint64_t random = seed * UINT64_C(0x9E3779B97F4A7C15) | 1, now_ns = chance(&random) % 1000;
  const latency_settings settings = {1 + chance(&random) % UINT64_C(1000000000),
                                     1 + chance(&random) % 300, 1 + chance(&random) % 8};
  latency_policy p;
  latency_policy_init(&p, &settings);
  for (int step = 0; step < 24; step++) {
    now_ns += chance(&random) % (chance(&random) % 2 ? 1000 : 30000000);
    uint64_t rows = 1 + chance(&random) % settings.max_batch_size, waiting = chance(&random) % 500;
    assert_int_equal(latency_policy_admits(&p, rows, waiting),
                     waiting == 0 || waiting + rows <= p.choice.admit_rows);
    if (!latency_policy_admits(
            &p, rows, waiting)) // nobody is sent away for longer than what waits takes, one by one
      assert_true((double)latency_policy_retry_ns(&p, rows, waiting) <=
                  (double)waiting * service_curve_mean(&p.curve, p.choice.max_rows) + 1);
    uint64_t took = chance(&random) % (chance(&random) % 2 ? 100000000 : 1000);
    uint64_t requests = 1 + chance(&random) % rows;
    latency_policy_executed(&p, rows, waiting, took, requests, chance(&random) % (requests + 1),
                            now_ns);
    check_choice(&p);
  }
}

static void test_random_histories(void **state)
{
  (void)state;
  const char *wanted = getenv("NEREID_HISTORIES");
  uint64_t count = wanted != NULL ? strtoull(wanted, NULL, 10) : 20000;
  for (uint64_t seed = 1; seed <= count; seed++)
    run_history(seed);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sizes_have_places),
      cmocka_unit_test(test_between_sizes_is_a_straight_line),
      cmocka_unit_test(test_a_curve_follows_what_changes),
      cmocka_unit_test(test_two_executions_fit_into_the_objective),
      cmocka_unit_test(test_a_long_objective_takes_what_serves_most),
      cmocka_unit_test(test_an_objective_that_cannot_be_held_takes_one_after_another),
      cmocka_unit_test(test_late_answers_make_it_careful_and_good_ones_bold_again),
      cmocka_unit_test(test_random_histories),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

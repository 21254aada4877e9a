// SPDX-License-Identifier: Apache-2.0
// Who goes for a model that is wanted, who waits, and how often a broken model is tried: numbers
// and moments in, decisions out.
#include "core/demand_policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SECOND UINT64_C(1000000000)

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static demand_verdict load(demand_model *models, size_t count, uint64_t budget, uint64_t bytes)
{
  const demand_need need = {.budget = budget, .is_load = true, .bytes = bytes};
  return demand_decide(models, count, &need);
}

static void without_a_budget_everything_fits(void **state)
{
  (void)state;
  demand_model models[] = {{.bytes = UINT64_MAX}, {.bytes = UINT64_MAX}};
  assert_int_equal(load(models, 2, 0, UINT64_MAX), DEMAND_FITS);
  assert_false(models[0].goes || models[1].goes);
}

static void what_fits_evicts_nobody(void **state)
{
  (void)state;
  demand_model models[] = {{.bytes = 40, .used_ns = 1}, {.bytes = 40, .used_ns = 2}};
  assert_int_equal(load(models, 2, 100, 20), DEMAND_FITS);
  assert_false(models[0].goes || models[1].goes);
}

static void the_longest_unused_go_and_no_more_than_needed(void **state)
{
  (void)state;
  demand_model models[] = {{.bytes = 30, .used_ns = 3},
                           {.bytes = 30, .used_ns = 1},
                           {.bytes = 30, .used_ns = 2},
                           {.bytes = 10, .used_ns = 4}};
  assert_int_equal(load(models, COUNT(models), 100, 40), DEMAND_WAITS);
  assert_true(models[1].goes && models[2].goes);
  assert_false(models[0].goes || models[3].goes);
}

static void those_in_use_and_pinned_stay(void **state)
{
  (void)state;
  demand_model models[] = {{.bytes = 50, .used_ns = 1, .in_use = true},
                           {.bytes = 25, .used_ns = 2, .pinned = true},
                           {.bytes = 25, .used_ns = 3}};
  assert_int_equal(load(models, COUNT(models), 100, 50), DEMAND_WAITS);
  assert_false(models[0].goes || models[1].goes);
  assert_true(models[2].goes);
}

static void it_waits_for_what_leaves_and_evicts_nobody_else(void **state)
{
  (void)state;
  demand_model models[] = {{.bytes = 50, .leaving = true}, {.bytes = 50, .used_ns = 1}};
  assert_int_equal(load(models, 2, 100, 50), DEMAND_WAITS);
  assert_false(models[0].goes || models[1].goes);
  assert_int_equal(load(models + 1, 1, 100, 50), DEMAND_FITS);
}

static void loads_under_way_count(void **state)
{
  (void)state;
  const demand_need need = {.budget = 100, .loading_bytes = 60, .is_load = true, .bytes = 50};
  assert_int_equal(demand_decide(NULL, 0, &need), DEMAND_WAITS);
}

static void waiting_ends(void **state)
{
  (void)state;
  demand_model busy = {.bytes = 100, .used_ns = 1, .in_use = true};
  demand_need need = {.budget = 100, .is_load = true, .bytes = 50};
  need.waited_ns = DEMAND_PATIENCE_NS - 1;
  assert_int_equal(demand_decide(&busy, 1, &need), DEMAND_WAITS);
  need.waited_ns = DEMAND_PATIENCE_NS;
  assert_int_equal(demand_decide(&busy, 1, &need), DEMAND_EXCEEDS);
}

static void nobody_waits_for_what_never_goes(void **state)
{
  (void)state;
  demand_model pinned = {.bytes = 100, .pinned = true, .in_use = true};
  assert_int_equal(load(&pinned, 1, 100, 50), DEMAND_EXCEEDS);
  assert_int_equal(load(NULL, 0, 100, 101), DEMAND_EXCEEDS);
}

static void too_large_a_model_has_the_others_go_first(void **state)
{
  (void)state;
  demand_model models[] = {{.bytes = 10, .used_ns = 1}, {.bytes = 10, .used_ns = 2}};
  assert_int_equal(load(models, 2, 100, 500), DEMAND_WAITS);
  assert_true(models[0].goes && models[1].goes);
}

// Otherwise a model that is larger than the budget would be loaded anew for each request.
static void the_last_used_one_stays_where_none_is_wanted(void **state)
{
  (void)state;
  const demand_need none = {.budget = 100};
  demand_model models[] = {{.bytes = 150, .used_ns = 7}, {.bytes = 10, .used_ns = 3}};
  assert_int_equal(demand_decide(models, 2, &none), DEMAND_WAITS);
  assert_true(models[1].goes && !models[0].goes);
  assert_int_equal(demand_decide(models, 1, &none), DEMAND_EXCEEDS);
  assert_false(models[0].goes);
}

static void an_ensemble_that_was_used_last_stays_with_its_steps(void **state)
{
  (void)state;
  const demand_need none = {.budget = 100};
  demand_model models[] = {{.bytes = 60, .used_ns = 7},
                           {.bytes = 60, .used_ns = 7},
                           {.bytes = 0, .used_ns = 7},
                           {.bytes = 60, .used_ns = 3}};
  assert_int_equal(demand_decide(models, 4, &none), DEMAND_WAITS);
  assert_true(!models[0].goes && !models[1].goes && !models[2].goes && models[3].goes);
  assert_int_equal(demand_decide(models, 3, &none), DEMAND_EXCEEDS);
  assert_true(!models[0].goes && !models[1].goes && !models[2].goes);
}

static void what_nobody_has_used_goes(void **state)
{
  (void)state;
  const demand_need none = {.budget = 100};
  demand_model models[] = {{.bytes = 60}, {.bytes = 60}};
  assert_int_equal(demand_decide(models, 2, &none), DEMAND_WAITS);
  assert_true(models[0].goes != models[1].goes);
}

static void sums_do_not_overflow(void **state)
{
  (void)state;
  demand_model models[] = {{.bytes = UINT64_MAX, .used_ns = 1}, {.bytes = 5, .used_ns = 2}};
  assert_int_equal(load(models, 2, 100, UINT64_MAX), DEMAND_WAITS);
  assert_true(models[0].goes && models[1].goes);
}

static void a_broken_model_is_tried_more_and_more_seldom(void **state)
{
  (void)state;
  const uint64_t pauses[] = {1, 2, 4, 8, 16, 32, 60, 60};
  demand_failures f = {0};
  assert_int_equal(demand_decide_retry(&f, 5), DEMAND_LOADS);
  for (unsigned i = 0; i < COUNT(pauses); i++) {
    f = (demand_failures){.count = i + 1, .failed_ns = SECOND, .looked_ns = SECOND};
    assert_int_equal(demand_decide_retry(&f, SECOND + pauses[i] * SECOND), DEMAND_LOADS);
    assert_int_not_equal(demand_decide_retry(&f, SECOND + pauses[i] * SECOND - 1), DEMAND_LOADS);
  }
}

static void its_files_are_looked_at_once_a_second(void **state)
{
  (void)state;
  demand_failures f = {.count = 5, .failed_ns = SECOND, .looked_ns = SECOND};
  assert_int_equal(demand_decide_retry(&f, 2 * SECOND - 1), DEMAND_REFUSES);
  assert_int_equal(demand_decide_retry(&f, 2 * SECOND), DEMAND_LOADS_CHANGED);
  f.looked_ns = 2 * SECOND;
  assert_int_equal(demand_decide_retry(&f, 3 * SECOND - 1), DEMAND_REFUSES);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(without_a_budget_everything_fits),
      cmocka_unit_test(what_fits_evicts_nobody),
      cmocka_unit_test(the_longest_unused_go_and_no_more_than_needed),
      cmocka_unit_test(those_in_use_and_pinned_stay),
      cmocka_unit_test(it_waits_for_what_leaves_and_evicts_nobody_else),
      cmocka_unit_test(loads_under_way_count),
      cmocka_unit_test(waiting_ends),
      cmocka_unit_test(nobody_waits_for_what_never_goes),
      cmocka_unit_test(too_large_a_model_has_the_others_go_first),
      cmocka_unit_test(the_last_used_one_stays_where_none_is_wanted),
      cmocka_unit_test(an_ensemble_that_was_used_last_stays_with_its_steps),
      cmocka_unit_test(what_nobody_has_used_goes),
      cmocka_unit_test(sums_do_not_overflow),
      cmocka_unit_test(a_broken_model_is_tried_more_and_more_seldom),
      cmocka_unit_test(its_files_are_looked_at_once_a_second),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// What a client holds in small things, beside the budget that it counts for.
#include "frontend/common/net/budget_share.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define COST ((size_t)6 << 10)

static void the_first_of_a_client_are_free(void **state)
{
  (void)state;
  byte_budget budget = {.limit = 0}; // others have all of it
  budget_share share = {.budget = &budget};
  size_t taken = 0;
  while (budget_share_take(&share, COST, budget_take_work))
    taken += COST;
  assert_true(taken <= BUDGET_FREE_BYTES && taken + COST > BUDGET_FREE_BYTES);
  assert_int_equal(budget.used, 0);
  budget_share_give_back(&share, taken);
  assert_int_equal(share.held, 0);
}

static void what_goes_beyond_counts_and_comes_back(void **state)
{
  (void)state;
  byte_budget budget = {.limit = 1 << 20};
  budget_share share = {.budget = &budget};
  for (size_t held = COST; held <= 100 * COST; held += COST) {
    assert_true(budget_share_take(&share, COST, budget_take_work));
    size_t beyond = held > BUDGET_FREE_BYTES ? held - BUDGET_FREE_BYTES : 0;
    assert_true(budget.used >= beyond && budget.used < beyond + BUDGET_STEP_BYTES);
  }
  for (int i = 0; i < 100; i++)
    budget_share_give_back(&share, COST);
  assert_int_equal(budget.used, 0);
}

static void a_refusal_changes_nothing(void **state)
{
  (void)state;
  byte_budget budget = {.limit = 1 << 20};
  budget_share share = {.budget = &budget};
  while (budget_share_take(&share, COST, budget_take_work))
    ;
  size_t held = share.held, used = budget.used;
  assert_true(used <= 2 * budget.limit && used + COST + BUDGET_STEP_BYTES > 2 * budget.limit);
  assert_false(budget_share_take(&share, COST, budget_take_work));
  assert_int_equal(share.held, held);
  assert_int_equal(budget.used, used);
}

static void a_refusal_has_room_where_answers_have_none(void **state)
{
  (void)state;
  byte_budget budget = {.limit = 1 << 20};
  budget_share share = {.budget = &budget}, other = {.budget = &budget};
  while (budget_share_take(&share, COST, budget_take_work))
    ;
  size_t refusals = 0;
  while (budget_share_take(&other, COST, budget_take_refusal))
    refusals += COST;
  assert_true(refusals > BUDGET_FREE_BYTES && refusals <= BUDGET_FREE_BYTES + budget.limit / 8);
}

#define THREADS 4
#define ROUNDS  20000

static byte_budget common = {.limit = 200 << 10};
static budget_share of_all = {.budget = &common};

static void *take_and_give(void *seed_pointer)
{
  unsigned seed = *(unsigned *)seed_pointer;
  for (int i = 0; i < ROUNDS; i++) {
    size_t size = (size_t)rand_r(&seed) % (96 << 10);
    if (budget_share_take(&of_all, size, i % 2 == 0 ? budget_take_work : budget_take_input))
      budget_share_give_back(&of_all, size);
  }
  return NULL;
}

// With refusals among them.
static void threads_leave_nothing_behind(void **state)
{
  (void)state;
  pthread_t threads[THREADS];
  unsigned seeds[THREADS];
  for (unsigned i = 0; i < THREADS; i++) {
    seeds[i] = i;
    assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, &seeds[i]), 0);
  }
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  assert_int_equal(of_all.held, 0);
  assert_int_equal(common.used, 0);
}

static byte_budget large = {.limit = 1 << 30};
static budget_share of_few = {.budget = &large};

static void *take_what_there_is(void *refusals)
{
  for (int i = 0; i < ROUNDS; i++) {
    if (budget_share_take(&of_few, COST + BUDGET_FREE_BYTES, budget_take_work))
      budget_share_give_back(&of_few, COST + BUDGET_FREE_BYTES);
    else
      *(int *)refusals += 1;
  }
  return NULL;
}

// Also while one of them gives back what another one has not added to the budget yet.
static void threads_are_not_refused_what_there_is(void **state)
{
  (void)state;
  pthread_t threads[THREADS];
  int refusals[THREADS] = {0};
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, take_what_there_is, &refusals[i]), 0);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(refusals[i], 0);
  assert_int_equal(large.used, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_first_of_a_client_are_free),
      cmocka_unit_test(what_goes_beyond_counts_and_comes_back),
      cmocka_unit_test(a_refusal_changes_nothing),
      cmocka_unit_test(a_refusal_has_room_where_answers_have_none),
      cmocka_unit_test(threads_leave_nothing_behind),
      cmocka_unit_test(threads_are_not_refused_what_there_is),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

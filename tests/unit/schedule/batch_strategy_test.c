// SPDX-License-Identifier: Apache-2.0
// What idle instances take where a custom strategy has a say: as batch_policy_test.c, and how the
// strategy is called.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "batch_simulation.h"

#include <stdlib.h>

static const setting strategy_settings[] = {
    {.name = "strategy, delay",
     .max_batch = 4,
     .preferred = {0},
     .delay = 3,
     .workers = 1,
     .service = 1,
     .max_volume = 10,
     .poll_each_arrival = true},
    {.name = "strategy, no delay, two instances",
     .max_batch = 4,
     .preferred = {0},
     .workers = 2,
     .service = 3,
     .max_volume = 10},
    {.name = "strategy, preferred 2 of 4",
     .max_batch = 4,
     .preferred = {2},
     .delay = 4,
     .workers = 1,
     .service = 2,
     .max_volume = 10,
     .poll_each_arrival = true},
    {.name = "strategy, priorities, timeouts",
     .max_batch = 4,
     .preferred = {3},
     .delay = 4,
     .levels = 2,
     .default_level = 2,
     .timeout = 5,
     .override = true,
     .action = TIMEOUT_REJECT,
     .workers = 1,
     .service = 2,
     .max_volume = 10,
     .poll_each_arrival = true},
    {.name = "strategy, priorities, timeouts that delay",
     .max_batch = 4,
     .preferred = {0},
     .delay = 3,
     .levels = 2,
     .default_level = 1,
     .timeout = 2,
     .override = true,
     .action = TIMEOUT_DELAY,
     .workers = 1,
     .service = 3,
     .max_volume = 10,
     .poll_each_arrival = true},
};

static void every_small_history_with_a_strategy_gives_the_promised_batches(void **state)
{
  (void)state;
  static const choices from = {.gaps = {0, 1},
                               .gap_count = 2,
                               .rows = {1, 2},
                               .row_count = 2,
                               .key_count = 1,
                               .priorities = {0, 1},
                               .priority_count = 2,
                               .timeout_count = 1,
                               .cancel_count = 1,
                               .volumes = {3, 7, 11},
                               .volume_count = 3};
  assert_true(simulate_all(strategy_settings, COUNT(strategy_settings), &from, 3) > 30000);
}

// As many as NEREID_HISTORIES says.
static void random_long_histories_with_a_strategy_give_the_promised_batches(void **state)
{
  (void)state;
  const char *wanted = getenv("NEREID_HISTORIES");
  unsigned long histories = wanted != NULL ? strtoul(wanted, NULL, 10) : 4000;
  unsigned seed = 17;
  for (unsigned long h = 0; h < histories; h++) {
    arrival arrivals[MAX_ITEMS];
    unsigned now = 1;
    for (size_t i = 0; i < MAX_ITEMS; i++) {
      now += (unsigned)rand_r(&seed) % 3;
      arrivals[i] = (arrival){.at = now,
                              .rows = (unsigned)rand_r(&seed) % 4,
                              .key = rand_r(&seed) % 4 == 0 ? 'B' : 'A',
                              .priority = (unsigned)rand_r(&seed) % 3,
                              .timeout = (unsigned)rand_r(&seed) % 4,
                              .cancel = rand_r(&seed) % 8 == 0 ? now + 1 : 0,
                              .volume = (unsigned)rand_r(&seed) % 12};
    }
    for (size_t c = 0; c < COUNT(strategy_settings); c++)
      simulate(&strategy_settings[c], arrivals, MAX_ITEMS);
  }
}

static void a_strategy_is_asked_once_about_each_request_of_a_batch_that_waits(void **state)
{
  (void)state;
  static const arrival arrivals[] = {{.at = 1, .rows = 1, .key = 'A', .volume = 1},
                                     {.at = 2, .rows = 1, .key = 'A', .volume = 1},
                                     {.at = 3, .rows = 1, .key = 'A', .volume = 1}};
  static const setting one = {.max_batch = 4, .max_volume = 10, .workers = 1};
  simulation sim = {.setting = &one, .arrivals = arrivals, .count = 3};
  sim.reference.setting = &one;
  sim.strategy = sim_strategy(&sim);
  scheduler_config config = {.dynamic_batching = true,
                             .max_batch_size = 4,
                             .max_queue_delay_us = 10,
                             .strategy = &sim.strategy};
  assert_null(scheduler_new(&config, sim_clock_of(&sim), NULL, sim_refuse, &sim, &sim.scheduler));
  queue_item *taken[MAX_ITEMS];
  batch_close_reason reason;
  uint64_t until_ns;
  for (size_t i = 0; i < 3; i++) {
    sim.now_ns = (arrivals[i].at + 1000) * TICK_NS;
    sim_arrive(&sim, i);
    assert_int_equal(sim_take(&sim, taken, &reason, &until_ns), 0);
    assert_int_equal(sim.asked, i + 1);
    assert_int_equal(sim.begun_count, 1);
  }
  assert_true(scheduler_cancel(sim.scheduler, &sim.items[1].item)); // what was said is over
  sim.reference.items[1].fate = CANCELLED;
  assert_false(sim.forming);
  sim.now_ns += 20 * TICK_NS;
  assert_int_equal(sim_take(&sim, taken, &reason, &until_ns), 2);
  assert_int_equal(reason, BATCH_CLOSED_DELAY);
  assert_int_equal(sim.begun_count, 2);
  assert_false(sim.forming);
  scheduler_free(sim.scheduler);
}

// Else it would wait for more than the strategy may allow, while something is queued.
static void nobody_lingers_for_a_batch_that_a_strategy_forms(void **state)
{
  (void)state;
  static const setting one = {.max_batch = 4, .max_volume = 10, .workers = 1};
  simulation sim = {.setting = &one};
  sim.reference.setting = &one;
  sim.strategy = sim_strategy(&sim);
  scheduler_config config = {
      .dynamic_batching = true, .max_batch_size = 4, .strategy = &sim.strategy};
  assert_null(scheduler_new(&config, clock_system(), NULL, sim_refuse, &sim, &sim.scheduler));
  assert_true(scheduler_linger(sim.scheduler, 2, CLOCK_NEVER)); // or for ever
  scheduler_free(sim.scheduler);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_small_history_with_a_strategy_gives_the_promised_batches),
      cmocka_unit_test(random_long_histories_with_a_strategy_give_the_promised_batches),
      cmocka_unit_test(nobody_lingers_for_a_batch_that_a_strategy_forms),
      cmocka_unit_test(a_strategy_is_asked_once_about_each_request_of_a_batch_that_waits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

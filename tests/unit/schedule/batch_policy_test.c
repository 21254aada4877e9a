// SPDX-License-Identifier: Apache-2.0
// What idle instances take: examples in words, and every small history of arrivals, sizes, keys,
// priorities, timeouts, cancellations and completions, simulated with an injected clock and
// compared with a second statement of the documented policy that shares no code with the first.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "batch_simulation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void every_small_history_of_sizes_and_shapes_gives_the_promised_batches(void **state)
{
  (void)state;
  static const setting settings[] = {
      {.name = "no delay",
       .max_batch = 4,
       .preferred = {0},
       .delay = 0,
       .workers = 1,
       .service = 2},
      {.name = "no delay, two instances",
       .max_batch = 4,
       .preferred = {0},
       .delay = 0,
       .workers = 2,
       .service = 3,
       .poll_each_arrival = true},
      {.name = "preferred 2",
       .max_batch = 4,
       .preferred = {2},
       .delay = 0,
       .workers = 1,
       .service = 2},
      {.name = "delay",
       .max_batch = 4,
       .preferred = {0},
       .delay = 2,
       .workers = 1,
       .service = 1,
       .poll_each_arrival = true},
      {.name = "delay, busy",
       .max_batch = 4,
       .preferred = {0},
       .delay = 3,
       .workers = 1,
       .service = 4},
      {.name = "delay, preferred 2 and 3",
       .max_batch = 4,
       .preferred = {2, 3},
       .delay = 2,
       .workers = 1,
       .service = 2},
      {.name = "delay, preferred 3, two instances",
       .max_batch = 4,
       .preferred = {3},
       .delay = 4,
       .workers = 2,
       .service = 3,
       .poll_each_arrival = true},
      {.name = "batches of one",
       .max_batch = 1,
       .preferred = {0},
       .delay = 2,
       .workers = 2,
       .service = 1},
  };
  static const choices from = {.gaps = {0, 1, 3},
                               .gap_count = 3,
                               .rows = {1, 2, 3},
                               .row_count = 3,
                               .key_count = 2,
                               .priority_count = 1,
                               .timeout_count = 1,
                               .cancel_count = 1};
  assert_true(simulate_all(settings, COUNT(settings), &from, 4) > 100000);
}

static void every_small_history_of_large_and_empty_requests_gives_the_promised_batches(void **state)
{
  (void)state;
  static const setting settings[] = {
      {.name = "preferred 2 and 6 of 8",
       .max_batch = 8,
       .preferred = {2, 6},
       .delay = 3,
       .workers = 1,
       .service = 1},
      {.name = "preferred 2 and 6 of 8, each",
       .max_batch = 8,
       .preferred = {2, 6},
       .delay = 3,
       .workers = 1,
       .service = 4,
       .poll_each_arrival = true},
      {.name = "preferred 4 of 8, no delay",
       .max_batch = 8,
       .preferred = {4},
       .delay = 0,
       .workers = 1,
       .service = 2},
  };
  static const choices from = {.gaps = {0, 1, 2},
                               .gap_count = 3,
                               .rows = {0, 3, 4, 7},
                               .row_count = 4,
                               .key_count = 1,
                               .priority_count = 1,
                               .timeout_count = 1,
                               .cancel_count = 1};
  assert_true(simulate_all(settings, COUNT(settings), &from, 4) > 15000);
}

static void every_small_history_of_priorities_gives_the_promised_batches(void **state)
{
  (void)state;
  static const setting settings[] = {
      {.name = "priorities",
       .max_batch = 3,
       .preferred = {0},
       .delay = 0,
       .levels = 2,
       .default_level = 2,
       .workers = 1,
       .service = 3},
      {.name = "priorities, delay",
       .max_batch = 4,
       .preferred = {2},
       .delay = 3,
       .levels = 2,
       .default_level = 1,
       .workers = 1,
       .service = 2,
       .poll_each_arrival = true},
      {.name = "priorities, caps",
       .max_batch = 3,
       .preferred = {0},
       .delay = 0,
       .levels = 2,
       .default_level = 2,
       .max_queue = 1,
       .workers = 1,
       .service = 3},
      {.name = "very many priorities",
       .max_batch = 3,
       .preferred = {0},
       .delay = 1,
       .levels = 1000000000,
       .default_level = 2,
       .workers = 1,
       .service = 3},
  };
  static const choices from = {.gaps = {0, 1},
                               .gap_count = 2,
                               .rows = {1, 2},
                               .row_count = 2,
                               .key_count = 1,
                               .priorities = {0, 1, 2, 7},
                               .priority_count = 4,
                               .timeout_count = 1,
                               .cancel_count = 1};
  assert_true(simulate_all(settings, COUNT(settings), &from, 4) > 60000);
}

static void every_small_history_of_timeouts_and_cancellations_ends_as_promised(void **state)
{
  (void)state;
  static const setting settings[] = {
      {.name = "reject",
       .max_batch = 3,
       .preferred = {0},
       .delay = 0,
       .timeout = 3,
       .override = true,
       .workers = 1,
       .service = 5},
      {.name = "reject, no override",
       .max_batch = 3,
       .preferred = {0},
       .delay = 2,
       .timeout = 2,
       .workers = 1,
       .service = 3},
      {.name = "delay action",
       .max_batch = 2,
       .preferred = {0},
       .delay = 0,
       .timeout = 3,
       .override = true,
       .action = TIMEOUT_DELAY,
       .workers = 1,
       .service = 4},
      {.name = "delay action and queue delay",
       .max_batch = 3,
       .preferred = {2},
       .delay = 4,
       .levels = 2,
       .default_level = 1,
       .timeout = 2,
       .override = true,
       .action = TIMEOUT_DELAY,
       .workers = 1,
       .service = 3,
       .poll_each_arrival = true},
      {.name = "caps and timeouts",
       .max_batch = 3,
       .preferred = {0},
       .delay = 0,
       .timeout = 2,
       .max_queue = 2,
       .workers = 1,
       .service = 4},
      {.name = "override without a default",
       .max_batch = 3,
       .preferred = {0},
       .delay = 1,
       .override = true,
       .workers = 1,
       .service = 2},
  };
  static const choices from = {.gaps = {0, 1},
                               .gap_count = 2,
                               .rows = {1, 2},
                               .row_count = 2,
                               .key_count = 1,
                               .priorities = {1, 2},
                               .priority_count = 2,
                               .timeouts = {0, 1, 4},
                               .timeout_count = 3,
                               .cancels = {0, 1},
                               .cancel_count = 2};
  assert_true(simulate_all(settings, COUNT(settings), &from, 3) > 100000);
}

// --- Examples in words, after the behaviour that Triton's own tests expect of preferred sizes 2
// and
// --- 6, max_batch_size 8 and a long delay.

static void expect_batches(unsigned delay, const arrival *arrivals, size_t count,
                           const unsigned (*expected)[2], size_t expected_count)
{
  setting c = {.name = "example",
               .max_batch = 8,
               .preferred = {2, 6},
               .delay = delay,
               .workers = 1,
               .service = 0};
  simulate(&c, arrivals, count); // and so the reference agrees

  simulation sim = {.setting = &c, .arrivals = arrivals, .count = count};
  clock_source clock = sim_clock_of(&sim);
  const uint32_t preferred[] = {6, 2};
  scheduler_config config = {.dynamic_batching = true,
                             .max_batch_size = 8,
                             .preferred_batch_sizes = preferred,
                             .preferred_batch_size_count = 2,
                             .max_queue_delay_us = delay};
  assert_null(scheduler_new(&config, clock, NULL, sim_refuse, &sim, &sim.scheduler));
  size_t next = 0, seen = 0;
  for (unsigned tick = 0; tick < 100; tick++) {
    sim.now_ns = (tick + 1000) * TICK_NS;
    while (next < count && arrivals[next].at == tick)
      sim_arrive(&sim, next++);
    queue_item *taken[MAX_ITEMS];
    batch_close_reason reason;
    uint64_t until_ns;
    size_t taken_count;
    while ((taken_count = sim_take(&sim, taken, &reason, &until_ns)) > 0) {
      unsigned rows = 0;
      for (size_t i = 0; i < taken_count; i++) {
        rows += rows_of(&arrivals[((sim_item *)taken[i])->index]);
        sim.reference.items[((sim_item *)taken[i])->index].fate = EXECUTED;
      }
      assert_true(seen < expected_count);
      assert_int_equal(tick, expected[seen][0]);
      assert_int_equal(rows, expected[seen][1]);
      seen++;
    }
  }
  assert_int_equal(seen, expected_count);
  scheduler_free(sim.scheduler);
}

#define EXPECT_BATCHES(delay, arrivals, expected)                                                  \
  expect_batches(delay, arrivals, COUNT(arrivals), expected, COUNT(expected))

static void requests_below_a_preferred_size_wait_for_the_delay(void **state)
{
  (void)state;
  const arrival arrivals[] = {AT(1, 1, 'A'), AT(4, 3, 'A')};
  const unsigned batches[][2] = {{11, 4}};
  EXPECT_BATCHES(10, arrivals, batches);
}

static void a_preferred_size_leaves_at_once_and_the_largest_one_wins(void **state)
{
  (void)state;
  const arrival arrivals[] = {AT(1, 1, 'A'), AT(1, 1, 'A'), AT(1, 1, 'A'), AT(1, 1, 'A'),
                              AT(1, 1, 'A'), AT(1, 1, 'A'), AT(1, 1, 'A')};
  const unsigned batches[][2] = {{1, 6}, {11, 1}};
  EXPECT_BATCHES(10, arrivals, batches);
}

static void another_shape_closes_the_batch(void **state)
{
  (void)state;
  const arrival arrivals[] = {AT(1, 1, 'A'), AT(1, 3, 'A'), AT(3, 1, 'B'), AT(5, 5, 'B')};
  const unsigned batches[][2] = {{3, 4}, {5, 6}};
  EXPECT_BATCHES(10, arrivals, batches);
}

static void passing_the_largest_preferred_size_sends_what_came_before(void **state)
{
  (void)state;
  const arrival arrivals[] = {AT(1, 3, 'A'), AT(2, 4, 'A')};
  const unsigned batches[][2] = {{2, 3}, {12, 4}};
  EXPECT_BATCHES(10, arrivals, batches);
}

static void a_request_above_the_largest_preferred_size_does_not_wait(void **state)
{
  (void)state;
  const arrival arrivals[] = {AT(1, 3, 'A'), AT(2, 7, 'A')};
  const unsigned batches[][2] = {{2, 3}, {2, 7}};
  EXPECT_BATCHES(10, arrivals, batches);
}

static void what_waited_while_the_instance_was_busy_leaves_as_one_batch(void **state)
{
  (void)state;
  // The instance is first idle after the delay of the first two: all that fits goes.
  const arrival arrivals[] = {AT(1, 3, 'A'), AT(1, 4, 'A'), AT(12, 1, 'A')};
  setting c = {
      .name = "busy", .max_batch = 8, .preferred = {2, 6}, .delay = 10, .workers = 1, .service = 1};
  simulation sim = {.setting = &c, .arrivals = arrivals, .count = 3};
  const uint32_t preferred[] = {2, 6};
  scheduler_config config = {.dynamic_batching = true,
                             .max_batch_size = 8,
                             .preferred_batch_sizes = preferred,
                             .preferred_batch_size_count = 2,
                             .max_queue_delay_us = 10};
  assert_null(scheduler_new(&config, sim_clock_of(&sim), NULL, sim_refuse, &sim, &sim.scheduler));
  for (size_t i = 0; i < 3; i++) {
    sim.now_ns = (arrivals[i].at + 1000) * TICK_NS;
    sim_arrive(&sim, i);
  }
  queue_item *taken[MAX_ITEMS];
  batch_close_reason reason;
  uint64_t until_ns;
  assert_int_equal(sim_take(&sim, taken, &reason, &until_ns), 3);
  assert_int_equal(reason, BATCH_CLOSED_FULL);
  assert_int_equal(scheduler_closed_batches(sim.scheduler, BATCH_CLOSED_FULL), 1);
  scheduler_free(sim.scheduler);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_small_history_of_sizes_and_shapes_gives_the_promised_batches),
      cmocka_unit_test(every_small_history_of_large_and_empty_requests_gives_the_promised_batches),
      cmocka_unit_test(every_small_history_of_priorities_gives_the_promised_batches),
      cmocka_unit_test(every_small_history_of_timeouts_and_cancellations_ends_as_promised),
      cmocka_unit_test(requests_below_a_preferred_size_wait_for_the_delay),
      cmocka_unit_test(a_preferred_size_leaves_at_once_and_the_largest_one_wins),
      cmocka_unit_test(another_shape_closes_the_batch),
      cmocka_unit_test(passing_the_largest_preferred_size_sends_what_came_before),
      cmocka_unit_test(a_request_above_the_largest_preferred_size_does_not_wait),
      cmocka_unit_test(what_waited_while_the_instance_was_busy_leaves_as_one_batch),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// What idle instances take: examples in words, and every small history of arrivals, sizes, keys,
// priorities, timeouts, cancellations and completions, simulated with an injected clock and
// compared with a second statement of the documented policy that shares no code with the first.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "batch_reference.h"
#include "schedule_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICK_NS     1000u // one tick is a microsecond: delays and timeouts are given in those
#define MAX_WORKERS 2

#define AT(tick, rows_, key_)                                                                      \
  {                                                                                                \
    .at = (tick), .rows = (rows_), .key = (key_)                                                   \
  }

// --- The simulation

typedef struct sim_item {
  queue_item item;
  size_t index;
} sim_item;

typedef struct simulation {
  const setting *setting;
  const arrival *arrivals;
  size_t count;
  uint64_t now_ns;
  timekeeper *timekeeper;
  scheduler *scheduler;
  sim_item items[MAX_ITEMS];
  unsigned busy_until[MAX_WORKERS];
  reference reference;
} simulation;

static uint64_t sim_clock(void *context)
{
  return ((simulation *)context)->now_ns;
}

static const char *history_text(const simulation *sim)
{
  static char text[2000];
  size_t size = (size_t)snprintf(text, sizeof(text), "%s: ", sim->setting->name);
  for (size_t i = 0; i < sim->count; i++) {
    const arrival *a = &sim->arrivals[i];
    size += (size_t)snprintf(text + size, sizeof(text) - size,
                             "[at %u rows %u key %c priority %u timeout %u cancel %u] ", a->at,
                             a->rows, a->key, a->priority, a->timeout, a->cancel);
  }
  snprintf(text + size, sizeof(text) - size, "at tick %u",
           (unsigned)(sim->now_ns / TICK_NS) - 1000);
  return text;
}

#define CHECK(sim, condition)                                                                      \
  do {                                                                                             \
    if (!(condition))                                                                              \
      fail_msg("%s: %s", #condition, history_text(sim));                                           \
  } while (0)

static unsigned sim_tick(const simulation *sim)
{
  return (unsigned)(sim->now_ns / TICK_NS) - 1000;
}

static void sim_refuse(void *context, queue_item *item, refusal reason)
{
  simulation *sim = context;
  sim_item *it = (sim_item *)item;
  model_item *m = &sim->reference.items[it->index];
  CHECK(sim, reason == REFUSAL_TIMEOUT);
  CHECK(sim, m->fate == TIMED_OUT && item->state == ITEM_OUTSIDE);
}

// Both sides apply what expires at this tick; the reference first, since refusals are checked
// against it.
static void sim_expire(simulation *sim)
{
  unsigned now = sim_tick(sim);
  for (unsigned due = 0; due <= now; due++) { // in order of deadline, then of arrival
    for (size_t i = 0; i < sim->reference.count; i++) {
      model_item *m = &sim->reference.items[i];
      if (m->arrival == NULL || m->fate != WAITING || expiry_of(sim->setting, m->arrival) != due ||
          due == 0)
        continue;
      m->fate = sim->setting->action == TIMEOUT_REJECT ? TIMED_OUT : DELAYED;
      m->delayed_order = sim->reference.delayed_orders++;
    }
  }
  fire_now(sim->timekeeper);
}

static void sim_arrive(simulation *sim, size_t i)
{
  const arrival *a = &sim->arrivals[i];
  sim_item *it = &sim->items[i];
  *it = (sim_item){.index = i,
                   .item = {.batch_size = a->rows,
                            .priority = a->priority,
                            .timeout_us = a->timeout,
                            .batch_key = {&a->key, 1}}};
  unsigned in_level = 0;
  for (size_t j = 0; j < i; j++)
    in_level += is_waiting(&sim->reference.items[j]) &&
                level_of(sim->setting, &sim->arrivals[j]) == level_of(sim->setting, a);
  refusal reason;
  bool expected = sim->setting->max_queue == 0 || in_level < sim->setting->max_queue;
  bool queued = scheduler_enqueue(sim->scheduler, &it->item, &reason);
  CHECK(sim, queued == expected);
  CHECK(sim, queued || reason == REFUSAL_QUEUE_FULL);
  sim->reference.items[i] = (model_item){.arrival = a, .fate = queued ? WAITING : FULL};
  sim->reference.count = i + 1;
}

static void sim_cancel(simulation *sim)
{
  for (size_t i = 0; i < sim->reference.count; i++) {
    model_item *m = &sim->reference.items[i];
    if (m->arrival->cancel != sim_tick(sim) || m->arrival->cancel == 0)
      continue;
    bool expected = is_waiting(m);
    CHECK(sim, scheduler_cancel(sim->scheduler, &sim->items[i].item) == expected);
    if (expected)
      m->fate = CANCELLED;
  }
}

// Lets every idle instance look for work, and compares each answer with the promise.
static void sim_poll(simulation *sim)
{
  unsigned now = sim_tick(sim);
  for (size_t worker = 0; worker < sim->setting->workers; worker++) {
    if (sim->busy_until[worker] > now)
      continue;
    promise expected = reference_promise(&sim->reference, now);
    size_t order[MAX_ITEMS];
    size_t waiting = reference_order(&sim->reference, order);
    queue_item *taken[MAX_ITEMS];
    batch_close_reason reason = BATCH_CLOSE_REASON_COUNT;
    uint64_t until_ns = 0;
    size_t count = take_now(sim->scheduler, taken, MAX_ITEMS, &reason, &until_ns);
    CHECK(sim, count == expected.count);
    CHECK(sim, scheduler_pending(sim->scheduler) == waiting - count);
    unsigned rows = 0;
    for (size_t i = 0; i < count; i++) {
      size_t index = ((sim_item *)taken[i])->index;
      CHECK(sim, index == order[i]);
      sim->reference.items[index].fate = EXECUTED;
      rows += rows_of(&sim->arrivals[index]);
    }
    if (count > 0) {
      CHECK(sim, rows <= sim->setting->max_batch || count == 1);
      CHECK(sim, (reason == BATCH_CLOSED_FULL) == (rows >= sim->setting->max_batch));
      CHECK(sim, reason != BATCH_CLOSED_PREFERRED || in_preferred(sim->setting, rows));
      CHECK(sim, reason != BATCH_CLOSED_DELAY || sim->setting->delay != 0);
      CHECK(sim, reason != BATCH_CLOSED_IDLE || sim->setting->delay == 0);
      CHECK(sim, (reason != BATCH_CLOSED_SHAPE && reason != BATCH_CLOSED_SIZE) || count < waiting ||
                     rows > largest_preferred(sim->setting));
      sim->busy_until[worker] = now + sim->setting->service;
    } else {
      CHECK(sim, until_ns == (waiting > 0 ? (expected.until + 1000ull) * TICK_NS : CLOCK_NEVER));
    }
  }
}

static void simulate(const setting *c, const arrival *arrivals, size_t count)
{
  simulation sim = {.setting = c, .arrivals = arrivals, .count = count};
  sim.reference.setting = c;
  clock_source clock = {sim_clock, &sim};
  uint32_t preferred[3];
  size_t preferred_count = 0;
  for (; preferred_count < 3 && c->preferred[preferred_count] != 0; preferred_count++)
    preferred[preferred_count] = c->preferred[preferred_count];
  scheduler_config config = {.dynamic_batching = true,
                             .max_batch_size = c->max_batch,
                             .preferred_batch_sizes = preferred,
                             .preferred_batch_size_count = preferred_count,
                             .max_queue_delay_us = c->delay,
                             .queue = {.priority_levels = c->levels,
                                       .default_priority_level = c->default_level,
                                       .default_policy = {.action = c->action,
                                                          .default_timeout_us = c->timeout,
                                                          .allow_timeout_override = c->override,
                                                          .max_queue_size = c->max_queue}}};
  sim.now_ns = 1000 * TICK_NS;
  assert_null(make_timekeeper(clock, &sim.timekeeper));
  assert_null(scheduler_new(&config, clock, sim.timekeeper, sim_refuse, &sim, &sim.scheduler));

  unsigned bound = arrivals[count - 1].at + c->delay + (unsigned)(count + 1) * c->service + 1;
  size_t next = 0;
  for (unsigned tick = 0; tick <= bound; tick++) {
    sim.now_ns = (tick + 1000) * TICK_NS;
    sim_expire(&sim);
    sim_cancel(&sim);
    while (next < count && arrivals[next].at == tick) {
      sim_arrive(&sim, next++);
      if (c->poll_each_arrival)
        sim_poll(&sim);
    }
    sim_poll(&sim);
  }
  for (size_t i = 0; i < count; i++) // nothing starves, nothing is lost
    CHECK(&sim, sim.reference.items[i].fate != WAITING && sim.reference.items[i].fate != DELAYED);
  CHECK(&sim, scheduler_pending(sim.scheduler) == 0);
  scheduler_free(sim.scheduler);
  timekeeper_free(sim.timekeeper);
}

// --- Every small history: each item takes each combination of the choices.

typedef struct choices {
  unsigned gaps[4], rows[4], priorities[4], timeouts[4], cancels[4];
  size_t gap_count, row_count, key_count, priority_count, timeout_count, cancel_count;
} choices;

static size_t digit(size_t *number, size_t base)
{
  size_t value = *number % base;
  *number /= base;
  return value;
}

static size_t simulate_all(const setting *settings, size_t setting_count, const choices *from,
                           size_t items)
{
  size_t per_item = from->gap_count * from->row_count * from->key_count * from->priority_count *
                    from->timeout_count * from->cancel_count;
  size_t histories = 1;
  for (size_t i = 0; i < items; i++)
    histories *= per_item;
  size_t simulated = 0;
  for (size_t h = 0; h < histories; h++) {
    arrival arrivals[MAX_ITEMS];
    size_t rest = h;
    unsigned now = 0;
    bool skip = false;
    for (size_t i = 0; i < items; i++) {
      size_t gap = digit(&rest, from->gap_count);
      now += i == 0 ? 1 : from->gaps[gap];
      arrivals[i].at = now;
      arrivals[i].rows = from->rows[digit(&rest, from->row_count)];
      size_t key = digit(&rest, from->key_count);
      arrivals[i].key = (char)('A' + key);
      arrivals[i].priority = from->priorities[digit(&rest, from->priority_count)];
      arrivals[i].timeout = from->timeouts[digit(&rest, from->timeout_count)];
      unsigned cancel = from->cancels[digit(&rest, from->cancel_count)];
      arrivals[i].cancel = cancel == 0 ? 0 : now + cancel;
      skip = skip || (i == 0 && (gap != 0 || key != 0)); // the same history under another name
    }
    if (skip)
      continue;
    for (size_t c = 0; c < setting_count; c++, simulated++)
      simulate(&settings[c], arrivals, items);
  }
  return simulated;
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

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
  clock_source clock = {sim_clock, &sim};
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
    while ((taken_count = take_now(sim.scheduler, taken, MAX_ITEMS, &reason, &until_ns)) > 0) {
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
  assert_null(scheduler_new(&config, (clock_source){sim_clock, &sim}, NULL, sim_refuse, &sim,
                            &sim.scheduler));
  for (size_t i = 0; i < 3; i++) {
    sim.now_ns = (arrivals[i].at + 1000) * TICK_NS;
    sim_arrive(&sim, i);
  }
  queue_item *taken[MAX_ITEMS];
  batch_close_reason reason;
  uint64_t until_ns;
  assert_int_equal(take_now(sim.scheduler, taken, MAX_ITEMS, &reason, &until_ns), 3);
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

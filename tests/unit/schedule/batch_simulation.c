// SPDX-License-Identifier: Apache-2.0
// See batch_simulation.h.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "batch_simulation.h"
#include "schedule_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
                             "[at %u rows %u key %c priority %u timeout %u cancel %u volume %u] ",
                             a->at, a->rows, a->key, a->priority, a->timeout, a->cancel, a->volume);
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

// --- The custom strategy, which checks how it is called.

static void volume_begin(void *context, void **batch)
{
  simulation *sim = context;
  CHECK(sim, !sim->forming);
  sim->forming = true;
  sim->is_full = false;
  sim->asked = 0;
  sim->volume = 0;
  sim->begun_count++;
  *batch = &sim->volume;
}

static bool volume_include(void *context, void *batch, queue_item *item)
{
  simulation *sim = context;
  size_t index = ((sim_item *)item)->index, order[MAX_ITEMS];
  CHECK(sim, sim->forming && !sim->is_full && batch == &sim->volume);
  CHECK(sim, reference_order(&sim->reference, order) > sim->asked && order[sim->asked] == index);
  unsigned volume = sim->volume + sim->arrivals[index].volume;
  sim->is_full = volume > sim->setting->max_volume;
  if (sim->is_full)
    return false;
  sim->volume = volume;
  sim->asked++;
  return true;
}

static void volume_end(void *context, void *batch)
{
  simulation *sim = context;
  CHECK(sim, sim->forming && batch == &sim->volume);
  sim->forming = false;
}

void sim_refuse(void *context, queue_item *item, refusal reason)
{
  simulation *sim = context;
  sim_item *it = (sim_item *)item;
  model_item *m = &sim->reference.items[it->index];
  CHECK(sim, reason == REFUSAL_TIMEOUT);
  CHECK(sim, m->fate == TIMED_OUT && item->state == ITEM_OUTSIDE);
}

// The first of those that wait and expire at this tick or before: by deadline, then by arrival.
static model_item *first_expired(simulation *sim)
{
  model_item *first = NULL;
  unsigned before = sim_tick(sim) + 1;
  for (size_t i = 0; i < sim->reference.count; i++) {
    model_item *m = &sim->reference.items[i];
    unsigned due = m->fate == WAITING ? expiry_of(sim->setting, m->arrival) : 0; // 0: never
    if (due != 0 && due < before) {
      first = m;
      before = due;
    }
  }
  return first;
}

// Both sides apply what expires at this tick; the reference first, since refusals are checked
// against it.
static void sim_expire(simulation *sim)
{
  for (model_item *m; (m = first_expired(sim)) != NULL;) {
    m->fate = sim->setting->action == TIMEOUT_REJECT ? TIMED_OUT : DELAYED;
    m->delayed_order = sim->reference.delayed_orders++;
  }
  fire_now(sim->timekeeper);
}

void sim_arrive(simulation *sim, size_t i)
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

batch_strategy sim_strategy(simulation *sim)
{
  return (batch_strategy){volume_begin, volume_include, volume_end, sim};
}

clock_source sim_clock_of(simulation *sim)
{
  return (clock_source){sim_clock, sim};
}

size_t sim_take(simulation *sim, queue_item *taken[MAX_ITEMS], batch_close_reason *reason,
                uint64_t *until_ns)
{
  return take_now(sim->scheduler, taken, MAX_ITEMS, reason, until_ns);
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
    size_t count = sim_take(sim, taken, &reason, &until_ns);
    CHECK(sim, count == expected.count);
    CHECK(sim, scheduler_pending(sim->scheduler) == waiting - count);
    unsigned rows = 0;
    for (size_t i = 0; i < count; i++) {
      size_t index = ((sim_item *)taken[i])->index;
      CHECK(sim, index == order[i]);
      sim->reference.items[index].fate = EXECUTED;
      rows += rows_of(&sim->arrivals[index]);
    }
    CHECK(sim, !sim->forming || (count == 0 && waiting > 0));
    if (count > 0) {
      CHECK(sim, (reason != BATCH_CLOSED_STRATEGY) ||
                     (sim->setting->max_volume != 0 && sim->is_full && count <= sim->asked + 1));
      CHECK(sim, rows <= sim->setting->max_batch || count == 1);
      CHECK(sim, reason != BATCH_CLOSED_FULL || rows >= sim->setting->max_batch);
      CHECK(sim, reason == BATCH_CLOSED_FULL || rows < sim->setting->max_batch ||
                     (reason == BATCH_CLOSED_STRATEGY && count == 1));
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

void simulate(const setting *c, const arrival *arrivals, size_t count)
{
  simulation sim = {.setting = c, .arrivals = arrivals, .count = count};
  sim.reference.setting = c;
  clock_source clock = sim_clock_of(&sim);
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
  sim.strategy = sim_strategy(&sim);
  config.strategy = c->max_volume != 0 ? &sim.strategy : NULL;
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
  CHECK(&sim, scheduler_pending(sim.scheduler) == 0 && !sim.forming);
  scheduler_free(sim.scheduler);
  timekeeper_free(sim.timekeeper);
}

// --- Every small history

static size_t digit(size_t *number, size_t base)
{
  size_t value = *number % base;
  *number /= base;
  return value;
}

size_t simulate_all(const setting *settings, size_t setting_count, const choices *from,
                    size_t items)
{
  size_t per_item = from->gap_count * from->row_count * from->key_count * from->priority_count *
                    from->timeout_count * from->cancel_count;
  if (from->volume_count > 0)
    per_item *= from->volume_count;
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
      arrivals[i].volume =
          from->volume_count > 0 ? from->volumes[digit(&rest, from->volume_count)] : 0;
      skip = skip || (i == 0 && (gap != 0 || key != 0)); // the same history under another name
    }
    if (skip)
      continue;
    for (size_t c = 0; c < setting_count; c++, simulated++)
      simulate(&settings[c], arrivals, items);
  }
  return simulated;
}

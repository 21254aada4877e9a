// SPDX-License-Identifier: Apache-2.0
// Histories of a scheduler, simulated with an injected clock and compared with what was promised
// (batch_reference.h). For batch_policy_test.c and batch_strategy_test.c.
#ifndef NEREID_TESTS_BATCH_SIMULATION_H
#define NEREID_TESTS_BATCH_SIMULATION_H

#include "batch_reference.h"
#include "schedule/scheduler.h"

#define TICK_NS     1000u // one tick is a microsecond: delays and timeouts are given in those
#define MAX_WORKERS 2

#define AT(tick, rows_, key_)                                                                      \
  {                                                                                                \
    .at = (tick), .rows = (rows_), .key = (key_)                                                   \
  }

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
  batch_strategy strategy;
  bool forming;       // a batch of the strategy
  size_t asked;       // how many items belong to it
  unsigned volume;    // that they have
  bool is_full;       // it refused one, and is not to be asked again
  size_t begun_count; // batches
} simulation;

// A clock that stands where the simulation is.
clock_source sim_clock_of(simulation *sim);
void sim_refuse(void *context, queue_item *item, refusal reason);
void sim_arrive(simulation *sim, size_t i);
// What an idle worker gets now.
size_t sim_take(simulation *sim, queue_item *taken[MAX_ITEMS], batch_close_reason *reason,
                uint64_t *until_ns);
// The strategy that the volumes are for; it checks how it is called.
batch_strategy sim_strategy(simulation *sim);

// One history from its first arrival to its last execution.
void simulate(const setting *c, const arrival *arrivals, size_t count);

// --- Every small history: each item takes each combination of the choices.

typedef struct choices {
  unsigned gaps[4], rows[4], priorities[4], timeouts[4], cancels[4], volumes[4];
  size_t gap_count, row_count, key_count, priority_count, timeout_count, cancel_count;
  size_t volume_count; // 0: no strategy, all are 0
} choices;

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

// How many histories that are.
size_t simulate_all(const setting *settings, size_t setting_count, const choices *from,
                    size_t items);

#endif

// SPDX-License-Identifier: Apache-2.0
// What idle instances are promised to take, stated again for batch_policy_test.c: sets of prefixes
// instead of a walk. Shares no code with src/schedule.
#ifndef NEREID_TESTS_BATCH_REFERENCE_H
#define NEREID_TESTS_BATCH_REFERENCE_H

#include "schedule/queue.h"

#include <stdbool.h>
#include <stddef.h>

#define MAX_ITEMS 8

// --- One history

typedef struct arrival {
  unsigned at;       // tick
  unsigned rows;     // 0 is legal
  char key;          // 'A' or 'B'
  unsigned priority; // 0: default
  unsigned timeout;  // ticks; 0: none
  unsigned cancel;   // tick; 0: never
  unsigned volume;   // that a custom strategy counts
} arrival;

typedef struct setting {
  const char *name;
  unsigned max_batch;
  unsigned preferred[3]; // ascending, 0 ends; none: [max_batch]
  unsigned delay;        // ticks
  unsigned levels;       // 0: no priorities
  unsigned default_level;
  unsigned timeout; // default timeout, ticks
  bool override;
  timeout_action action;
  unsigned max_queue;
  unsigned workers;
  unsigned service;       // ticks that an execution takes
  unsigned max_volume;    // of a batch, by a custom strategy; 0: there is none
  bool poll_each_arrival; // idle instances look after each arrival, or after all of a tick
} setting;

// --- What became of it

typedef enum fate {
  WAITING,
  DELAYED,
  EXECUTED,
  TIMED_OUT,
  CANCELLED,
  FULL
} fate;

typedef struct model_item {
  const arrival *arrival;
  fate fate;
  unsigned delayed_order;
} model_item;

typedef struct reference {
  const setting *setting;
  model_item items[MAX_ITEMS];
  size_t count;
  unsigned delayed_orders;
} reference;

typedef struct promise {
  size_t count;   // taken now
  unsigned until; // when count is 0 and something waits
} promise;

bool is_waiting(const model_item *item);
unsigned level_of(const setting *c, const arrival *a);
unsigned rows_of(const arrival *a);

// The tick at which the item expires; 0: never.
unsigned expiry_of(const setting *c, const arrival *a);

// The items that wait, in the order in which they are served; how many.
size_t reference_order(const reference *r, size_t *order);

bool in_preferred(const setting *c, unsigned rows);
unsigned largest_preferred(const setting *c);
promise reference_promise(const reference *r, unsigned now);

#endif

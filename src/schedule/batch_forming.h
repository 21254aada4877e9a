// SPDX-License-Identifier: Apache-2.0
// The batch that a custom strategy forms at the front of a queue. Asks the strategy about the items
// one by one and remembers its answers between decisions. The scheduler's lock is held, also while
// the strategy runs (docs/internals/schedulers.md).
#ifndef NEREID_SCHEDULE_BATCH_FORMING_H
#define NEREID_SCHEDULE_BATCH_FORMING_H

#include <stdbool.h>
#include <stddef.h>

typedef struct queue_item queue_item;

// The functions of a strategy. `begin` stores the strategy's own record in *batch.
typedef struct batch_strategy {
  void (*begin)(void *context, void **batch);
  bool (*include)(void *context, void *batch, queue_item *item);
  void (*end)(void *context, void *batch);
  void *context;
} batch_strategy;

// Initially zeroed but for `strategy`.
typedef struct batch_forming {
  const batch_strategy *strategy;
  void *batch;
  size_t included; // number of items at the queue's front that belong to the batch
  bool open;       // begun and not ended
  bool refused;    // the next item does not belong to it
} batch_forming;

// Whether the item at `place` of the queue (0: the first) belongs to the batch; all items before it
// do.
bool batch_forming_includes(batch_forming *f, size_t place, queue_item *item);

// Forgets the answers: the items at the queue's front have changed or are taken.
void batch_forming_end(batch_forming *f);

#endif

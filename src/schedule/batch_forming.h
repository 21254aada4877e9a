// SPDX-License-Identifier: Apache-2.0
// The batch that a custom strategy forms at the front of a queue: asks the strategy about one item
// after the other, and remembers the answers from one decision to the next. Called with the
// scheduler's lock, and so is the strategy (docs/internals/schedulers.md).
#ifndef NEREID_SCHEDULE_BATCH_FORMING_H
#define NEREID_SCHEDULE_BATCH_FORMING_H

#include <stdbool.h>
#include <stddef.h>

typedef struct queue_item queue_item;

// The functions of a strategy. What `begin` stores in *batch is the strategy's own record.
typedef struct batch_strategy {
  void (*begin)(void *context, void **batch);
  bool (*include)(void *context, void *batch, queue_item *item);
  void (*end)(void *context, void *batch);
  void *context;
} batch_strategy;

// Zeroed but for `strategy`: nothing was asked.
typedef struct batch_forming {
  const batch_strategy *strategy;
  void *batch;
  size_t included; // so many items from the queue's front belong to the batch
  bool open;       // begun and not ended
  bool refused;    // the item behind those does not
} batch_forming;

// Whether the item at `place` of the queue, 0 for the first, belongs to the batch, to which all
// before it do.
bool batch_forming_includes(batch_forming *f, size_t place, queue_item *item);

// The items at the queue's front are other ones, or taken: what was said is over.
void batch_forming_end(batch_forming *f);

#endif

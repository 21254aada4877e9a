// SPDX-License-Identifier: Apache-2.0
// The requests that wait for a model's instances, in the order of service: by priority level, then
// first in first out; requests whose timeout passed with the action DELAY come last in their level.
// The scheduler that owns the queue holds the lock. Items are embedded in requests; only a new
// priority level allocates memory.
#ifndef NEREID_SCHEDULE_QUEUE_H
#define NEREID_SCHEDULE_QUEUE_H

#include "base/heap.h"
#include "base/list.h"
#include "base/slice.h"
#include "schedule/ordering.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct queue_level queue_level;

typedef enum queue_item_state {
  ITEM_OUTSIDE = 0, // never queued, taken or refused
  ITEM_QUEUED,
  ITEM_DELAYED, // its timeout passed; served after the level's others, and cannot expire again
} queue_item_state;

// A queue entry; embedded in the request.
typedef struct queue_item {
  // Set by the caller before scheduler_enqueue:
  uint32_t batch_size; // rows; 0 counts as 1
  uint64_t priority;   // 1 is first; 0 or above the model's levels: the model's default level
  uint64_t timeout_us; // the request's own timeout; 0: none
  slice batch_key;     // only items with equal keys share a batch; must live as long as the item is
                       // queued
  bool may_go_ahead;   // may be taken by a worker that is still busy with another item
                       // (scheduler_take_ahead)
  struct sequence *sequence; // the request's sequence, from its arrival in
                             // schedule/sequence_policy.h to its release; else NULL
  // Set by the scheduler; all of it zeroed before the first use:
  list_node node;         // in its level; outside the queue for the item's owner
  queue_level *level;     // its level
  queue_item_state state; // guarded by the scheduler's lock
  uint64_t enqueued_ns;
  uint64_t
      left_rows; // for the first item of a batch: rows left in the queue when the batch was taken
  heap_node deadline; // in the queue's heap while it can expire (when_ns not CLOCK_NEVER)
  // Set by the caller for preserve_ordering, else NULL: a zeroed slot that outlives the item. It is
  // in the response factory, as a decoupled answer may follow the request's end. Reserved when the
  // item is taken.
  ordering_slot *slot;
} queue_item;

typedef enum timeout_action {
  TIMEOUT_REJECT = 0,
  TIMEOUT_DELAY = 1
} timeout_action;

typedef struct queue_policy {
  timeout_action action;
  uint64_t default_timeout_us; // 0: none
  bool allow_timeout_override;
  uint32_t max_queue_size; // requests; 0: no limit
} queue_policy;

typedef struct level_policy {
  uint64_t level; // 1-based
  queue_policy policy;
} level_policy;

typedef struct queue_config {
  uint64_t priority_levels;        // 0: one level
  uint64_t default_priority_level; // 1-based
  queue_policy default_policy;
  const level_policy *level_policies; // levels that have a policy of their own
  size_t level_policy_count;
} queue_config;

// A priority level that has items; empty levels are kept for reuse.
struct queue_level {
  list_node node;
  uint64_t priority;
  const queue_policy *policy;
  list queued;
  list delayed;
  uint32_t count; // requests in both lists
};

typedef struct request_queue {
  queue_config config;        // owns a copy of the level policies
  level_policy *own_policies; // ascending by level
  list levels;                // levels with items, by priority
  list spare;                 // levels without items
  size_t count;               // requests
  uint64_t rows;
  size_t delayed_count;
  heap deadlines;
} request_queue;

typedef enum queue_push_result {
  PUSH_DONE,
  PUSH_FULL,      // the level holds max_queue_size requests
  PUSH_NO_MEMORY, // no memory for a new priority level
} queue_push_result;

// False when memory is short. Copies the level policies.
bool request_queue_init(request_queue *q, const queue_config *config);
void request_queue_fini(request_queue *q); // must be empty

// Appends to the item's level; sets its deadline from the level's policy and the request's timeout.
queue_push_result request_queue_push(request_queue *q, queue_item *item, uint64_t now_ns);

// Takes an item out, wherever it is.
void request_queue_remove(request_queue *q, queue_item *item);

// When the next item expires; CLOCK_NEVER: none does.
uint64_t request_queue_next_deadline(const request_queue *q);

// Handles one item whose deadline has come: moves it to its level's delayed list (returns NULL,
// *moved true), or takes it out and returns it. NULL with *moved false: no item is due.
queue_item *request_queue_expire(request_queue *q, uint64_t now_ns, bool *moved);

// The first item to be served in a non-empty level.
static inline queue_item *queue_level_first(const queue_level *level)
{
  const list *l = list_is_empty(&level->queued) ? &level->delayed : &level->queued;
  return container_of(list_first(l), queue_item, node);
}

// The first item to be served, and the one after `item`; NULL at the end.
static inline queue_item *request_queue_first(const request_queue *q)
{
  const list_node *level = list_first(&q->levels);
  return level != NULL ? queue_level_first(container_of(level, queue_level, node)) : NULL;
}

static inline queue_item *request_queue_next(const request_queue *q, const queue_item *item)
{
  const queue_level *level = item->level;
  const list *within = item->state == ITEM_QUEUED ? &level->queued : &level->delayed;
  const list_node *next = list_next(within, &item->node);
  if (next == NULL && item->state == ITEM_QUEUED)
    next = list_first(&level->delayed);
  if (next != NULL)
    return container_of(next, queue_item, node);
  const list_node *following = list_next(&q->levels, &level->node);
  return following != NULL ? queue_level_first(container_of(following, queue_level, node)) : NULL;
}

// The rows of an item; at least 1.
static inline uint64_t queue_item_rows(const queue_item *item)
{
  return item->batch_size > 0 ? item->batch_size : 1;
}

#endif

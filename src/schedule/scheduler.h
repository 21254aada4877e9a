// The queue of one model version and what decides its batches. Front-end threads put items in, idle
// instance threads pull batches out: there is no thread between. The policy itself
// (schedule/batch_policy.h) is a pure function of queue, configuration and time.
#ifndef NEREID_SCHEDULE_SCHEDULER_H
#define NEREID_SCHEDULE_SCHEDULER_H

#include "base/clock.h"
#include "base/error.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct scheduler scheduler;
typedef struct timekeeper
    timekeeper; // schedule/timekeeper.h: one thread a server that fires deadlines

// What waits in the queue; embedded in the request.
typedef struct queue_item {
  // Set by the caller before scheduler_enqueue:
  uint32_t batch_size; // rows; at least 1
  uint32_t priority;   // 1 is first; 0 or above the model's levels: the model's default level
  uint64_t timeout_us; // the request's own timeout; 0: none
  slice batch_key;     // only items with equal keys share a batch; must live as long as the item is
                       // queued
  // Set by the scheduler:
  struct queue_item *next;
  struct queue_item *previous;
  uint64_t enqueued_ns;
  uint64_t deadline_ns; // CLOCK_NEVER: none
  uint32_t level;       // index of the priority level that holds it
  uint32_t state;       // enum of the scheduler's own: not queued, queued, delayed, taken
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

typedef struct scheduler_config {
  bool dynamic_batching;   // false: the default scheduler: first in, first out, one request an
                           // execution, no queue policy
  uint32_t max_batch_size; // rows; 0: the model does not batch
  const uint32_t *preferred_batch_sizes;
  size_t preferred_batch_size_count;
  uint64_t max_queue_delay_us;
  uint32_t priority_levels;        // 0: one level
  uint32_t default_priority_level; // 1-based
  queue_policy default_policy;
  const queue_policy *level_policies; // priority_levels entries, or NULL
} scheduler_config;

typedef enum refusal {
  REFUSAL_QUEUE_FULL, // "Exceeds maximum queue size", UNAVAILABLE
  REFUSAL_TIMEOUT,    // "Request timeout expired", UNAVAILABLE
  REFUSAL_CANCELLED,  // CANCELLED
  REFUSAL_STOPPED,    // the model unloads or the server exits, UNAVAILABLE
} refusal;

// Why a batch was closed; counted and traced.
typedef enum batch_close_reason {
  BATCH_CLOSED_FULL,
  BATCH_CLOSED_PREFERRED,
  BATCH_CLOSED_DELAY,
  BATCH_CLOSED_SHAPE, // the next request does not fit by shape
  BATCH_CLOSED_SIZE,  // the next request does not fit by size
  BATCH_CLOSED_IDLE,  // no delay configured: everything that waited
  BATCH_CLOSE_REASON_COUNT,
} batch_close_reason;

// Called with no lock held, on the thread that found out (timekeeper, canceller, stopper); owns the
// item from then on.
typedef void scheduler_refuse(void *context, queue_item *item_owned, refusal reason);

// Copies `config`. `refuse` is how queued items that will not be executed come back.
error *scheduler_new(const scheduler_config *config, clock_source clock, timekeeper *timekeeper,
                     scheduler_refuse *refuse, void *context, scheduler **s);
void scheduler_free(scheduler *s); // nothing queued, nobody in scheduler_take

// Puts an item in the queue and wakes an idle instance. True: the queue owns the item. False:
// refused (*reason), still the caller's.
bool scheduler_enqueue(scheduler *s, queue_item *item, refusal *reason);

// Blocks until there is a batch and takes it: fills `items` (room for `capacity`) in queue order
// and returns how many; 0 means that the scheduler was stopped and nothing is left. Any number of
// threads may wait at once; each batch goes to exactly one.
size_t scheduler_take(scheduler *s, queue_item **items, size_t capacity,
                      batch_close_reason *reason);

// Removes an item that is still queued: true, and the item is the caller's. False when it was taken
// or refused already.
bool scheduler_cancel(scheduler *s, queue_item *item);

// Refuses new items from now on; what is queued is still served, then every scheduler_take returns
// 0.
void scheduler_stop(scheduler *s);
// Refuses everything queued (REFUSAL_STOPPED).
void scheduler_abandon(scheduler *s);

size_t scheduler_pending(const scheduler *s); // items queued now
uint64_t scheduler_closed_batches(const scheduler *s, batch_close_reason reason);

#endif

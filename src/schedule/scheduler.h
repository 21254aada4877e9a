// SPDX-License-Identifier: Apache-2.0
// The queue of one model version, and the decisions about its batches. Submitting threads put items
// in, idle instance threads pull batches out; no thread stands between. The policy
// (schedule/batch_policy.h) is a pure function of queue, configuration and time.
#ifndef NEREID_SCHEDULE_SCHEDULER_H
#define NEREID_SCHEDULE_SCHEDULER_H

#include "base/clock.h"
#include "base/error.h"
#include "schedule/batch_policy.h"
#include "schedule/latency_policy.h"
#include "schedule/ordering.h"
#include "schedule/queue.h"
#include "schedule/timekeeper.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct scheduler scheduler;

typedef struct scheduler_config {
  bool dynamic_batching;   // false: the default scheduler: first in, first out, one request an
                           // execution, no queue policy
  uint32_t max_batch_size; // rows; 0: the model does not batch
  const uint32_t *preferred_batch_sizes; // any order; none: [max_batch_size]
  size_t preferred_batch_size_count;
  uint64_t max_queue_delay_us;
  queue_config queue;      // priority levels and queue policies; not used by the default scheduler
  uint64_t objective_ns;   // of latency: latency_policy.h chooses the batches; 0: as configured
  uint64_t workers;        // with an objective: the number of workers that pull
  bool arrivals_are_given; // the caller sets each item's enqueued_ns; the delay counts from there
  const batch_strategy *strategy; // for dynamic batching, called with the scheduler's lock held;
                                  // NULL: none. Outlives the scheduler.
  ordering *ordering; // for preserve_ordering: each item reserves its slot here when it is taken;
                      // else NULL. Outlives the scheduler.
  bool (*may_run)(void *owner); // called under the lock before scheduler_claim gives an idle worker
                                // away; true: that worker's execution follows. NULL: always
} scheduler_config;

typedef enum refusal {
  REFUSAL_QUEUE_FULL, // "Exceeds maximum queue size", UNAVAILABLE
  REFUSAL_LATENCY,    // the answer would come after the objective, UNAVAILABLE
  REFUSAL_TIMEOUT,    // "Request timeout expired", UNAVAILABLE
  REFUSAL_CANCELLED,  // CANCELLED
  REFUSAL_NO_MEMORY,  // "out of memory", UNAVAILABLE
  REFUSAL_STOPPED,    // the model unloads or the server exits, UNAVAILABLE
  // With sequences (core/sequences.h):
  REFUSAL_BATCH,            // more than one row, INVALID_ARG
  REFUSAL_NO_SEQUENCE,      // no correlation id, INVALID_ARG
  REFUSAL_NOT_STARTED,      // its sequence is not known, INVALID_ARG
  REFUSAL_SEQUENCE_TIMEOUT, // its sequence found no slot in time, UNAVAILABLE
} refusal;

// Called with no lock held, on the thread that refuses (timekeeper, instance, stopper, the GPUs'
// watch). The callback owns the item.
typedef void scheduler_refuse(void *context, queue_item *item_owned, refusal reason);

// Copies `config`. `refuse` gives back queued items that will not be executed. `clock` must be
// CLOCK_MONOTONIC's if threads sleep in scheduler_take. If `keeper` is NULL, items expire only when
// an instance looks for work.
error *scheduler_new(const scheduler_config *config, clock_source clock, timekeeper *keeper,
                     scheduler_refuse *refuse, void *context, scheduler **s);
void scheduler_free(scheduler *s); // nothing is queued, no thread is in scheduler_take

// Puts an item in the queue and wakes an idle instance. True: the queue owns the item, which may be
// executed and freed before this returns, so the caller needs its own reference to the model to
// keep the scheduler alive. False: refused (*reason); the item stays the caller's.
bool scheduler_enqueue(scheduler *s, queue_item *item, refusal *reason);

// Blocks until there is a batch and takes it: fills `items` (room for `capacity`, at least 1) in
// queue order and returns how many; 0 means that the scheduler was stopped and nothing is left. Any
// number of threads may wait at once; each batch goes to exactly one. scheduler_claim returns
// `owner` to a thread that claims this one while it sleeps here; NULL: it cannot be claimed.
// SCHEDULER_HANDED_OFF: the claiming thread began an execution and handed the rest to this one.
// `leaving`: see scheduler_dismiss; NULL: it stays until the end.
#define SCHEDULER_HANDED_OFF SIZE_MAX
size_t scheduler_take(scheduler *s, void *owner, const bool *leaving, queue_item **items,
                      size_t capacity, batch_close_reason *reason);

// scheduler_take in two steps, for workers that must ask elsewhere (the rate limiter) before they
// run. scheduler_await returns 1 when there is a batch, else 0 or SCHEDULER_HANDED_OFF as
// scheduler_take; without `wait` it returns 0 at once when there is none. After a 1 the worker must
// call scheduler_take_awaited, which returns at once with the batch available then, maybe none (0).
// A capacity of 0 leaves the batch to others.
size_t scheduler_await(scheduler *s, void *owner, const bool *leaving, bool wait);
size_t scheduler_take_awaited(scheduler *s, bool offered, const bool *leaving, queue_item **items,
                              size_t capacity, batch_close_reason *reason);
// Called once between the two by a worker that cannot run yet: idle workers are woken for the batch
// and for new items as if it did not await any. `offered` tells scheduler_take_awaited of it.
void scheduler_offer(scheduler *s);

// The worker that takes with this flag gets 0 from now on, even if items wait: other workers serve
// them.
void scheduler_dismiss(scheduler *s, bool *leaving);

// For an instance between two batches: waits until the clients that it has just answered have sent
// their next requests (`rows` more rows than wait now), or until `until_ns`. Returns at once if
// that cannot enlarge the batch, or if the policy has its own delay. False: fewer than half of the
// rows came.
bool scheduler_linger(scheduler *s, uint64_t rows, uint64_t until_ns);

typedef struct idle_worker claimed_worker;

// Claims an idle worker that has an owner, and takes `item` as a batch of its own in its place;
// only when nothing waits and the policy would not wait for more. Returns the owner, which is the
// caller's until the claim ends, and *claimed. NULL: not now; the item stays the caller's.
void *scheduler_claim(scheduler *s, queue_item *item, claimed_worker **claimed);
// Ends the claim: the worker is idle again, or continues the execution that the caller began.
void scheduler_release(scheduler *s, claimed_worker *claimed);
void scheduler_hand_off(scheduler *s, claimed_worker *claimed);

// For a busy worker that can accept its next batch already: takes the next item if no other worker
// would come to it sooner, that is if more than `others` items wait beyond those for workers
// already woken. Returns at once; NULL: none. Always NULL with dynamic batching, since a batch
// taken later may be larger.
queue_item *scheduler_take_ahead(scheduler *s, size_t others);

// Removes an item that is still queued: true, and the item is the caller's. False when it was taken
// or refused already. The caller must keep the item's memory alive.
bool scheduler_cancel(scheduler *s, queue_item *item);

// Refuses new items from now on. Queued items are still served, without delay; then every
// scheduler_take returns 0.
void scheduler_stop(scheduler *s);
// Refuses everything queued (REFUSAL_STOPPED).
void scheduler_abandon(scheduler *s);

// For a scheduler with an objective: a batch of `rows` has ended, which left `left_rows` in the
// queue (queue_item.left_rows of its first item).
typedef struct executed_batch {
  uint64_t rows, left_rows;
  uint64_t duration_ns;
  uint64_t requests, late; // late: answered after the objective
} executed_batch;
void scheduler_executed(scheduler *s, const executed_batch *batch);
// The number of workers that pull from now on; with an objective only.
void scheduler_set_workers(scheduler *s, uint64_t workers);

typedef struct latency_state {
  latency_choice choice;
  uint64_t waiting_rows;
  uint64_t retry_ns; // until refused `rows` would be admitted
} latency_state;
latency_state scheduler_latency(scheduler *s, uint64_t rows);

size_t scheduler_pending(const scheduler *s); // items queued now
uint64_t scheduler_closed_batches(const scheduler *s, batch_close_reason reason);

#endif

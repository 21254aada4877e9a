// SPDX-License-Identifier: Apache-2.0
// The queue of one model version and what decides its batches. Whoever submits puts items in, idle
// instance threads pull batches out: there is no thread between. The policy itself
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
  uint64_t objective_ns;   // of latency: batches are as latency_policy.h chooses; 0: as configured
  uint64_t workers;        // that pull, with an objective
  bool arrivals_are_given; // each item's enqueued_ns is its caller's, and the delay runs from there
  const batch_strategy *strategy; // asked with the scheduler's lock held, where batching is
                                  // dynamic; NULL: none. Outlives the scheduler.
  ordering *ordering; // preserve_ordering: where each item reserves its slot when it is taken;
                      // NULL: responses leave as they come. Outlives the scheduler.
  bool (*may_run)(void *owner); // asked, under the lock, before scheduler_claim gives an idle
                                // worker away; true: that worker's execution follows. NULL: always
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

// Called with no lock held, on the thread that found out (timekeeper, instance, stopper, the GPUs'
// watch); owns the item from then on.
typedef void scheduler_refuse(void *context, queue_item *item_owned, refusal reason);

// Copies `config`. `refuse` is how queued items that will not be executed come back. `clock` must
// be CLOCK_MONOTONIC's wherever threads sleep in scheduler_take. `timekeeper` may be NULL: then
// items expire only when an instance looks for work.
error *scheduler_new(const scheduler_config *config, clock_source clock, timekeeper *keeper,
                     scheduler_refuse *refuse, void *context, scheduler **s);
void scheduler_free(scheduler *s); // nothing queued, nobody in scheduler_take

// Puts an item in the queue and wakes an idle instance. True: the queue owns the item, and it may
// be executed and gone before this returns: the caller keeps the scheduler alive by other means
// than the item (a reference of its own to the model). False: refused (*reason), still the
// caller's.
bool scheduler_enqueue(scheduler *s, queue_item *item, refusal *reason);

// Blocks until there is a batch and takes it: fills `items` (room for `capacity`, at least 1) in
// queue order and returns how many; 0 means that the scheduler was stopped and nothing is left. Any
// number of threads may wait at once; each batch goes to exactly one. `owner` is what
// scheduler_claim gives a thread that claims this one while it sleeps in here; NULL: it cannot be
// claimed. SCHEDULER_HANDED_OFF: who claimed it did not finish, and handed the rest off. `leaving`:
// see scheduler_dismiss; NULL: it stays until the end.
#define SCHEDULER_HANDED_OFF SIZE_MAX
size_t scheduler_take(scheduler *s, void *owner, const bool *leaving, queue_item **items,
                      size_t capacity, batch_close_reason *reason);

// scheduler_take in two steps, for workers that must ask elsewhere before they run. The first one
// gives 1 where there is a batch to be had, 0 and SCHEDULER_HANDED_OFF as scheduler_take does;
// without `wait` it returns at once, with 0 where there is none. After 1 comes the second one,
// which returns at once: what is to be had by then, perhaps nothing (0). A capacity of 0 leaves it
// to others.
size_t scheduler_await(scheduler *s, void *owner, const bool *leaving, bool wait);
size_t scheduler_take_awaited(scheduler *s, bool offered, const bool *leaving, queue_item **items,
                              size_t capacity, batch_close_reason *reason);
// Between the two, by a worker that cannot go on yet: idle workers are woken for what it awaits,
// and for what comes, as if it were not there. Once; scheduler_take_awaited is told.
void scheduler_offer(scheduler *s);

// The worker that takes with this flag gets 0 from now on, whatever waits: that is for the others.
void scheduler_dismiss(scheduler *s, bool *leaving);

// For an instance between two batches: waits until those whose requests it has just answered have
// come back with the next ones, `rows` more than wait now, or until `until_ns`. Returns at once
// where that cannot make a larger batch, or where the policy has a delay of its own. False: less
// than half of the rows came, and the wait was idle.
bool scheduler_linger(scheduler *s, uint64_t rows, uint64_t until_ns);

typedef struct idle_worker claimed_worker;

// Takes `item` as a batch of its own in place of an idle worker that has an owner, without queueing
// it: when nothing waits and waiting for more would be against the policy. Gives that owner, which
// is the caller's until scheduler_release, and *claimed. NULL: not now; the item is untouched.
void *scheduler_claim(scheduler *s, queue_item *item, claimed_worker **claimed);
// The claim ends with one of these: the worker is idle again, or goes on with what was begun.
void scheduler_release(scheduler *s, claimed_worker *claimed);
void scheduler_hand_off(scheduler *s, claimed_worker *claimed);

// For a worker that has a batch and can be given the next one already: takes the item that is next
// where no other worker would come to it sooner, which is when more than `others` items wait beyond
// those of workers that are on their way. Returns at once; NULL: none. Where batches are made of
// several items it is always none, since a batch that is taken late may be larger.
queue_item *scheduler_take_ahead(scheduler *s, size_t others);

// Removes an item that is still queued: true, and the item is the caller's. False when it was taken
// or refused already. The caller sees to it that the item's memory still exists.
bool scheduler_cancel(scheduler *s, queue_item *item);

// Refuses new items from now on; what is queued is still served, without further delay, then every
// scheduler_take returns 0.
void scheduler_stop(scheduler *s);
// Refuses everything queued (REFUSAL_STOPPED).
void scheduler_abandon(scheduler *s);

// Of a scheduler with an objective: a batch is over, which had `rows` and left `left_rows` behind
// (queue_item.left_rows of its first item).
typedef struct executed_batch {
  uint64_t rows, left_rows;
  uint64_t duration_ns;
  uint64_t requests, late; // late: answered after the objective
} executed_batch;
void scheduler_executed(scheduler *s, const executed_batch *batch);
// How many workers pull from now on.
void scheduler_set_workers(scheduler *s, uint64_t workers);

typedef struct latency_state {
  latency_choice choice;
  uint64_t waiting_rows;
  uint64_t retry_ns; // until `rows` that were refused would be taken
} latency_state;
latency_state scheduler_latency(scheduler *s, uint64_t rows);

size_t scheduler_pending(const scheduler *s); // items queued now
uint64_t scheduler_closed_batches(const scheduler *s, batch_close_reason reason);

#endif

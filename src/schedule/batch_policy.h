// SPDX-License-Identifier: Apache-2.0
// Decides what an idle instance does next: a pure function of the queue, the configuration, the
// time and a custom strategy's answers. No lock, no clock, no state. docs/scheduling.md explains it
// to users.
#ifndef NEREID_SCHEDULE_BATCH_POLICY_H
#define NEREID_SCHEDULE_BATCH_POLICY_H

#include "schedule/batch_forming.h"
#include "schedule/queue.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The reason why a batch was closed; counted and traced.
typedef enum batch_close_reason {
  BATCH_CLOSED_FULL,      // max_batch_size rows
  BATCH_CLOSED_PREFERRED, // a preferred size
  BATCH_CLOSED_DELAY,     // its oldest request waited max_queue_delay_microseconds
  BATCH_CLOSED_SHAPE,     // the next request does not fit by shape
  BATCH_CLOSED_SIZE,      // one more request would not fit by size
  BATCH_CLOSED_IDLE,      // no delay configured: all waiting requests
  BATCH_CLOSED_STRATEGY,  // the custom strategy refuses the next request
  BATCH_CLOSE_REASON_COUNT,
} batch_close_reason;

typedef struct batch_policy {
  bool batching;                   // false: one request an execution
  uint64_t max_batch_size;         // rows, at least 1
  const uint32_t *preferred_sizes; // ascending, at least one
  size_t preferred_size_count;
  uint64_t max_delay_ns;  // 0: never waits for more requests
  batch_forming *forming; // with a custom strategy; else NULL
} batch_policy;

typedef enum batch_verdict {
  BATCH_EMPTY, // nothing waits
  BATCH_WAIT,  // until `until_ns`, or until the queue changes
  BATCH_TAKE,  // the first `count` requests
} batch_verdict;

typedef struct batch_decision {
  batch_verdict verdict;
  batch_close_reason reason; // of TAKE
  size_t count;              // of TAKE: requests, from the front
  uint64_t until_ns;         // of WAIT
  uint64_t wake_rows; // of WAIT: while the queue has fewer rows, appended requests with equal keys
                      // change nothing before `until_ns`
} batch_decision;

// `capacity`: requests that the caller can take, at least 1. The queue must hold no expired items.
batch_decision batch_policy_decide(const batch_policy *policy, const request_queue *queue,
                                   size_t capacity, uint64_t now_ns);

#endif

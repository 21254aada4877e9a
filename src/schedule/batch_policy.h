// SPDX-License-Identifier: Apache-2.0
// What an idle instance does next: a pure function of the queue, the configuration, the time and
// what a custom strategy says. No lock, no clock, no state of its own; docs/scheduling.md says the
// same in words for users.
#ifndef NEREID_SCHEDULE_BATCH_POLICY_H
#define NEREID_SCHEDULE_BATCH_POLICY_H

#include "schedule/batch_forming.h"
#include "schedule/queue.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Why a batch was closed; counted and traced.
typedef enum batch_close_reason {
  BATCH_CLOSED_FULL,      // max_batch_size rows
  BATCH_CLOSED_PREFERRED, // a preferred size
  BATCH_CLOSED_DELAY,     // its oldest request waited max_queue_delay_microseconds
  BATCH_CLOSED_SHAPE,     // the next request does not fit by shape
  BATCH_CLOSED_SIZE,      // one more request would not fit by size
  BATCH_CLOSED_IDLE,      // no delay configured: everything that waited
  BATCH_CLOSED_STRATEGY,  // the custom strategy refuses the next request
  BATCH_CLOSE_REASON_COUNT,
} batch_close_reason;

typedef struct batch_policy {
  bool batching;                   // false: one request an execution
  uint64_t max_batch_size;         // rows, at least 1
  const uint32_t *preferred_sizes; // ascending, at least one
  size_t preferred_size_count;
  uint64_t max_delay_ns;  // 0: never waits for more requests
  batch_forming *forming; // of a custom strategy; NULL: none
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
  uint64_t wake_rows; // of WAIT: with fewer rows in the queue, and equal keys, requests appended at
                      // its end change nothing before `until_ns`
} batch_decision;

// `capacity`: how many requests the caller can take, at least 1. The queue holds nothing that has
// expired.
batch_decision batch_policy_decide(const batch_policy *policy, const request_queue *queue,
                                   size_t capacity, uint64_t now_ns);

#endif

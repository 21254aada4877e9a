// SPDX-License-Identifier: Apache-2.0
// Batching that holds a latency objective: chooses the size and delay of batches, and how much may
// wait, from what was measured. A model version has one where its configuration has the parameter
// latency_objective_us. Pure: events with their moments in, settings for the batch policy out. The
// scheduler that owns it holds the lock. docs/latency_objective.md explains the choice.
#ifndef NEREID_SCHEDULE_LATENCY_POLICY_H
#define NEREID_SCHEDULE_LATENCY_POLICY_H

#include "schedule/service_curve.h"

typedef struct latency_settings {
  uint64_t objective_ns;   // from arrival to answer, for 99 of 100 requests
  uint64_t max_batch_size; // rows, at least 1
  uint64_t workers;        // instances that pull, at least 1
} latency_settings;

// What a person would have to tune. There is no delay: an instance that waits for a larger batch
// answers neither more requests in time nor sooner (docs/latency_objective.md has the figures).
typedef struct latency_choice {
  uint64_t max_rows;   // of a batch
  uint64_t admit_rows; // may wait in all; what comes beyond is refused
} latency_choice;

typedef struct latency_policy {
  latency_settings settings;
  service_curve curve;
  latency_choice choice;
  double budget; // part of the objective that is planned with; less where too many answers are late
  double fill; // part of a batch's largest size that is there where rows have to be left behind, as
               // their shapes differ
  uint64_t answered, late; // since the budget was looked at
  uint64_t next_choice_ns;
  uint64_t choices; // so far
} latency_policy;

void latency_policy_init(latency_policy *p, const latency_settings *settings);

// `rows` want to come while `waiting_rows` wait. False: their answer would come after the
// objective.
bool latency_policy_admits(const latency_policy *p, uint64_t rows, uint64_t waiting_rows);
// When rows that were refused would be taken, if nobody else comes: ns from now.
uint64_t latency_policy_retry_ns(const latency_policy *p, uint64_t rows, uint64_t waiting_rows);

// An execution ended: its rows, how many it left waiting when it began, its duration, how many
// requests it answered, and how many of them later than the objective. True: `choice` may be
// another one now.
bool latency_policy_executed(latency_policy *p, uint64_t rows, uint64_t left_rows,
                             uint64_t duration_ns, uint64_t requests, uint64_t late,
                             uint64_t now_ns);

#endif

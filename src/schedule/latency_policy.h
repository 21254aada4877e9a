// SPDX-License-Identifier: Apache-2.0
// Batching for a latency objective: chooses the batch size and how many rows may wait, from
// measurements. A model version has one if its configuration has the parameter
// latency_objective_us. Pure: events with their times in, settings for the batch policy out. The
// scheduler that owns it holds the lock. docs/latency_objective.md explains the choice.
#ifndef NEREID_SCHEDULE_LATENCY_POLICY_H
#define NEREID_SCHEDULE_LATENCY_POLICY_H

#include "schedule/service_curve.h"

typedef struct latency_settings {
  uint64_t objective_ns;   // from arrival to answer, for 99 of 100 requests
  uint64_t max_batch_size; // rows, at least 1
  uint64_t workers;        // instances that pull, at least 1
} latency_settings;

// The settings that an operator would have to tune. There is no delay: waiting for a larger batch
// answers neither more requests in time nor sooner (docs/latency_objective.md has the figures).
typedef struct latency_choice {
  uint64_t max_rows;   // of a batch
  uint64_t admit_rows; // may wait in all; further rows are refused
} latency_choice;

typedef struct latency_policy {
  latency_settings settings;
  service_curve curve;
  latency_choice choice;
  double budget; // part of the objective used for planning; less if too many answers are late
  double fill; // mean filled part of max_rows when rows are left behind because their shapes differ
  uint64_t answered, late; // since the last check of the budget
  uint64_t next_choice_ns;
  uint64_t choices; // so far
} latency_policy;

void latency_policy_init(latency_policy *p, const latency_settings *settings);

// Whether `rows` may join `waiting_rows`. False: they would be answered too late for the objective.
bool latency_policy_admits(const latency_policy *p, uint64_t rows, uint64_t waiting_rows);
// When refused rows would be admitted if no others come, in ns from now.
uint64_t latency_policy_retry_ns(const latency_policy *p, uint64_t rows, uint64_t waiting_rows);

// An execution ended: its rows, the rows left waiting when it began, its duration, the requests
// answered, and those answered later than the objective. True: `choice` may have changed.
bool latency_policy_executed(latency_policy *p, uint64_t rows, uint64_t left_rows,
                             uint64_t duration_ns, uint64_t requests, uint64_t late,
                             uint64_t now_ns);

#endif

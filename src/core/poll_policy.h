// SPDX-License-Identifier: Apache-2.0
// What a poll does about one model: a pure function of what its directory was, what it is and the
// time. For core/poller.c, which keeps one poll_memory for each name.
#ifndef NEREID_CORE_POLL_POLICY_H
#define NEREID_CORE_POLL_POLICY_H

#include "base/file_stamp.h"

#include <stdbool.h>
#include <stdint.h>

// What a look found under a name. Nothing: no directory, or two of them in two repositories.
typedef struct poll_look {
  bool present;
  file_stamp stamp; // zeroes when it is not
} poll_look;

typedef struct poll_pace {
  uint64_t settle_ns;      // how long nothing may change before it is acted on
  uint64_t first_retry_ns; // after a failure without a change; doubled with each further one
  uint64_t last_retry_ns;  // at most
} poll_pace;

typedef struct poll_memory {
  poll_look taken;        // what was acted on last
  poll_look seen;         // the last look
  uint64_t seen_ns;       // since when it is that
  bool is_loading;        // what was taken
  unsigned failure_count; // of loads of what was taken
  uint64_t retry_ns;      // while there are failures
} poll_memory;

typedef enum poll_verdict {
  POLL_REST,
  POLL_LOOK_AGAIN, // it has changed and may still change; at *again_ns
  POLL_LOAD,
  POLL_UNLOAD,
} poll_verdict;

// Takes a look into account. After POLL_LOAD, poll_policy_ended is to follow. *again_ns is set for
// POLL_LOOK_AGAIN only.
poll_verdict poll_policy_decide(poll_memory *memory, const poll_look *look, uint64_t now_ns,
                                const poll_pace *pace, uint64_t *again_ns);
void poll_policy_ended(poll_memory *memory, bool failed, uint64_t now_ns, const poll_pace *pace);

#endif

// SPDX-License-Identifier: Apache-2.0
// The decision of a poll about one model: a pure function of the directory that was acted on, the
// present directory and the time. For core/poller.c, which keeps one poll_memory for each name.
#ifndef NEREID_CORE_POLL_POLICY_H
#define NEREID_CORE_POLL_POLICY_H

#include "base/file_stamp.h"

#include <stdbool.h>
#include <stdint.h>

// The result of a look for a name. Not present: no directory, or two of them in two repositories.
typedef struct poll_look {
  bool present;
  file_stamp stamp; // 0 when not present
} poll_look;

typedef struct poll_pace {
  uint64_t settle_ns;      // how long nothing must change before it is acted on
  uint64_t first_retry_ns; // after a failure without a change; doubled with each further failure
  uint64_t last_retry_ns;  // the longest retry
} poll_pace;

typedef struct poll_memory {
  poll_look taken;        // the look that was acted on last
  poll_look seen;         // the last look
  uint64_t seen_ns;       // when it was seen first
  bool is_loading;        // `taken` is being loaded
  unsigned failure_count; // of loads of `taken`
  uint64_t retry_ns;      // the next try, after a failure
} poll_memory;

typedef enum poll_verdict {
  POLL_REST,
  POLL_LOOK_AGAIN, // it has changed and may still change: look again at *again_ns
  POLL_LOAD,
  POLL_UNLOAD,
} poll_verdict;

// Takes a look into account. poll_policy_ended must follow POLL_LOAD. *again_ns is set for
// POLL_LOOK_AGAIN only.
poll_verdict poll_policy_decide(poll_memory *memory, const poll_look *look, uint64_t now_ns,
                                const poll_pace *pace, uint64_t *again_ns);
void poll_policy_ended(poll_memory *memory, bool failed, uint64_t now_ns, const poll_pace *pace);

#endif

// SPDX-License-Identifier: Apache-2.0
// When to try a Redis again that was lost: soon, and later each time that it is lost again before
// it has proved itself. A policy: no lock, no clock.
#ifndef NEREID_CACHES_REDIS_BACKOFF_H
#define NEREID_CACHES_REDIS_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

#define BACKOFF_LEAST_NS UINT64_C(100000000)
#define BACKOFF_MOST_NS  UINT64_C(5000000000)
#define BACKOFF_PROOF_NS UINT64_C(10000000000) // up for so long: what was before is forgotten

typedef struct redis_backoff {
  bool is_up;
  uint64_t wait_ns;  // after the next loss
  uint64_t since_ns; // it is up, or is to be tried again
} redis_backoff;

void redis_backoff_init(redis_backoff *b, uint64_t now_ns); // down, and due at once
void redis_backoff_up(redis_backoff *b, uint64_t now_ns);
// Was lost, or could not be reached. True: it was up.
bool redis_backoff_lost(redis_backoff *b, uint64_t now_ns);
// When to try again; while it is down.
static inline uint64_t redis_backoff_due_ns(const redis_backoff *b)
{
  return b->since_ns;
}

#endif

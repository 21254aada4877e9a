// SPDX-License-Identifier: Apache-2.0
// Decides when to reconnect to a lost Redis: soon, and later after each loss until a connection has
// proved stable. A policy: no lock, no clock.
#ifndef NEREID_CACHES_REDIS_BACKOFF_H
#define NEREID_CACHES_REDIS_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

#define BACKOFF_LEAST_NS UINT64_C(100000000)
#define BACKOFF_MOST_NS  UINT64_C(5000000000)
#define BACKOFF_PROOF_NS UINT64_C(10000000000) // up this long: earlier losses are forgotten

typedef struct redis_backoff {
  bool is_up;
  uint64_t wait_ns;  // pause after the next loss
  uint64_t since_ns; // when it came up; while down, when to try again
} redis_backoff;

void redis_backoff_init(redis_backoff *b, uint64_t now_ns); // starts down, and due at once
void redis_backoff_up(redis_backoff *b, uint64_t now_ns);
// The Redis was lost or not reached. True: it was up before.
bool redis_backoff_lost(redis_backoff *b, uint64_t now_ns);
// When to try again; only while it is down.
static inline uint64_t redis_backoff_due_ns(const redis_backoff *b)
{
  return b->since_ns;
}

#endif

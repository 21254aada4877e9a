// SPDX-License-Identifier: Apache-2.0
// Called under the store's lock.
#include "caches/redis/redis_backoff.h"

void redis_backoff_init(redis_backoff *b, uint64_t now_ns)
{
  *b = (redis_backoff){.wait_ns = BACKOFF_LEAST_NS, .since_ns = now_ns};
}

void redis_backoff_up(redis_backoff *b, uint64_t now_ns)
{
  b->is_up = true;
  b->since_ns = now_ns;
}

bool redis_backoff_lost(redis_backoff *b, uint64_t now_ns)
{
  bool was_up = b->is_up;
  if (was_up && now_ns - b->since_ns >= BACKOFF_PROOF_NS)
    b->wait_ns = BACKOFF_LEAST_NS;
  b->is_up = false;
  b->since_ns = now_ns + b->wait_ns;
  b->wait_ns = b->wait_ns * 2 < BACKOFF_MOST_NS ? b->wait_ns * 2 : BACKOFF_MOST_NS;
  return was_up;
}

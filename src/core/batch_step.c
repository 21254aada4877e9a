// SPDX-License-Identifier: Apache-2.0
// See batch_step.h.
#include "core/batch_step.h"

#include "core/refuse.h"

uint32_t batch_do(instance *i, size_t first, uint32_t count, batch_step *step, void *context)
{
  uint32_t kept = 0;
  for (uint32_t n = 0; n < count; n++) {
    request *r = i->batch[first + n];
    error *e = step(r, context);
    atomic_store_explicit(r->slot, NULL, memory_order_relaxed);
    if (e != NULL) {
      r->slot = NULL;
      refuse_request(r, e, FAILURE_OTHER);
      continue;
    }
    r->slot = &i->executing[first + kept];
    atomic_store_explicit(r->slot, r, memory_order_relaxed);
    i->batch[first + kept++] = r;
  }
  return kept;
}

// SPDX-License-Identifier: Apache-2.0
// The remembered answers of a custom strategy; see batch_forming.h.
#include "schedule/batch_forming.h"

#include <assert.h>

bool batch_forming_includes(batch_forming *f, size_t place, queue_item *item)
{
  assert(place <= f->included);
  if (place < f->included)
    return true;
  if (f->refused)
    return false;
  if (!f->open) {
    f->open = true;
    f->strategy->begin(f->strategy->context, &f->batch);
  }
  f->refused = !f->strategy->include(f->strategy->context, f->batch, item);
  f->included += !f->refused;
  return !f->refused;
}

void batch_forming_end(batch_forming *f)
{
  if (f->open)
    f->strategy->end(f->strategy->context, f->batch);
  *f = (batch_forming){.strategy = f->strategy};
}

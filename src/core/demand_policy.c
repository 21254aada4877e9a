// SPDX-License-Identifier: Apache-2.0
// Which models are evicted for another, and how often a broken one is tried.
#include "core/demand_policy.h"

#define NS_PER_SECOND     UINT64_C(1000000000)
#define MAX_RETRY_SECONDS 60u

static uint64_t saturating_add(uint64_t a, uint64_t b)
{
  return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

#define NOBODY UINT64_MAX // no model is spared

// Models used at this moment or later are spared: an ensemble and the models of its steps, which
// are used at the same moment. A model that was never used is not spared.
static uint64_t last_use(const demand_model *models, size_t count)
{
  uint64_t last = 1;
  for (size_t i = 0; i < count; i++)
    if (!models[i].leaving && models[i].used_ns > last)
      last = models[i].used_ns;
  return last;
}

static demand_model *longest_unused(demand_model *models, size_t count, uint64_t spared_ns)
{
  demand_model *found = NULL;
  for (size_t i = 0; i < count; i++) {
    demand_model *m = &models[i];
    bool may_go = !m->in_use && !m->pinned && !m->leaving && !m->goes && m->used_ns < spared_ns;
    if (may_go && (found == NULL || m->used_ns < found->used_ns))
      found = m;
  }
  return found;
}

// Whether waiting will bring more room.
static bool is_worth_waiting(const demand_model *models, size_t count, const demand_need *need,
                             uint64_t spared_ns)
{
  bool worth = need->loading_bytes > 0;
  for (size_t i = 0; i < count; i++) {
    const demand_model *m = &models[i];
    worth = worth || m->leaving || m->goes || (m->in_use && !m->pinned && m->used_ns < spared_ns);
  }
  return worth && need->waited_ns < DEMAND_PATIENCE_NS;
}

demand_verdict demand_decide(demand_model *models, size_t count, const demand_need *need)
{
  uint64_t staying = need->loading_bytes, leaving = 0;
  if (need->budget == 0)
    return DEMAND_FITS;
  for (size_t i = 0; i < count; i++) {
    uint64_t *sum = models[i].leaving ? &leaving : &staying;
    *sum = saturating_add(*sum, models[i].bytes);
    models[i].goes = false;
  }
  if (saturating_add(saturating_add(staying, need->bytes), leaving) <= need->budget)
    return DEMAND_FITS;
  demand_model *m;
  uint64_t spared_ns = need->is_load ? NOBODY : last_use(models, count);
  while (saturating_add(staying, need->bytes) > need->budget &&
         (m = longest_unused(models, count, spared_ns)) != NULL) {
    m->goes = true;
    staying -= m->bytes;
  }
  return is_worth_waiting(models, count, need, spared_ns) ? DEMAND_WAITS : DEMAND_EXCEEDS;
}

demand_retry demand_decide_retry(const demand_failures *failures, uint64_t now_ns)
{
  uint64_t seconds = MAX_RETRY_SECONDS;
  if (failures->count == 0)
    return DEMAND_LOADS;
  if (failures->count <= 6)
    seconds = UINT64_C(1) << (failures->count - 1);
  if (now_ns - failures->failed_ns >= seconds * NS_PER_SECOND)
    return DEMAND_LOADS;
  return now_ns - failures->looked_ns >= NS_PER_SECOND ? DEMAND_LOADS_CHANGED : DEMAND_REFUSES;
}

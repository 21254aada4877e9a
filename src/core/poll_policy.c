// SPDX-License-Identifier: Apache-2.0
// The rules of polling, see poll_policy.h. A change is acted on once two looks, the settling time
// apart, have found the same. So a model that is being copied is never loaded half, whatever the
// file system's clock says. A failed load is tried again when the model changes, and ever more
// rarely when it does not.
#include "core/poll_policy.h"

#include <assert.h>

static bool is_same(const poll_look *a, const poll_look *b)
{
  return a->present == b->present && !file_stamp_differs(a->stamp, b->stamp);
}

static poll_verdict load(poll_memory *m)
{
  m->is_loading = true;
  return POLL_LOAD;
}

static poll_verdict take(poll_memory *m)
{
  m->taken = m->seen;
  m->failure_count = 0;
  return m->taken.present ? load(m) : POLL_UNLOAD;
}

poll_verdict poll_policy_decide(poll_memory *m, const poll_look *look, uint64_t now_ns,
                                const poll_pace *pace, uint64_t *again_ns)
{
  if (!is_same(look, &m->seen) || m->seen_ns == 0) {
    m->seen = *look;
    m->seen_ns = now_ns;
  }
  if (m->is_loading)
    return POLL_REST; // one load at a time; the poll after its end sees further changes
  if (is_same(look, &m->taken))
    return m->failure_count > 0 && now_ns >= m->retry_ns ? load(m) : POLL_REST;
  if (now_ns - m->seen_ns >= pace->settle_ns)
    return take(m);
  *again_ns = m->seen_ns + pace->settle_ns;
  return POLL_LOOK_AGAIN;
}

static uint64_t pause_after(unsigned failures, const poll_pace *pace)
{
  uint64_t pause = pace->first_retry_ns;
  for (unsigned i = 1; i < failures && pause < pace->last_retry_ns; i++)
    pause *= 2;
  return pause < pace->last_retry_ns ? pause : pace->last_retry_ns;
}

void poll_policy_ended(poll_memory *m, bool failed, uint64_t now_ns, const poll_pace *pace)
{
  assert(m->is_loading);
  m->is_loading = false;
  m->failure_count = failed ? m->failure_count + 1 : 0;
  if (failed)
    m->retry_ns = now_ns + pause_after(m->failure_count, pace);
}

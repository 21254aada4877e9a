// SPDX-License-Identifier: Apache-2.0
// An exchange's phases, its description for log and trace, its references, and its text's budget.
#include "frontend/http/exchange/exchange_parts.h"

#include "base/state.h"
#include "frontend/common/infer/inference.h"
#include "frontend/http/exchange/exchange_log.h"

#include <assert.h>
#include <stdlib.h>

#define TO(phase) STATE_BIT(EXCHANGE_##phase)

// The phases that may follow each phase, as bits.
static const unsigned allowed[] = {
    [EXCHANGE_RECEIVING] = TO(DROPPING) | TO(WAITING) | TO(REPLIED),
    [EXCHANGE_DROPPING] = TO(REPLIED),
    [EXCHANGE_WAITING] = TO(RECEIVING) | TO(REPLIED),
    [EXCHANGE_REPLIED] = 0,
};

void exchange_enter(exchange *x, exchange_phase phase)
{
  state_assert(allowed, x->phase, phase);
  x->phase = phase;
}

bool exchange_is_over(const exchange *x)
{
  return x->failure != NULL || x->phase == EXCHANGE_REPLIED;
}

NEREID_LogSubject exchange_subject(const exchange *x)
{
  if (x == NULL)
    return (NEREID_LogSubject){0};
  const char *model = x->parameters[PARAMETER_MODEL];
  return (NEREID_LogSubject){.request_id = x->inference != NULL ? x->inference->request_id : NULL,
                             .model = model[0] != '\0' ? model : NULL,
                             .version = x->version > 0 ? x->version : 0};
}

void exchange_record_moment(const exchange *x, const char *name)
{
  if (x->inference != NULL)
    trace_record_now(x->inference->trace, name);
}

// --- Memory

bool exchange_count_text(exchange *x)
{
  assert(x->reserved == 0);
  size_t size = x->text.size < BUDGET_MIN_BYTES ? 0 : x->text.size;
  if (size > 0 && !budget_take_work(&x->http->budget, size))
    return false;
  x->reserved = size;
  return true;
}

void exchange_drop_text(exchange *x)
{
  buffer_fini(&x->text);
  x->text = BUFFER_EMPTY;
  if (x->reserved > 0)
    budget_give_back(&x->http->budget, x->reserved);
  x->reserved = 0;
}

void exchange_ref(exchange *x)
{
  refcount_take(&x->references);
}

void exchange_unref(exchange *x)
{
  if (!refcount_drop(&x->references))
    return;
  listener *http = x->http;
  if (x->inference != NULL)
    inference_fini(x->inference);
  if (x->wait != NULL)
    NEREID_ModelWaitDelete(x->wait);
  exchange_drop_text(x);
  json_decref(x->json);
  body_fini(&x->body);
  arena_fini(&x->arena);
  free(x);
  listener_unref(http);
}

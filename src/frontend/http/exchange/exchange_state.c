// What an exchange is at: its phases, and what the log and a trace say of it.
#include "frontend/http/exchange/exchange_parts.h"

#include "base/state.h"
#include "frontend/common/infer/inference.h"

#define TO(phase) STATE_BIT(EXCHANGE_##phase)

// The phases that may follow one, bit by bit.
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

bool exchange_is_abandoned(const exchange *x)
{
  return x->phase == EXCHANGE_REPLIED;
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

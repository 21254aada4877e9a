// SPDX-License-Identifier: Apache-2.0
// NEREID_ModelWait and the options of loading on demand: thin calls into core/demand. Any thread.
#include "api/convert.h"
#include "core/demand.h"
#include "core/routing.h"
#include "core/server_state.h"
#include "core/server_status.h"
#include "nereid/nereid.h"
#include "request/request.h"

TRITONSERVER_Error *NEREID_ServerOptionsSetOnDemand(TRITONSERVER_ServerOptions *options,
                                                    uint64_t memory_budget_bytes)
{
  options->model_control_mode = TRITONSERVER_MODEL_CONTROL_EXPLICIT;
  options->on_demand = true;
  options->memory_budget_bytes = memory_budget_bytes;
  return NULL;
}

bool NEREID_ServerLoadsOnDemand(TRITONSERVER_Server *s)
{
  return s->demand != NULL;
}

TRITONSERVER_Error *NEREID_ServerModelAwait(TRITONSERVER_Server *s, const char *model_name,
                                            int64_t model_version, uint64_t deadline_ns,
                                            NEREID_ModelAwaitedFn_t awaited, void *context,
                                            NEREID_ModelWait **wait, bool *waits)
{
  *wait = NULL;
  *waits = false;
  if (s->demand == NULL)
    return NULL;
  return error_to_abi(
      demand_await(s, model_name, model_version, deadline_ns, awaited, context, wait, waits));
}

void NEREID_ModelWaitCancel(NEREID_ModelWait *wait)
{
  model_wait_cancel(wait);
}

TRITONSERVER_Error *NEREID_ModelWaitTakeError(NEREID_ModelWait *wait)
{
  return error_to_abi(model_wait_take_error(wait));
}

TRITONSERVER_Error *NEREID_ModelWaitRequestNew(NEREID_ModelWait *wait,
                                               TRITONSERVER_InferenceRequest **request)
{
  return error_to_abi(
      routing_new_request(model_wait_model(wait), model_wait_version(wait), request));
}

void NEREID_ModelWaitDelete(NEREID_ModelWait *wait)
{
  model_wait_free(wait);
}

// SPDX-License-Identifier: Apache-2.0
// TRITONBACKEND_ModelInstanceResponseStatistics*: a backend's report about one response. Any
// thread, one record on one thread at a time.
#include "api/convert.h"
#include "core/instance.h"
#include "request/response.h"
#include "triton/core/tritonbackend.h"

#include <stdlib.h>

typedef struct TRITONBACKEND_ModelInstanceResponseStatistics {
  instance *instance;        // borrowed
  response_factory *factory; // borrowed
  response_times times;
  TRITONSERVER_Error *failure; // borrowed
} record;

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceResponseStatisticsNew(record **result)
{
  *result = calloc(1, sizeof(**result));
  return *result == NULL ? error_to_abi(error_no_memory()) : NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceResponseStatisticsDelete(record *h)
{
  free(h);
  return NULL;
}

API_SET(TRITONBACKEND_ModelInstanceResponseStatisticsSetModelInstance, record,
        TRITONBACKEND_ModelInstance *, instance)
API_SET(TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseFactory, record,
        TRITONBACKEND_ResponseFactory *, factory)
API_SET(TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseStart, record, uint64_t,
        times.start)
API_SET(TRITONBACKEND_ModelInstanceResponseStatisticsSetComputeOutputStart, record, uint64_t,
        times.output_start)
API_SET(TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseEnd, record, uint64_t, times.end)
API_SET(TRITONBACKEND_ModelInstanceResponseStatisticsSetError, record, TRITONSERVER_Error *,
        failure)

static response_outcome outcome_of(const record *r)
{
  if (r->failure == NULL)
    return r->times.output_start > 0 ? RESPONSE_SUCCESS : RESPONSE_EMPTY;
  return TRITONSERVER_ErrorCode(r->failure) == TRITONSERVER_ERROR_CANCELLED ? RESPONSE_CANCEL
                                                                            : RESPONSE_FAIL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportResponseStatistics(record *h)
{
  const record *r = h;
  if (r->instance == NULL || r->factory == NULL)
    return error_to_abi(error_new(ERROR_INVALID_ARG,
                                  "response statistics need a model instance and a response "
                                  "factory"));
  if (r->instance->shared->reports != NULL) {
    r->instance->shared->reports->response(r->factory, outcome_of(r), &r->times);
    return NULL;
  }
  uint64_t index =
      atomic_fetch_add_explicit(&r->factory->reported_responses, 1, memory_order_relaxed);
  return error_to_abi(response_statistics_count(&r->instance->shared->target->response_statistics,
                                                index, outcome_of(r), &r->times));
}

// TRITONBACKEND_ModelInstanceResponseStatistics*: what a backend says of one response. Any thread,
// one record on one thread at a time.
#include "api/convert.h"
#include "core/instance.h"
#include "request/response.h"
#include "triton/core/tritonbackend.h"

#include <stdlib.h>

// TRITONBACKEND_ModelInstanceResponseStatistics
typedef struct record {
  instance *instance;        // borrowed
  response_factory *factory; // borrowed
  response_times times;
  TRITONSERVER_Error *failure; // borrowed
} record;

typedef TRITONBACKEND_ModelInstanceResponseStatistics handle;

static record *of(handle *h)
{
  return (record *)h;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceResponseStatisticsNew(handle **result)
{
  *result = (handle *)calloc(1, sizeof(record));
  return *result == NULL ? error_to_abi(error_no_memory()) : NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceResponseStatisticsDelete(handle *h)
{
  free(of(h));
  return NULL;
}

TRITONSERVER_Error *
TRITONBACKEND_ModelInstanceResponseStatisticsSetModelInstance(handle *h,
                                                              TRITONBACKEND_ModelInstance *i)
{
  of(h)->instance = i;
  return NULL;
}

TRITONSERVER_Error *
TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseFactory(handle *h,
                                                                TRITONBACKEND_ResponseFactory *f)
{
  of(h)->factory = f;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseStart(handle *h,
                                                                                  uint64_t ns)
{
  of(h)->times.start = ns;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceResponseStatisticsSetComputeOutputStart(handle *h,
                                                                                       uint64_t ns)
{
  of(h)->times.output_start = ns;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseEnd(handle *h,
                                                                                uint64_t ns)
{
  of(h)->times.end = ns;
  return NULL;
}

TRITONSERVER_Error *
TRITONBACKEND_ModelInstanceResponseStatisticsSetError(handle *h, TRITONSERVER_Error *failure)
{
  of(h)->failure = failure;
  return NULL;
}

static response_outcome outcome_of(const record *r)
{
  if (r->failure == NULL)
    return r->times.output_start > 0 ? RESPONSE_SUCCESS : RESPONSE_EMPTY;
  return TRITONSERVER_ErrorCode(r->failure) == TRITONSERVER_ERROR_CANCELLED ? RESPONSE_CANCEL
                                                                            : RESPONSE_FAIL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportResponseStatistics(handle *h)
{
  const record *r = of(h);
  if (r->instance == NULL || r->factory == NULL)
    return error_to_abi(error_new(ERROR_INVALID_ARG,
                                  "response statistics need a model instance and a response "
                                  "factory"));
  uint64_t index =
      atomic_fetch_add_explicit(&r->factory->reported_responses, 1, memory_order_relaxed);
  return error_to_abi(response_statistics_count(&r->instance->shared->target->response_statistics,
                                                index, outcome_of(r), &r->times));
}

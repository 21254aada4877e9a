// The one place where the core's errors and the ABI's are the same thing: TRITONSERVER_Error is
// never defined, a pointer to it is a pointer to `error`. Included by api/*.c only.
#ifndef NEREID_API_CONVERT_H
#define NEREID_API_CONVERT_H

#include "base/error.h"
#include "triton/core/tritonserver.h"

_Static_assert((int)ERROR_UNKNOWN == (int)TRITONSERVER_ERROR_UNKNOWN &&
                   (int)ERROR_INTERNAL == (int)TRITONSERVER_ERROR_INTERNAL &&
                   (int)ERROR_NOT_FOUND == (int)TRITONSERVER_ERROR_NOT_FOUND &&
                   (int)ERROR_INVALID_ARG == (int)TRITONSERVER_ERROR_INVALID_ARG &&
                   (int)ERROR_UNAVAILABLE == (int)TRITONSERVER_ERROR_UNAVAILABLE &&
                   (int)ERROR_UNSUPPORTED == (int)TRITONSERVER_ERROR_UNSUPPORTED &&
                   (int)ERROR_ALREADY_EXISTS == (int)TRITONSERVER_ERROR_ALREADY_EXISTS &&
                   (int)ERROR_CANCELLED == (int)TRITONSERVER_ERROR_CANCELLED,
               "the core's error codes are the ABI's");

static inline TRITONSERVER_Error *error_to_abi(error *e)
{
  return (TRITONSERVER_Error *)e;
}

static inline error *error_from_abi(TRITONSERVER_Error *e)
{
  return (error *)e;
}

#endif

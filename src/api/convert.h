// SPDX-License-Identifier: Apache-2.0
// Helpers of the ABI's functions. Included by api/*.c only.
//
// TRITONSERVER_Error is never defined: a pointer to it is a pointer to `error`, and only this file
// converts them. The structures of other handles are defined by the core.
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

// The error stays the ABI's: nothing is released.
static inline error *error_of(TRITONSERVER_Error *e)
{
  return (error *)e;
}

// Functions that return `value`, or set `member`. The handle is `self`.
#define API_GET(function, handle, type, value)                                                     \
  TRITONSERVER_Error *function(handle *self, type *result)                                         \
  {                                                                                                \
    *result = (value);                                                                             \
    return NULL;                                                                                   \
  }
#define API_SET(function, handle, type, member)                                                    \
  TRITONSERVER_Error *function(handle *self, type value)                                           \
  {                                                                                                \
    self->member = value;                                                                          \
    return NULL;                                                                                   \
  }
// A function that sets the parameter `name` by a call that may fail.
#define API_SET_PARAMETER(function, handle, type, call)                                            \
  TRITONSERVER_Error *function(handle *self, const char *name, type value)                         \
  {                                                                                                \
    return error_to_abi(call);                                                                     \
  }

#endif

// SPDX-License-Identifier: Apache-2.0
// Turns errors of the north seam into the front ends' own.
#ifndef NEREID_FRONTEND_COMMON_OBSERVE_ABI_ERROR_H
#define NEREID_FRONTEND_COMMON_OBSERVE_ABI_ERROR_H

#include "base/error.h"
#include "nereid/nereid.h"
#include "triton/core/tritonserver.h"

// Keeps code, text and the time of a retry, and releases the argument. NULL for NULL.
static inline error *error_from_abi(TRITONSERVER_Error *failure_owned)
{
  if (failure_owned == NULL)
    return NULL;
  error *result = error_new((error_code)TRITONSERVER_ErrorCode(failure_owned), "%s",
                            TRITONSERVER_ErrorMessage(failure_owned));
  error_set_retry(result, NEREID_ErrorRetryAfterNs(failure_owned));
  TRITONSERVER_ErrorDelete(failure_owned);
  return result;
}

#endif

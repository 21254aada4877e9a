// SPDX-License-Identifier: Apache-2.0
// TRITONSERVER_Error*: errors for programs and plug-ins. Any thread.
#include "api/convert.h"
#include "nereid/nereid.h"

TRITONSERVER_Error *TRITONSERVER_ErrorNew(TRITONSERVER_Error_Code code, const char *msg)
{
  return error_to_abi(error_new_text((error_code)code, msg));
}

void TRITONSERVER_ErrorDelete(TRITONSERVER_Error *e)
{
  error_free(error_of(e));
}

TRITONSERVER_Error_Code TRITONSERVER_ErrorCode(TRITONSERVER_Error *e)
{
  return (TRITONSERVER_Error_Code)error_get_code(error_of(e));
}

const char *TRITONSERVER_ErrorCodeString(TRITONSERVER_Error *e)
{
  return error_code_text(error_get_code(error_of(e)));
}

const char *TRITONSERVER_ErrorMessage(TRITONSERVER_Error *e)
{
  return error_message(error_of(e));
}

uint64_t NEREID_ErrorRetryAfterNs(TRITONSERVER_Error *e)
{
  return error_retry_ns(error_of(e));
}

// SPDX-License-Identifier: Apache-2.0
// NEREID_ModelDescribe and NEREID_ModelHostRun: the two sides of a model in its own process.
#include "api/convert.h"
#include "core/isolation.h"
#include "host/host.h"
#include "nereid/nereid.h"
#include "request/message.h"
#include "triton/core/tritonbackend.h"

TRITONSERVER_Error *NEREID_ModelDescribe(TRITONBACKEND_Model *m, TRITONSERVER_Message **description)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  error *e = isolation_describe(m, &text);
  if (e == NULL)
    e = message_new_from_buffer(&text, description);
  return error_to_abi(e);
}

int NEREID_ModelHostRun(int socket)
{
  return host_run(socket);
}

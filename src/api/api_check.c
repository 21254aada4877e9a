// SPDX-License-Identifier: Apache-2.0
// NEREID_Check*: the reports of `nereid check`. The calling thread does the work.
#include "check/check.h"

#include "api/convert.h"
#include "nereid/nereid.h"
#include "request/message.h"

static TRITONSERVER_Error *finish(error *e, buffer *text, TRITONSERVER_Message **report)
{
  if (e == NULL)
    e = message_new_from_buffer(text, report);
  buffer_fini(text);
  return error_to_abi(e);
}

TRITONSERVER_Error *NEREID_CheckRepositories(TRITONSERVER_ServerOptions *options,
                                             const char *const *paths, size_t count, uint32_t flags,
                                             TRITONSERVER_Message **report)
{
  buffer text = BUFFER_EMPTY;
  error *e =
      check_report_repositories(options, paths, count, (flags & NEREID_CHECK_LOAD) != 0, &text);
  return finish(e, &text, report);
}

TRITONSERVER_Error *NEREID_CheckPrintConfig(TRITONSERVER_ServerOptions *options, const char *model,
                                            uint32_t flags, TRITONSERVER_Message **report)
{
  buffer text = BUFFER_EMPTY;
  error *e = check_report_config(options, model, (flags & NEREID_CHECK_LOAD) != 0, &text);
  return finish(e, &text, report);
}

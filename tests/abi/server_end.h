// SPDX-License-Identifier: Apache-2.0
// How the programs that embed the server end.
#ifndef NEREID_TESTS_ABI_SERVER_END_H
#define NEREID_TESTS_ABI_SERVER_END_H

#include "triton/core/tritonserver.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// With LEAVE_SERVER (tests/e2e/lib/python_sides.py says why) the process ends, and nothing is
// stopped.
static inline TRITONSERVER_Error *end_server(TRITONSERVER_Server *server)
{
  if (getenv("LEAVE_SERVER") != NULL) {
    fflush(stdout);
    _exit(EXIT_SUCCESS);
  }
  TRITONSERVER_Error *failure = TRITONSERVER_ServerStop(server);
  return failure != NULL ? failure : TRITONSERVER_ServerDelete(server);
}

#endif

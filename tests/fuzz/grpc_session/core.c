// SPDX-License-Identifier: Apache-2.0
#include "core.h"

#include "../../fakes/held.h"
#include "../fuzz.h"

#include <dlfcn.h>

static TRITONSERVER_Server *server;
static held_answer_function *answer;

static void must(TRITONSERVER_Error *e)
{
  if (e == NULL)
    return;
  fprintf(stderr, "%s\n", TRITONSERVER_ErrorMessage(e));
  abort();
}

static void stop(void)
{
  must(TRITONSERVER_ServerStop(server));
  must(TRITONSERVER_ServerDelete(server));
}

void core_reset_log(void)
{
  must(TRITONSERVER_ServerOptionsSetLogInfo(NULL, false));
  must(TRITONSERVER_ServerOptionsSetLogWarn(NULL, false));
  must(TRITONSERVER_ServerOptionsSetLogError(NULL, false));
  must(TRITONSERVER_ServerOptionsSetLogVerbose(NULL, 0));
  must(TRITONSERVER_ServerOptionsSetLogFormat(NULL, TRITONSERVER_LOG_DEFAULT));
}

static void start(void)
{
  TRITONSERVER_ServerOptions *options;
  void *library = dlopen(CORE_BACKENDS "/held/libtriton_held.so", RTLD_NOW | RTLD_LOCAL);
  CHECK(library != NULL);
  void *found = dlsym(library, HELD_ANSWER);
  CHECK(found != NULL);
  memcpy(&answer, &found, sizeof(found));
  must(TRITONSERVER_ServerOptionsNew(&options));
  must(TRITONSERVER_ServerOptionsSetLogFile(options, "/dev/null"));
  must(TRITONSERVER_ServerOptionsSetMetrics(options, false));
  must(TRITONSERVER_ServerOptionsSetModelControlMode(options, TRITONSERVER_MODEL_CONTROL_NONE));
  must(TRITONSERVER_ServerOptionsSetModelRepositoryPath(options, CORE_MODELS));
  must(TRITONSERVER_ServerOptionsSetBackendDirectory(options, CORE_BACKENDS));
  must(TRITONSERVER_ServerNew(&server, options));
  must(TRITONSERVER_ServerOptionsDelete(options));
  CHECK(atexit(stop) == 0);
}

TRITONSERVER_Server *core_get(void)
{
  if (server == NULL)
    start();
  return server;
}

bool core_answer(unsigned how)
{
  return answer(how);
}

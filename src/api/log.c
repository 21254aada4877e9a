// TRITONSERVER_Log*: how front ends, backends and embedding programs write to the server's log. Any
// thread.
#include "base/log.h"

#include "api/convert.h"

#include <string.h>

_Static_assert((int)LOG_LEVEL_INFO == (int)TRITONSERVER_LOG_INFO &&
                   (int)LOG_LEVEL_WARNING == (int)TRITONSERVER_LOG_WARN &&
                   (int)LOG_LEVEL_ERROR == (int)TRITONSERVER_LOG_ERROR &&
                   (int)LOG_LEVEL_VERBOSE == (int)TRITONSERVER_LOG_VERBOSE,
               "the log's levels are the ABI's");

// A foreign program may pass any number.
static bool level_is_known(TRITONSERVER_LogLevel level)
{
  return (unsigned)level <= TRITONSERVER_LOG_VERBOSE;
}

// Callers pass __FILE__, which may be a path of the machine that they were built on.
static const char *name_of_path(const char *path)
{
  const char *slash = strrchr(path, '/');
  return slash != NULL ? slash + 1 : path;
}

bool TRITONSERVER_LogIsEnabled(TRITONSERVER_LogLevel level)
{
  return level_is_known(level) && log_is_enabled((log_level)level);
}

TRITONSERVER_Error *TRITONSERVER_LogMessage(TRITONSERVER_LogLevel level, const char *filename,
                                            int line, const char *msg)
{
  if (!level_is_known(level))
    return error_to_abi(error_new(ERROR_INVALID_ARG, "unknown logging level '%d'", (int)level));
  if (log_is_enabled((log_level)level))
    log_write((log_level)level, name_of_path(filename), line, slice_of(msg));
  return NULL;
}

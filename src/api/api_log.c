// SPDX-License-Identifier: Apache-2.0
// TRITONSERVER_Log* and NEREID_Log*: front ends, backends and embedding programs write to the
// server's log and read its settings. Any thread.
#include "base/log.h"

#include "api/convert.h"
#include "nereid/nereid.h"

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

// Callers pass __FILE__, which may be a path of the build machine.
static const char *name_of_path(const char *path)
{
  const char *slash = strrchr(path, '/');
  return slash != NULL ? slash + 1 : path;
}

bool TRITONSERVER_LogIsEnabled(TRITONSERVER_LogLevel level)
{
  return level_is_known(level) && log_is_enabled((log_level)level);
}

static error *write_line(TRITONSERVER_LogLevel level, const char *filename, int line,
                         const log_subject *subject, const char *text)
{
  if (!level_is_known(level))
    return error_new(ERROR_INVALID_ARG, "unknown logging level '%d'", (int)level);
  if (log_is_enabled((log_level)level))
    log_write((log_level)level, name_of_path(filename), line, subject, slice_of(text));
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_LogMessage(TRITONSERVER_LogLevel level, const char *filename,
                                            int line, const char *msg)
{
  return error_to_abi(write_line(level, filename, line, NULL, msg));
}

TRITONSERVER_Error *NEREID_LogMessageAbout(TRITONSERVER_LogLevel level, const char *filename,
                                           int line, const NEREID_LogSubject *about,
                                           const char *msg)
{
  const log_subject subject = {.request_id = about->request_id,
                               .model = about->model,
                               .version = about->version,
                               .instance = about->instance,
                               .keys_only = about->keys_only};
  return error_to_abi(write_line(level, filename, line, &subject, msg));
}

void NEREID_LogGetSettings(NEREID_LogSettings *settings)
{
  _Static_assert(sizeof(settings->file) == LOG_PATH_BYTES, "every path fits");
  *settings = (NEREID_LogSettings){.info = log_is_enabled(LOG_LEVEL_INFO),
                                   .warning = log_is_enabled(LOG_LEVEL_WARNING),
                                   .error = log_is_enabled(LOG_LEVEL_ERROR),
                                   .verbose_level = log_verbose_level(),
                                   .format = (int)log_get_format()};
  log_get_file(settings->file);
}

// SPDX-License-Identifier: Apache-2.0
// Formats log lines.
#include "backend_log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

// Only nereid has this function.
extern __typeof__(NEREID_LogMessageAbout) NEREID_LogMessageAbout __attribute__((weak));

static TRITONSERVER_Error *write_prefixed(TRITONSERVER_LogLevel level, const char *file, int line,
                                          const char *request_id, const char *text)
{
  char *full = NULL;
  if (asprintf(&full, "[request id: %.256s] %s",
               request_id[0] != '\0' ? request_id : "<id_unknown>", text) < 0)
    return TRITONSERVER_LogMessage(level, file, line, text);
  TRITONSERVER_Error *error = TRITONSERVER_LogMessage(level, file, line, full);
  free(full);
  return error;
}

static TRITONSERVER_Error *write_line(TRITONSERVER_LogLevel level, const char *file, int line,
                                      const NEREID_LogSubject *about, const char *text)
{
  if (about != NULL && NEREID_LogMessageAbout != NULL)
    return NEREID_LogMessageAbout(level, file, line, about, text);
  if (about != NULL && about->request_id != NULL && !about->keys_only)
    return write_prefixed(level, file, line, about->request_id, text);
  return TRITONSERVER_LogMessage(level, file, line, text);
}

void backend_log(TRITONSERVER_LogLevel level, const char *file, int line,
                 const NEREID_LogSubject *about, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  char *text = NULL;
  int length = vasprintf(&text, format, arguments);
  va_end(arguments);
  // A failure to log is ignored.
  TRITONSERVER_ErrorDelete(write_line(level, file, line, about, length < 0 ? format : text));
  if (length >= 0)
    free(text);
}

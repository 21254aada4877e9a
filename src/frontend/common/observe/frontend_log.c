// Passes lines on.
#include "frontend/common/observe/frontend_log.h"

#include <stdio.h>

#define LINE_BYTES 2048 // longer lines are cut

void frontend_log_message_va(TRITONSERVER_LogLevel level, const char *file, int line,
                             const NEREID_LogSubject *about, const char *format, va_list arguments)
{
  static const NEREID_LogSubject nothing;
  char text[LINE_BYTES];
  vsnprintf(text, sizeof(text), format, arguments);
  TRITONSERVER_ErrorDelete(
      NEREID_LogMessageAbout(level, file, line, about == NULL ? &nothing : about, text));
}

void frontend_log_message(TRITONSERVER_LogLevel level, const char *file, int line,
                          const NEREID_LogSubject *about, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  frontend_log_message_va(level, file, line, about, format, arguments);
  va_end(arguments);
}

void frontend_log_failure(const NEREID_LogSubject *about, const char *what,
                          TRITONSERVER_Error *failure_owned)
{
  if (failure_owned == NULL)
    return;
  FRONTEND_LOG_AT(TRITONSERVER_LOG_ERROR, about, "%s: %s", what,
                  TRITONSERVER_ErrorMessage(failure_owned));
  TRITONSERVER_ErrorDelete(failure_owned);
}

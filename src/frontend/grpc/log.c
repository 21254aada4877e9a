// Passes lines on to the server's log through the north seam. Any thread.
#include "frontend/grpc/log.h"

#include <stdarg.h>
#include <stdio.h>

#define LINE_BYTES 2048 // longer lines are cut

void grpc_log_message(TRITONSERVER_LogLevel level, const char *file, int line, const char *format,
                      ...)
{
  char text[LINE_BYTES];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  TRITONSERVER_ErrorDelete(TRITONSERVER_LogMessage(level, file, line, text));
}

void grpc_log_failure(const char *what, TRITONSERVER_Error *failure_owned)
{
  if (failure_owned == NULL)
    return;
  grpc_log_error("%s: %s", what, TRITONSERVER_ErrorMessage(failure_owned));
  TRITONSERVER_ErrorDelete(failure_owned);
}

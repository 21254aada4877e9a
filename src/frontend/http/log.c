// Passes lines on to the server's log through the north seam. Any thread.
#include "frontend/http/log.h"

#include "frontend/http/exchange.h"

#include <stdarg.h>
#include <stdio.h>

#define LINE_BYTES 2048 // longer lines are cut

void http_log_message(TRITONSERVER_LogLevel level, const char *file, int line, const exchange *x,
                      const char *format, ...)
{
  char text[LINE_BYTES];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  NEREID_LogSubject about = {0};
  if (x != NULL)
    about = exchange_subject(x);
  TRITONSERVER_ErrorDelete(NEREID_LogMessageAbout(level, file, line, &about, text));
}

void http_log_failure(const exchange *x, const char *what, TRITONSERVER_Error *failure_owned)
{
  if (failure_owned == NULL)
    return;
  http_log_error_about(x, "%s: %s", what, TRITONSERVER_ErrorMessage(failure_owned));
  TRITONSERVER_ErrorDelete(failure_owned);
}

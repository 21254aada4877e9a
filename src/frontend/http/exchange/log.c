// Passes lines on to the server's log through the north seam. Any thread.
#include "frontend/http/exchange/log.h"

#include "frontend/common/observe/frontend_log.h"
#include "frontend/http/exchange/exchange.h"

#include <stdarg.h>

void http_log_message(TRITONSERVER_LogLevel level, const char *file, int line, const exchange *x,
                      const char *format, ...)
{
  NEREID_LogSubject about = {0};
  if (x != NULL)
    about = exchange_subject(x);
  va_list arguments;
  va_start(arguments, format);
  frontend_log_message_va(level, file, line, &about, format, arguments);
  va_end(arguments);
}

void http_log_failure(const exchange *x, const char *what, TRITONSERVER_Error *failure_owned)
{
  if (failure_owned == NULL)
    return;
  http_log_error_about(x, "%s: %s", what, TRITONSERVER_ErrorMessage(failure_owned));
  TRITONSERVER_ErrorDelete(failure_owned);
}

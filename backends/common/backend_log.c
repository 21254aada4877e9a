// Formatting for backend_log.h.
#include "backend_log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void backend_log(TRITONSERVER_LogLevel level, const char *file, int line, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  char *text = NULL;
  int length = vasprintf(&text, format, arguments);
  va_end(arguments);
  // A line that cannot be written is nobody's error.
  TRITONSERVER_ErrorDelete(TRITONSERVER_LogMessage(level, file, line, length < 0 ? format : text));
  if (length >= 0)
    free(text);
}

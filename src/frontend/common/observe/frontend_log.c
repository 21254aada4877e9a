// SPDX-License-Identifier: Apache-2.0
// Passes lines on, and gathers unknown settings into one line.
#include "frontend/common/observe/frontend_log.h"

#include <stdarg.h>
#include <stdio.h>

#define LINE_BYTES 2048 // longer lines are cut
#define MAX_NAMES  8    // of settings named in a line
#define NAME_BYTES 64

void frontend_log_message(TRITONSERVER_LogLevel level, const char *file, int line,
                          const NEREID_LogSubject *about, const char *format, ...)
{
  static const NEREID_LogSubject nothing;
  char text[LINE_BYTES];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  TRITONSERVER_ErrorDelete(
      NEREID_LogMessageAbout(level, file, line, about == NULL ? &nothing : about, text));
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

void ignored_settings_add(ignored_settings *ignored, const char *name)
{
  if (++ignored->count <= MAX_NAMES)
    buffer_append_format(&ignored->names, "%s'%.*s'", ignored->count > 1 ? ", " : "", NAME_BYTES,
                         name);
}

void ignored_settings_warn(ignored_settings *ignored, const char *what)
{
  if (ignored->count > MAX_NAMES)
    buffer_append_format(&ignored->names, " and %zu more", ignored->count - MAX_NAMES);
  buffer_append_char(&ignored->names, '\0');
  if (ignored->count > 0 && !ignored->names.failed)
    frontend_log_warning("a request for %s names what cannot be set there, which is ignored: %s",
                         what, ignored->names.data);
  buffer_fini(&ignored->names);
}

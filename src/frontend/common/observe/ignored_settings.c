// Gathers names for one line of the log. Called where requests for settings are read.
#include "frontend/common/observe/ignored_settings.h"

#include "frontend/common/observe/frontend_log.h"

#define MAX_NAMES  8
#define NAME_BYTES 64

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
    frontend_log_warning(
        "a request for %s settings names what cannot be set there, which is ignored: %s", what,
        ignored->names.data);
  buffer_fini(&ignored->names);
}

// Members of a request for settings that no setting has: the request succeeds, as Triton's does,
// and the log names them. Any thread, one at a time.
#ifndef NEREID_FRONTEND_COMMON_OBSERVE_IGNORED_SETTINGS_H
#define NEREID_FRONTEND_COMMON_OBSERVE_IGNORED_SETTINGS_H

#include "base/buffer.h"

#include <stddef.h>

// Begins as {0}.
typedef struct ignored_settings {
  buffer names;
  size_t count;
} ignored_settings;

void ignored_settings_add(ignored_settings *ignored, const char *name);

// Warns of them in one line, if there are any; `what` says whose settings they are not. Releases
// what `ignored` holds.
void ignored_settings_warn(ignored_settings *ignored, const char *what);

#endif

// SPDX-License-Identifier: Apache-2.0
// SIGHUP: reads again what can change while the server runs (docs/operating.md): the --config file,
// the files of keys and certificates. Main thread.
#ifndef NEREID_DAEMON_RELOAD_H
#define NEREID_DAEMON_RELOAD_H

#include "daemon/access_rules.h"
#include "daemon/options.h"
#include "daemon/ports.h"

// What the server was started with, and is changed by a reload. Borrowed.
typedef struct reload {
  int argument_count;
  char **arguments;
  daemon_options *options;
  access_rules *rules;
} reload;

// Reads everything again, puts into effect what can change, and logs a line for each flag and file
// that has changed. After an error nothing has changed, and the log says why.
void reload_run(const reload *r, ports *p);

#endif

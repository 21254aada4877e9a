// SPDX-License-Identifier: Apache-2.0
// Starts the next server, which takes over from this one (SIGUSR2, docs/upgrading.md): the
// executable that is now where this one was, with the same words and --upgrade. So it runs where
// this one does, in the service's control group and behind the same restrictions. Main thread.
#ifndef NEREID_DAEMON_SUCCESSOR_H
#define NEREID_DAEMON_SUCCESSOR_H

#include "base/error.h"

#include <sys/types.h>

typedef struct successor {
  char *executable; // its path; owned
  pid_t process;    // 0: none is awaited
} successor;

// Notes where the executable is, before another one may take its place.
error *successor_init(successor *s, char **arguments);
void successor_fini(successor *s);

// Starts it; what becomes of it shows at the upgrade address. UNAVAILABLE with the system's reason.
error *successor_start(successor *s, int argument_count, char **arguments);

// Forgets a process that has ended, without waiting.
void successor_reap(successor *s);

#endif

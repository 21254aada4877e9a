// SPDX-License-Identifier: Apache-2.0
// Starts the next server, which takes over from this one (SIGUSR2, docs/upgrading.md): the
// executable that is now where this one was, with the same words and --upgrade. So it runs where
// this one does, in the service's control group and behind the same restrictions. Main thread.
#ifndef NEREID_DAEMON_SUCCESSOR_H
#define NEREID_DAEMON_SUCCESSOR_H

#include "base/error.h"

#include <stdbool.h>
#include <sys/types.h>

#define SUCCESSOR_END_SIZE 32

typedef struct successor {
  char *executable; // its path; owned
  pid_t process;    // 0: none is awaited
  int end;          // pidfd: readable when the process has ended; -1: none
} successor;

// Notes where the executable is, before another one may take its place.
error *successor_init(successor *s, char **arguments);
void successor_fini(successor *s);

// Starts it; what becomes of it shows at the upgrade address, and in successor_ended. UNAVAILABLE
// with the system's reason, or because the one before has not ended.
error *successor_start(successor *s, int argument_count, char **arguments);

// Whether the process has ended since the last call, without waiting. If so, writes its number,
// says in `how` how it ended ("status 1"), and forgets it.
bool successor_ended(successor *s, pid_t *process, char how[SUCCESSOR_END_SIZE]);

#endif

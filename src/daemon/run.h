// SPDX-License-Identifier: Apache-2.0
// The daemon's life from the first port to the last request. Main thread.
#ifndef NEREID_DAEMON_LIFE_H
#define NEREID_DAEMON_LIFE_H

#include "daemon/reload.h"

#include <signal.h>

// SIGINT, SIGTERM, SIGHUP and SIGUSR2. They must be blocked in all threads before life_run.
sigset_t life_signals(void);

// Serves until a signal comes or start-up fails; returns the exit status. SIGHUP changes what
// `started` refers to.
int life_run(const reload *started);

#endif

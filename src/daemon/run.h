// SPDX-License-Identifier: Apache-2.0
// The daemon's life from the first port to the last request. Main thread.
#ifndef NEREID_DAEMON_LIFE_H
#define NEREID_DAEMON_LIFE_H

#include "daemon/reload.h"

// Serves until a signal comes or start-up fails; returns the exit status. SIGINT, SIGTERM,
// SIGHUP and SIGUSR2 must be blocked in all threads. SIGHUP changes what `started` refers to.
int life_run(const reload *started);

#endif

// SPDX-License-Identifier: Apache-2.0
// Feeds the service manager's watchdog (WATCHDOG_USEC, sd_watchdog_enabled(3)) while the threads
// that serve all clients make progress: the loops, the timekeeper, and the main thread, which does
// this. A model that executes for long, or a worker that hangs, does not count: the service manager
// would end all other requests, too. Main thread.
#ifndef NEREID_DAEMON_WATCHDOG_H
#define NEREID_DAEMON_WATCHDOG_H

#include "triton/core/tritonserver.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct watchdog {
  uint64_t period_ns; // between two looks: a quarter of the manager's patience; 0: nobody watches
  uint64_t next_ns;
  bool told; // the log has that it is not fed
} watchdog;

// Reads the environment. `inherits`: the manager's variables were meant for the process that this
// one follows (docs/upgrading.md).
watchdog watchdog_open(bool inherits);

// For poll(): milliseconds until the next look; -1: none is due.
int watchdog_wait_ms(const watchdog *w, uint64_t now_ns);

// Looks, if it is time: feeds the watchdog, or logs once which thread gives no sign of life.
void watchdog_look(watchdog *w, TRITONSERVER_Server *server, uint64_t now_ns);

#endif

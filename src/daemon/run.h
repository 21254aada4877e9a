// SPDX-License-Identifier: Apache-2.0
// The daemon's life from the first port to the last request. Main thread.
#ifndef NEREID_DAEMON_LIFE_H
#define NEREID_DAEMON_LIFE_H

#include "daemon/access_rules.h"
#include "daemon/options.h"

// Serves until a signal comes or start-up fails; returns the exit status. SIGINT and SIGTERM must
// be blocked in all threads.
int life_run(const daemon_options *options, const access_rules *rules);

#endif

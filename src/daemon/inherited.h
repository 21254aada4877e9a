// SPDX-License-Identifier: Apache-2.0
// Listening sockets that a service manager has opened for the daemon (sd_listen_fds(3): LISTEN_PID,
// LISTEN_FDS, LISTEN_FDNAMES). Main thread, before others run.
#ifndef NEREID_DAEMON_INHERITED_H
#define NEREID_DAEMON_INHERITED_H

#include "base/error.h"

#include <stddef.h>

typedef struct inherited inherited;

// Errors: INVALID_ARG for malformed variables. Processes started later inherit none of the sockets.
error *inherited_read(inherited **result);

// The descriptor that the unit calls `name`. The caller owns it; a second call finds nothing. 0:
// there is none.
int inherited_take(inherited *sockets, const char *name);

// Warns about sockets that were not taken, closes them and frees; NULL is allowed.
void inherited_free(inherited *sockets);

#endif

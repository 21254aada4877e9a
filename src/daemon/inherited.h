// SPDX-License-Identifier: Apache-2.0
// Listening sockets that a service manager has opened for the daemon (sd_listen_fds(3): LISTEN_PID,
// LISTEN_FDS, LISTEN_FDNAMES). Main thread, before others run.
#ifndef NEREID_DAEMON_INHERITED_H
#define NEREID_DAEMON_INHERITED_H

#include "base/error.h"

#include <stddef.h>

typedef struct inherited inherited;

// None where there are none; INVALID_ARG for variables that make no sense. No process that is
// started later gets any.
error *inherited_read(inherited **result);

// The descriptor that the unit calls `name`, once; the caller's from then on. 0: there is none.
int inherited_take(inherited *sockets, const char *name);

// Warns of what nobody has taken, closes it and frees; NULL is allowed.
void inherited_free(inherited *sockets);

#endif

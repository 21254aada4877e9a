// SPDX-License-Identifier: Apache-2.0
// Reports the daemon's state to the service manager (sd_notify's protocol: a datagram to the socket
// in NOTIFY_SOCKET). Does nothing without that variable.
#ifndef NEREID_DAEMON_NOTIFY_H
#define NEREID_DAEMON_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

// `state`: "READY=1", "STOPPING=1" and the like.
void notify_service_manager(const char *state);

// Reads a variable of the service manager. False: it is not set, or is no number.
bool notify_number(const char *variable, int64_t *value);

// Call it before reloading; send READY=1 afterwards (Type=notify-reload).
void notify_reloading(void);

#endif

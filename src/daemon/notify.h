// SPDX-License-Identifier: Apache-2.0
// Tells the service manager how the daemon is (sd_notify's protocol: a datagram to the socket in
// NOTIFY_SOCKET). Does nothing without one.
#ifndef NEREID_DAEMON_NOTIFY_H
#define NEREID_DAEMON_NOTIFY_H

// "READY=1", "STOPPING=1" and the like.
void notify_service_manager(const char *state);

// Before what a signal asks for is done; READY=1 says that it is (Type=notify-reload).
void notify_reloading(void);

#endif

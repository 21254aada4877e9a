// What a listener takes for itself where its options leave it open, and what it says at its limit.
// But for those that note these read files: at the start.
#ifndef NEREID_FRONTEND_COMMON_NET_LISTENER_LIMITS_H
#define NEREID_FRONTEND_COMMON_NET_LISTENER_LIMITS_H

#include <stddef.h>
#include <stdint.h>

// Loop threads: `wanted`, or for 0 one for each processor, 2 at least and 8 at most.
unsigned listener_loop_count(unsigned wanted);

// Open connections: `wanted`, or fewer where the process may not open as many descriptors and have
// `others` left for models, other listeners and the like, which is logged; for 0 as many
// as that allows. `what` names them.
unsigned listener_connection_limit(const char *what, unsigned wanted, size_t others);

// Logs that new connections of `what` wait, and why: at most once a minute, since clients
// that come and go at a limit would fill it. *last_logged_ns is when it was last logged, 0 at
// first. Any thread.
void listener_log_waiting(_Atomic uint64_t *last_logged_ns, const char *what, const char *reason);

// The same for a client of another protocol than those that are `spoken`.
void listener_log_protocol(_Atomic uint64_t *last_logged_ns, const char *what, const char *spoken);

// Bytes that requests may hold: `wanted`, or for 0 a quarter of the memory.
size_t listener_byte_limit(size_t wanted);

#endif

// SPDX-License-Identifier: Apache-2.0
// A gRPC listener without threads: what loop.h, jobs.h and the server's counts say, done by whoever
// calls pass. Time stands still until it is told to go on; jobs wait until one is run. One of them
// at a time; only wakes come from other threads.
#ifndef NEREID_TESTS_GRPC_LISTENER_H
#define NEREID_TESTS_GRPC_LISTENER_H

#include "frontend/common/net/listener.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Begins with options and core; what else the listener has stays from one to the next.
void listener_begin(const listener_options *options, size_t budget, TRITONSERVER_Server *core);

// A new connection; the client's end of it, non-blocking.
int listener_connect(void);

// One pass of a loop: sockets, calls that were woken, timers, output.
void listener_pass(void);

void listener_advance(uint64_t ns);
bool listener_run_job(void); // false: there is none
void listener_leave(void);   // asks all clients to go

// Waits a moment for another thread to wake a call.
void listener_wait(void);

bool listener_is_idle(void); // no connection, no call, no job
// Checks that nothing is left.
void listener_end(void);

#endif

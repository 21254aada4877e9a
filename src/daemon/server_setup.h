// SPDX-License-Identifier: Apache-2.0
// Makes a running server from the daemon's flags, through tritonserver.h.
#ifndef NEREID_DAEMON_SERVER_SETUP_H
#define NEREID_DAEMON_SERVER_SETUP_H

#include "base/error.h"
#include "daemon/options.h"
#include "nereid/nereid.h"
#include "triton/core/tritonserver.h"

// Makes the server. Its start-up models begin to load with TRITONSERVER_ServerPollModelRepository,
// which waits for them. Errors name the flag where they can. `gpu_failed` is called with `context`,
// on any thread, when a GPU has failed and the process must end (--on-gpu-fault=exit).
error *server_setup(const daemon_options *options, NEREID_GpuFailedFn_t gpu_failed, void *context,
                    TRITONSERVER_Server **server);

// Only the options, without a server. The caller deletes them with
// TRITONSERVER_ServerOptionsDelete.
error *server_setup_options(const daemon_options *options, TRITONSERVER_ServerOptions **made);

#endif

// SPDX-License-Identifier: Apache-2.0
// From the daemon's flags to a running server of the north seam.
#ifndef NEREID_DAEMON_SERVER_SETUP_H
#define NEREID_DAEMON_SERVER_SETUP_H

#include "base/error.h"
#include "daemon/options.h"
#include "nereid/nereid.h"
#include "triton/core/tritonserver.h"

// Makes the server. Its start-up models begin to load with TRITONSERVER_ServerPollModelRepository,
// which waits for them. Errors name the flag where they can. `gpu_failed`: called, on any thread,
// with `context`, when a GPU has failed and the process is to end for it.
error *server_setup(const daemon_options *options, NEREID_GpuFailedFn_t gpu_failed, void *context,
                    TRITONSERVER_Server **server);

// The options alone, for who makes no server; TRITONSERVER_ServerOptionsDelete.
error *server_setup_options(const daemon_options *options, TRITONSERVER_ServerOptions **made);

#endif

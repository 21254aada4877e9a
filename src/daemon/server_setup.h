// From the daemon's flags to a running server of the north seam.
#ifndef NEREID_DAEMON_SERVER_SETUP_H
#define NEREID_DAEMON_SERVER_SETUP_H

#include "base/error.h"
#include "daemon/options.h"
#include "triton/core/tritonserver.h"

// Makes the server. Its start-up models begin to load with TRITONSERVER_ServerPollModelRepository,
// which waits for them. Errors name the flag where they can.
error *server_setup(const daemon_options *options, TRITONSERVER_Server **server);

#endif

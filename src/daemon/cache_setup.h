// SPDX-License-Identifier: Apache-2.0
// The flags of the response cache, handed to the server. At the start, on the main thread.
#ifndef NEREID_DAEMON_CACHE_SETUP_H
#define NEREID_DAEMON_CACHE_SETUP_H

#include "base/error.h"
#include "daemon/options.h"
#include "triton/core/tritonserver.h"

// INVALID_ARG names a flag that cannot be read, or two that do not go together.
error *cache_flags_check(const daemon_options *o);
// They were checked.
error *cache_setup(TRITONSERVER_ServerOptions *options, const daemon_options *o);

#endif

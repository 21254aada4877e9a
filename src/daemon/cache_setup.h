// SPDX-License-Identifier: Apache-2.0
// Hands the flags of the response cache to the server. Main thread, at the start.
#ifndef NEREID_DAEMON_CACHE_SETUP_H
#define NEREID_DAEMON_CACHE_SETUP_H

#include "base/error.h"
#include "daemon/options.h"
#include "triton/core/tritonserver.h"

// INVALID_ARG names a flag that cannot be read, or two that exclude each other.
error *cache_flags_check(const daemon_options *o);
// Call cache_flags_check first.
error *cache_setup(TRITONSERVER_ServerOptions *options, const daemon_options *o);

#endif

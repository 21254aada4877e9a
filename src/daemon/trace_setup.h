// SPDX-License-Identifier: Apache-2.0
// Starts the trace service from the trace flags.
#ifndef NEREID_DAEMON_TRACE_SETUP_H
#define NEREID_DAEMON_TRACE_SETUP_H

#include "base/error.h"
#include "daemon/options.h"
#include "frontend/trace/trace.h"

// Starts the service. Prints warnings about deprecated flags to standard error. Errors name the
// flag.
error *trace_setup(const daemon_options *options, trace_service **service);

#endif

// SPDX-License-Identifier: Apache-2.0
// From the trace flags to the service that traces requests.
#ifndef NEREID_DAEMON_TRACE_SETUP_H
#define NEREID_DAEMON_TRACE_SETUP_H

#include "base/error.h"
#include "daemon/options.h"
#include "frontend/trace/trace.h"

// Starts the service; flags that are deprecated are said to be, on standard error. Errors name the
// flag.
error *trace_setup(const daemon_options *options, trace_service **service);

#endif

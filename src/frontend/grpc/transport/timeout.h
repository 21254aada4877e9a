// SPDX-License-Identifier: Apache-2.0
// Parses a call's deadline, the field grpc-timeout. Pure.
#ifndef NEREID_FRONTEND_GRPC_TRANSPORT_TIMEOUT_H
#define NEREID_FRONTEND_GRPC_TRANSPORT_TIMEOUT_H

#include "base/slice.h"

#include <stdint.h>

// The time `text` ("<1 to 8 digits><H|M|S|m|u|n>") after `now_ns`. 0, no deadline, for malformed
// text and for times beyond the clock's end.
uint64_t timeout_deadline(slice text, uint64_t now_ns);

#endif

// SPDX-License-Identifier: Apache-2.0
// A call's deadline as its client sends it: grpc-timeout. Pure.
#ifndef NEREID_FRONTEND_GRPC_TRANSPORT_TIMEOUT_H
#define NEREID_FRONTEND_GRPC_TRANSPORT_TIMEOUT_H

#include "base/slice.h"

#include <stdint.h>

// The moment that lies `text` ("<1 to 8 digits><H|M|S|m|u|n>") behind `now_ns`; 0, no deadline, for
// text of another form and for moments beyond the clock's end.
uint64_t timeout_deadline(slice text, uint64_t now_ns);

#endif

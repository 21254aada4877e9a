// SPDX-License-Identifier: Apache-2.0
// The table of methods that the gRPC port serves. Pure, any thread.
#ifndef NEREID_FRONTEND_GRPC_SERVICE_METHODS_H
#define NEREID_FRONTEND_GRPC_SERVICE_METHODS_H

#include "base/slice.h"
#include "frontend/grpc/call/method.h"

#include <stddef.h>

// The method of a call's :path, or NULL.
const method *methods_find(slice path);

// All rows; for the fuzz target of whole sessions.
const method *methods_all(size_t *count);

#endif

// SPDX-License-Identifier: Apache-2.0
// The server behind the listener: models of the directory models, which answer at once (identity)
// or when they are told to (held; loose, which is decoupled).
#ifndef NEREID_TESTS_GRPC_CORE_H
#define NEREID_TESTS_GRPC_CORE_H

#include "triton/core/tritonserver.h"

#include <stdbool.h>

// Starts it the first time; it stops when the program ends.
TRITONSERVER_Server *core_get(void);

// Answers a request of held or loose as held.h says; false: none is held.
bool core_answer(unsigned how);

// What a client changed of the log is undone.
void core_reset_log(void);

#endif

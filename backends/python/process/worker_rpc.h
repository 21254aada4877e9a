// SPDX-License-Identifier: Apache-2.0
// Messages to a worker about its life.
#ifndef NEREID_PYTHON_WORKER_RPC_H
#define NEREID_PYTHON_WORKER_RPC_H

#include "process/worker.h"

// Waits for the worker's WORK_HELLO, and has it import the model.
TRITONSERVER_Error *worker_greet(worker *self);

// WORK_INITIALIZE with the worker's current name.
TRITONSERVER_Error *worker_ask_initialize(worker *self, const char *arguments);

// WORK_FINALIZE, whose errors are logged. True: the worker has answered, and will end by itself.
bool worker_ask_finalize(worker *self);

#endif

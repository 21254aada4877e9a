// SPDX-License-Identifier: Apache-2.0
// What a worker is told and asked about its life; see worker_rpc.c.
#ifndef NEREID_PYTHON_WORKER_RPC_H
#define NEREID_PYTHON_WORKER_RPC_H

#include "process/worker.h"

// Waits until the worker says that it runs, and has it import the model.
TRITONSERVER_Error *worker_greet(worker *self);

// WORK_INITIALIZE, with the worker's present name. WORK_FINALIZE; what goes wrong is logged.
TRITONSERVER_Error *worker_ask_initialize(worker *self, const char *arguments);
void worker_ask_finalize(worker *self);

#endif

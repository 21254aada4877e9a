// From requests to a worker's execute and back.
#ifndef NEREID_PYTHON_EXECUTE_H
#define NEREID_PYTHON_EXECUTE_H

#include "process/worker_keeper.h"

// TRITONBACKEND_ModelInstanceExecute. An error means that no request was touched: they
// are still the server's.
TRITONSERVER_Error *python_execute(worker_keeper *keeper, TRITONBACKEND_Request **requests,
                                   uint32_t count);

// The same in two parts (backend_extension.h).
TRITONSERVER_Error *python_execute_begin(worker_keeper *keeper, TRITONBACKEND_Request **requests,
                                         uint32_t count, bool *pending);
// How many may be begun and not ended.
uint32_t python_executions_most(worker_keeper *keeper);

void python_execute_end(worker_keeper *keeper, int64_t timeout_us, bool *pending);

#endif

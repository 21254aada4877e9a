// Executions in two parts (backend_extension.h), of which several may be begun and not ended.
#ifndef NEREID_PYTHON_EXECUTION_AHEAD_H
#define NEREID_PYTHON_EXECUTION_AHEAD_H

#include "instance/python_instance.h"

TRITONSERVER_Error *python_instance_execute_begin(python_instance *self,
                                                  TRITONBACKEND_Request **requests, uint32_t count,
                                                  bool *pending);
void python_instance_execute_end(python_instance *self, int64_t timeout_us, bool *pending);

// How many may be begun and not ended.
uint32_t python_instance_max_executions(python_instance *self);

#endif

// From requests to a worker's execute and back.
#ifndef NEREID_PYTHON_EXECUTION_RUN_H
#define NEREID_PYTHON_EXECUTION_RUN_H

#include "instance/python_instance.h"

// TRITONBACKEND_ModelInstanceExecute. An error means that no request was touched: they
// are still the server's.
TRITONSERVER_Error *python_instance_execute(python_instance *self, TRITONBACKEND_Request **requests,
                                            uint32_t count);

#endif

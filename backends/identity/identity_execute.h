// Runs a batch of an identity model. Called on the instance's thread.
#ifndef NEREID_IDENTITY_EXECUTE_H
#define NEREID_IDENTITY_EXECUTE_H

#include "identity_model.h"

// Answers and releases all requests. On an error they stay the server's. `instance_index` counts
// the model's instances from 0.
TRITONSERVER_Error *identity_execute(const identity_model *model, unsigned instance_index,
                                     TRITONBACKEND_ModelInstance *instance,
                                     TRITONBACKEND_Request **requests, uint32_t count);

#endif

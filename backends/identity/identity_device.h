// SPDX-License-Identifier: Apache-2.0
// Batches of an identity model on a GPU: inputs are gathered there, and outputs copied from there.
// Two executions may be open, on one stream. Called on the instance's thread.
#ifndef NEREID_IDENTITY_DEVICE_H
#define NEREID_IDENTITY_DEVICE_H

#include "identity_execute.h"

#define IDENTITY_MOST_EXECUTIONS 2

// `*device` is NULL for an instance of another kind than KIND_GPU.
TRITONSERVER_Error *identity_device_new(const identity_model *model,
                                        TRITONBACKEND_ModelInstance *instance,
                                        struct identity_device **device);
// No execution may be open. NULL is allowed.
void identity_device_free(struct identity_device *self);

// As NEREID_ModelInstanceExecuteBegin and …End. After Begin the requests are always pending; on an
// error they stay the server's.
TRITONSERVER_Error *identity_device_begin(const identity_instance *self,
                                          TRITONBACKEND_ModelInstance *instance,
                                          TRITONBACKEND_Request **requests, uint32_t count);
bool identity_device_end(struct identity_device *self, int64_t timeout_us); // true: it has ended

bool identity_device_fault(const struct identity_device *self, char *text, size_t size);

#endif

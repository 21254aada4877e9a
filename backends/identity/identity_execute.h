// Runs a batch of an identity model. Called on the instance's thread.
#ifndef NEREID_IDENTITY_EXECUTE_H
#define NEREID_IDENTITY_EXECUTE_H

#include "identity_model.h"

typedef struct identity_instance {
  identity_model *model;
  unsigned index; // of the model's instances, from 0
  char *host_policy;
} identity_instance;

// Answers and releases all requests. On an error they stay the server's.
TRITONSERVER_Error *identity_execute(const identity_instance *self,
                                     TRITONBACKEND_ModelInstance *instance,
                                     TRITONBACKEND_Request **requests, uint32_t count);

#endif

// SPDX-License-Identifier: Apache-2.0
// The entry points that backends have alike: they look up the states of backend, model and
// instance, and call what the backend has defined as `backend_entry`. backend_entry.c is a part of
// each backend's library.
#ifndef NEREID_BACKEND_ENTRY_H
#define NEREID_BACKEND_ENTRY_H

#include "triton/core/tritonbackend.h"

#include <stdbool.h>

// States are NULL where nothing was made, also for the functions that free them.
typedef struct backend_entry_points {
  const char *name;
  uint32_t api_minor; // the smallest backend API with all that it needs
  bool prefers_cpu;   // for instances whose group says no kind
  // The same of a backend that may prefer devices: whether it does; then the CPU is its second
  // choice.
  bool (*prefers_gpu)(const void *backend_state);

  TRITONSERVER_Error *(*backend_new)(TRITONBACKEND_Backend *backend, void **state);
  void (*backend_free)(void *state);

  TRITONSERVER_Error *(*model_new)(TRITONBACKEND_Model *model, void *backend_state, void **state);
  void (*model_free)(void *state);

  TRITONSERVER_Error *(*instance_new)(TRITONBACKEND_ModelInstance *instance, void *model_state,
                                      void **state);
  void (*instance_free)(void *state);

  TRITONSERVER_Error *(*execute)(void *state, TRITONBACKEND_ModelInstance *instance,
                                 TRITONBACKEND_Request **requests, uint32_t count);
} backend_entry_points;

extern const backend_entry_points backend_entry;

#endif

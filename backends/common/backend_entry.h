// SPDX-License-Identifier: Apache-2.0
// The entry points that are alike in all backends. They look up the states of backend, model and
// instance, and call the functions of `backend_entry`, which each backend defines. backend_entry.c
// is compiled into each backend's library.
#ifndef NEREID_BACKEND_ENTRY_H
#define NEREID_BACKEND_ENTRY_H

#include "triton/core/tritonbackend.h"

#include <stdbool.h>

// A state is NULL where nothing was made; the functions that free states must take NULL.
typedef struct backend_entry_points {
  const char *name;
  uint32_t api_minor; // the smallest backend API that the backend works with
  bool prefers_cpu;   // for instances whose group names no kind
  // Instead of prefers_cpu: returns whether the backend prefers GPUs, with the CPU as second
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

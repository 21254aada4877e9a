// SPDX-License-Identifier: Apache-2.0
// The backend's state: settings, where the worker's files are. Lives from
// TRITONBACKEND_Initialize to TRITONBACKEND_Finalize; read by all models at once.
#ifndef NEREID_PYTHON_BACKEND_H
#define NEREID_PYTHON_BACKEND_H

#include "process/sandbox.h"
#include "pyenv/cache.h"

#include "triton/core/tritonbackend.h"

#include <pthread.h>

typedef struct python_backend {
  char *name;            // "python", or that of a backend whose model.py is in `model_dir`
  char *dir;             // where this library is, and worker/ beside it
  char *model_dir;       // of a backend that is written in Python; NULL: the model has its model.py
  char *interpreter;     // setting python-executable, NULL when not given
  int64_t timeout_s;     // setting stub-timeout-seconds
  int64_t hand_ahead_us; // setting hand-ahead-us
  bool prefers_gpu;      // setting default-instance-kind
  worker_sandbox sandbox;
  environment_cache *environments;
  pthread_mutex_t lock; // guards what follows
  pthread_cond_t unused;
  size_t users; // what its models have under way with the server
} python_backend;

TRITONSERVER_Error *python_backend_new(TRITONBACKEND_Backend *backend, python_backend **result);

// What a model asks of the server may end after the model: it is counted in, and out.
void python_backend_ref(python_backend *self);
void python_backend_unref(python_backend *self);

// Waits until all is counted out.
void python_backend_free(python_backend *self);

#endif

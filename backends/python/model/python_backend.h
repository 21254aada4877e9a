// SPDX-License-Identifier: Apache-2.0
// The backend's state: settings, and the worker's files. Lives from TRITONBACKEND_Initialize to
// TRITONBACKEND_Finalize; all models read it concurrently.
#ifndef NEREID_PYTHON_BACKEND_H
#define NEREID_PYTHON_BACKEND_H

#include "process/sandbox.h"
#include "pyenv/pyenv_cache.h"

#include "triton/core/tritonbackend.h"

#include <pthread.h>

typedef struct python_backend {
  char *name;        // "python", or the name of a backend whose model.py is in `model_dir`
  char *dir;         // the directory of this library and worker/
  char *model_dir;   // directory of a backend written in Python; NULL: the model has its model.py
  char *interpreter; // setting python-executable, NULL when not given
  int64_t timeout_s; // setting stub-timeout-seconds
  int64_t hand_ahead_us; // setting hand-ahead-us
  bool prefers_gpu;      // setting default-instance-kind
  worker_sandbox sandbox;
  environment_cache *environments;
  pthread_mutex_t lock; // guards what follows
  pthread_cond_t unused;
  size_t users; // open calls of its models to the server
} python_backend;

TRITONSERVER_Error *python_backend_new(TRITONBACKEND_Backend *backend, python_backend **result);

// A model's call to the server may end after the model, so each open call holds a reference.
void python_backend_ref(python_backend *self);
void python_backend_unref(python_backend *self);

// Waits until all references are gone.
void python_backend_free(python_backend *self);

#endif

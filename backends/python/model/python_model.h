// SPDX-License-Identifier: Apache-2.0
// A loaded version of a Python model: its files, its interpreter, its configured outputs. Made in
// TRITONBACKEND_ModelInitialize; its instances only read it.
#ifndef NEREID_PYTHON_PYTHON_MODEL_H
#define NEREID_PYTHON_PYTHON_MODEL_H

#include "codec/response_fill.h"
#include "model/python_backend.h"
#include "process/worker.h"
#include "pyenv/interpreter.h"

#include <stdatomic.h>

struct python_instance;

typedef struct python_model {
  python_backend *backend;
  TRITONBACKEND_Model *server_model;
  TRITONSERVER_Server *server;
  char *name;
  uint64_t version;
  char *dir;  // the model's directory, with its versions
  char *path; // directory/version/model.py, whether this file or the backend's own is run
  python_interpreter python;
  string_list command;     // starts a worker
  string_list environment; // of its workers
  json_t *config;
  char *config_text;
  int64_t max_batch_size;
  bool decoupled;
  bool takes_devices;         // inputs may lie on a GPU: FORCE_CPU_ONLY_INPUT_TENSORS is "no"
  output_signature signature; // its texts belong to `config`
  worker_settings workers;
  _Atomic(struct python_instance *) spare; // completed the configuration; for the first instance
} python_model;

TRITONSERVER_Error *python_model_new(TRITONBACKEND_Model *model, python_backend *backend,
                                     python_model **result);
void python_model_free(python_model *self); // `spare` must be taken; NULL does nothing

// Reads what instances need from the server's current configuration.
TRITONSERVER_Error *python_model_read_config(python_model *self);

#endif

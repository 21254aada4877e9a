// A loaded version of a Python model: where its files are, which interpreter runs it, what its
// configuration says of outputs. Made in TRITONBACKEND_ModelInitialize; its instances read it.
#ifndef NEREID_PYTHON_MODEL_H
#define NEREID_PYTHON_MODEL_H

#include "codec/response_fill.h"
#include "pyenv/interpreter.h"
#include "python_backend.h"

#include <pthread.h>

typedef struct worker_keeper worker_keeper;

typedef struct python_model {
  python_backend *backend;
  TRITONBACKEND_Model *server_model;
  TRITONSERVER_Server *server;
  char *name;
  uint64_t version;
  char *dir;  // the model's, with its versions
  char *path; // directory/version/model.py, whether it is run or the backend's own
  python_interpreter python;
  char **command;     // starts a worker
  char **environment; // of its workers
  json_t *config;
  char *config_text;
  int64_t max_batch_size;
  bool decoupled;
  backend_tensor_config *outputs; // their texts are the configuration's
  output_signature signature;
  int64_t thread_count; // for the worker's numeric libraries
  pthread_mutex_t lock; // guards `spare`
  worker_keeper *spare; // that completed the configuration; the first instance takes it
} python_model;

TRITONSERVER_Error *python_model_new(TRITONBACKEND_Model *model, python_backend *backend,
                                     python_model **result);
void python_model_free(python_model *self);

// What WORK_LOAD tells a worker, for free(); NULL when there is no memory.
char *python_model_load_text(const python_model *self, const char *instance_name);

// The worker that is left from completing the configuration, which becomes the caller's, or NULL.
worker_keeper *python_model_take_spare(python_model *self);

#endif

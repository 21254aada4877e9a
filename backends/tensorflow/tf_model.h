// SPDX-License-Identifier: Apache-2.0
// The steps of a TensorFlow model's life, combined in tensorflow.c; framework.h says when and on
// which thread each is called.
//
// As in Triton, each instance has a session of its own unless MAX_SESSION_SHARE_COUNT allows
// sharing, because variables, the memory of a stateful model, belong to the session. Several
// threads may run a session at once.
#ifndef NEREID_TF_MODEL_H
#define NEREID_TF_MODEL_H

#include "tf_file.h"
#include "tf_runtime.h"

#include <pthread.h>

typedef struct tf_options {
  const char *tag, *signature; // configured; "" when not
  int64_t intra_threads, inter_threads;
  bool session_threads;
  int64_t instances_per_session;
  int64_t jit; // OptimizerOptions.GlobalJitLevel
} tf_options;

// A graph with its variables, and the places of the signature's tensors in it.
typedef struct tf_session {
  tf_api_graph *graph;
  tf_api_session *session;
  tf_api_output *inputs, *outputs; // by tensor->position; unused ones have no operation
  TRITONSERVER_InstanceGroupKind kind;
  int64_t instances; // number of instances that run it; guarded by the model's lock
  struct tf_session *next;
} tf_session;

// A framework_model's state.
typedef struct tf_model {
  tf_options options;
  bool is_graph; // a GraphDef, else a SavedModel
  char *path;    // of the file or folder, relative to the model's directory
  int source;    // open descriptor of `path`
  char *folder;  // a SavedModel's path for TensorFlow
  tf_file file;
  json_t *init_ops;     // names; NULL: none
  pthread_mutex_t lock; // guards `sessions`: instances may be made concurrently
  tf_session *sessions;
} tf_model;

// An instance's state.
typedef struct tf_instance {
  tf_session *session;
  tf_api_status *status; // for its runs
} tf_instance;

static inline tf_model *tf_model_of(const framework_model *model)
{
  return model->state;
}

// tf_options.c
TRITONSERVER_Error *tf_options_read(const framework_model *model, tf_options *options);
TRITONSERVER_Error *tf_check_accelerators(const framework_model *model,
                                          TRITONSERVER_InstanceGroupKind kind);
// Session options for instances of `kind`. The caller deletes them.
TRITONSERVER_Error *tf_session_options(const framework_model *model,
                                       TRITONSERVER_InstanceGroupKind kind,
                                       tf_api_session_options **options);

// tf_load.c: the model's files; a signature without TensorFlow.
TRITONSERVER_Error *tf_model_load(framework_model *model);
void tf_model_unload(framework_model *model);

// tf_complete.c
TRITONSERVER_Error *tf_model_complete(framework_model *model, bool *changed);

// tf_session.c: a new session without instances. Load threads.
TRITONSERVER_Error *tf_session_new(const framework_model *model,
                                   TRITONSERVER_InstanceGroupKind kind, tf_session **session);
void tf_session_free(const tf_api *api, tf_session *self);
TRITONSERVER_Error *tf_instance_new(framework_instance *instance);
void tf_instance_free(framework_instance *instance);

// tf_execute.c
TRITONSERVER_Error *tf_run_begin(framework_run *run);
TRITONSERVER_Error *tf_run_add_input(framework_run *run, const framework_input *input);
TRITONSERVER_Error *tf_run_compute(framework_run *run);
TRITONSERVER_Error *tf_run_read_output(framework_run *run, size_t index, framework_output *output);
void tf_run_end(framework_run *run);

#endif

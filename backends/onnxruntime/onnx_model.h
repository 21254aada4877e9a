// SPDX-License-Identifier: Apache-2.0
// The steps of an ONNX model's life, combined in onnxruntime.c; framework.h says when and on which
// thread each is called.
//
// Each model version has one session for the CPU, which all instances there run: ONNX Runtime's Run
// may be called on any number of threads, and a second session would only be a second copy of the
// weights, a second load and a second thread pool. A session on a GPU is bound to a stream, so each
// instance there has its own.
#ifndef NEREID_ONNX_MODEL_H
#define NEREID_ONNX_MODEL_H

#include "framework.h"
#include "ort_runtime.h"

#include <pthread.h>

// Where a session runs.
typedef struct onnx_target {
  int device;         // -1: the CPU
  gpu_stream *stream; // of a device
} onnx_target;

// The model's state.
typedef struct onnx_model {
  // Guards the rest, because instances are made concurrently.
  pthread_mutex_t lock;
  ort_session *session; // on the CPU; NULL while all instances are on GPUs
  // When all instances are on GPUs: the session that gave the signature. The first instance on its
  // device takes it.
  onnx_target spare_target;
  ort_session *spare;
} onnx_model;

// An instance's state.
typedef struct onnx_instance {
  ort_session *session; // on a GPU its own
  ort_run_options *options;
  struct onnx_gpu *gpu; // NULL: on the CPU
} onnx_instance;

static inline onnx_instance *onnx_instance_of(const framework_run *run)
{
  return run->instance->state;
}

// onnx_model.c: makes a session from the model's file, and the signature from its tensors.
TRITONSERVER_Error *onnx_model_load(framework_model *model);
TRITONSERVER_Error *onnx_model_complete(framework_model *model, bool *changed);
void onnx_model_unload(framework_model *model);
// The session on the CPU, made when a configuration update brings the first instance there.
TRITONSERVER_Error *onnx_model_cpu_session(framework_model *model, ort_session **session);
// A session on an instance's device. It takes over or replaces the device's stream.
TRITONSERVER_Error *onnx_model_gpu_session(framework_model *model, backend_device *device,
                                           ort_session **session);

// onnx_options.c: session options from the model's configuration. The caller releases them.
TRITONSERVER_Error *onnx_session_options(const framework_model *model, const onnx_target *target,
                                         ort_session_options **options);

// onnx_options.c: run options from the model's configuration, for a device or the CPU (-1). The
// caller releases them.
TRITONSERVER_Error *onnx_run_options(const framework_model *model, int device,
                                     ort_run_options **options);

// onnx_providers.c: whether the model's ONNX Runtime can use GPUs.
TRITONSERVER_Error *onnx_check_gpu(const framework_model *model);
// onnx_providers.c: adds the GPU providers to a session's options.
TRITONSERVER_Error *onnx_add_gpu_providers(const framework_model *model, const onnx_target *target,
                                           ort_session_options *options);

// onnx_execute.c
TRITONSERVER_Error *onnx_instance_new(framework_instance *instance);
void onnx_instance_free(framework_instance *instance);

TRITONSERVER_Error *onnx_run_begin(framework_run *run);
TRITONSERVER_Error *onnx_run_add_input(framework_run *run, const framework_input *input);
TRITONSERVER_Error *onnx_run_compute(framework_run *run);
TRITONSERVER_Error *onnx_run_read_output(framework_run *run, size_t index,
                                         framework_output *output);
void onnx_run_end(framework_run *run);

#endif

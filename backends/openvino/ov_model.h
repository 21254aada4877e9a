// SPDX-License-Identifier: Apache-2.0
// The steps of an OpenVINO model's life, combined in openvino.c; framework.h says when and on which
// thread each is called.
//
// As in Triton, each model version has a core of its own, because properties and extensions belong
// to a core. It has one compiled model, with the weights and the threads, and one inference request
// per instance.
#ifndef NEREID_OV_MODEL_H
#define NEREID_OV_MODEL_H

#include "framework.h"
#include "ov_api.h"

// ---- ov_runtime.c: a library that was found and opened, its types and errors ----

typedef struct ov_runtime {
  ov_api api;
  const char *path;  // the library's
  char version[64];  // "2026.4.1"
  int element_shift; // see ov_element
  bool computes_in_place;
} ov_runtime;

TRITONSERVER_Error *ov_runtime_open(framework_library *library);
void ov_runtime_close(framework_library *library);

// INTERNAL, "openvino error in <doing> : <text>", as in Triton, after a call that returned
// `status`; the text is one line. NULL for success.
#define ov_error(runtime, status, doing) ov_file_error(runtime, status, doing, NULL, NULL)

// The same, with the path `from`, which OpenVINO knows, replaced by the operator's `to`.
TRITONSERVER_Error *ov_file_error(const ov_runtime *runtime, int status, const char *doing,
                                  const char *from, const char *to);

#define OV_TRY(runtime, call, doing)                                                               \
  BACKEND_RETURN_IF_ERROR(ov_error(runtime, (runtime)->api.call, doing))

// The library's number of a type, and the reverse: -1 and TRITONSERVER_TYPE_INVALID for none.
int ov_element_of(const ov_runtime *runtime, TRITONSERVER_DataType datatype);
TRITONSERVER_DataType ov_datatype_of(const ov_runtime *runtime, int element);

// Whether `word` is in the first `size` bytes of a list separated by spaces or commas.
bool ov_has_word(const char *list, size_t size, const char *word);

// ---- models ----

typedef struct ov_model_state {
  char *device; // TARGET_DEVICE
  char *file;   // the model's file, relative to its directory: "1/model.xml"
  ov_core *core;
  ov_model *model; // until it is compiled
  ov_compiled_model *compiled;
  int64_t fixed_batch; // the only batch size that the model takes; 0: any
  bool pads;           // smaller batches are padded
  bool reshapes;       // inputs get the configured shapes
  bool auto_batching;  // for devices that batch requests themselves
} ov_model_state;

static inline const ov_runtime *ov_runtime_of(const framework_model *model)
{
  return model->library->state;
}

static inline ov_model_state *ov_state_of(const framework_model *model)
{
  return model->state;
}

// ov_options.c: sets the core's properties and the state's switches from the model's parameters.
TRITONSERVER_Error *ov_options_set(framework_model *model);

// ov_signature.c: reads the model's current tensors again.
TRITONSERVER_Error *ov_signature_read(framework_model *model);

// ov_load.c
TRITONSERVER_Error *ov_model_load(framework_model *model);
TRITONSERVER_Error *ov_model_complete(framework_model *model, bool *changed);
TRITONSERVER_Error *ov_model_prepare(framework_model *model);
void ov_model_unload(framework_model *model);

// ov_fit.c: applies the configured types, shapes and batch dimension.
TRITONSERVER_Error *ov_model_fit(framework_model *model);

// ov_signature.c: whether the model's file, an IR, marks the first dimension of each input and
// output as the batch. False for other kinds of files: OpenVINO's C API does not tell.
bool ov_layouts_have_batch(const framework_model *model);

// ov_execute.c
TRITONSERVER_Error *ov_instance_new(framework_instance *instance);
void ov_instance_free(framework_instance *instance);

TRITONSERVER_Error *ov_run_begin(framework_run *run);
TRITONSERVER_Error *ov_run_add_input(framework_run *run, const framework_input *input);
TRITONSERVER_Error *ov_run_compute(framework_run *run);
TRITONSERVER_Error *ov_run_read_output(framework_run *run, size_t index, framework_output *output);

#endif

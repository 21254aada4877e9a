// SPDX-License-Identifier: Apache-2.0
// Declarations shared by the files of this directory; backends use framework.h.
#ifndef NEREID_FRAMEWORK_PARTS_H
#define NEREID_FRAMEWORK_PARTS_H

#include "backend_batch.h"
#include "framework.h"

// ---- framework_libraries.c ----

typedef struct framework_backend framework_backend;

// Reads the settings and opens the library if one is found. A missing library fails only models
// that need it.
TRITONSERVER_Error *framework_backend_new(TRITONBACKEND_Backend *backend,
                                          framework_backend **result);
// All models must be freed.
void framework_backend_free(framework_backend *self);

// The library for a model: the one named by its parameter, else the found one. Borrowed.
TRITONSERVER_Error *framework_backend_library(framework_backend *self, const json_t *model_config,
                                              framework_library **library);

// Whether models without an instance group run on GPUs. If the found library cannot use the
// machine's GPUs, a warning has said why.
bool framework_backend_prefers_gpu(const framework_backend *self);

int64_t framework_backend_default_max_batch_size(const framework_backend *self);

// ---- framework_model.c ----

TRITONSERVER_Error *framework_model_new(TRITONBACKEND_Model *model, framework_backend *backend,
                                        framework_model **result);
void framework_model_free(framework_model *model);

// ---- framework_validate.c: compares configuration and signature; fills in feeds and fetches ----

TRITONSERVER_Error *framework_validate(framework_model *model);

// ---- framework_sequence.c: the inputs that sequence batching adds (controls first, which are
// checked), and the outputs that are states. `*tensors` is for free(), also after an error ----

TRITONSERVER_Error *framework_sequence_inputs(const framework_model *model,
                                              backend_tensor_config **tensors, size_t *count);
TRITONSERVER_Error *framework_sequence_outputs(const framework_model *model,
                                               backend_tensor_config **tensors, size_t *count);

// ---- framework_execute.c ----

TRITONSERVER_Error *framework_instance_new(framework_model *model,
                                           TRITONBACKEND_ModelInstance *instance,
                                           framework_instance **result);
void framework_instance_free(framework_instance *self);

// Takes the requests, unless it returns an error.
TRITONSERVER_Error *framework_execute(framework_instance *self, TRITONBACKEND_Request **requests,
                                      uint32_t count);

// One batch.
typedef struct batch_run {
  framework_run run; // the part that the backend sees
  backend_batch batch;
  backend_input *inputs; // of the current feed, one per request
  int64_t *rows;         // per request; 1 for models that do not batch
  bool *wanted;          // [request][fetch of the model]
} batch_run;

// ---- framework_inputs.c ----

// Finds a feed in every request, into `inputs`. A request without a required input fails. False
// when no request has it.
bool framework_find_inputs(batch_run *self, const framework_feed *feed);

// Gives the run an input for each feed that any request has, and for each batch feed.
TRITONSERVER_Error *framework_add_inputs(batch_run *self);

// ---- framework_outputs.c ----

// Lists the outputs that the requests want in run.fetches. A request for an unknown output fails.
TRITONSERVER_Error *framework_list_outputs(batch_run *self);

// Makes the outputs that can be computed in the response's memory.
TRITONSERVER_Error *framework_make_rooms(batch_run *self);
void framework_drop_rooms(batch_run *self); // drops those that were not filled

// Reads each output and deals it to the responses.
TRITONSERVER_Error *framework_give_outputs(batch_run *self);

#endif

// SPDX-License-Identifier: Apache-2.0
// The warm-up samples of a model (model_warmup) as tensors with data: made once for all instances
// on the thread that loads the model, only read afterwards.
#ifndef NEREID_CORE_WARMUP_SAMPLES_H
#define NEREID_CORE_WARMUP_SAMPLES_H

#include "core/model.h"

typedef struct warmup_tensor {
  const char *name; // borrowed from the configuration, as dims
  const int64_t *dims;
  size_t dim_count;
  TRITONSERVER_DataType datatype;
  void *data; // of one request; owned
  size_t size;
} warmup_tensor;

typedef struct warmup_sample {
  const char *name;       // borrowed
  uint32_t batch_size;    // requests of an execution; at least 1
  uint32_t count;         // executions; at least 1
  warmup_tensor *tensors; // owned
  size_t tensor_count;
} warmup_sample;

typedef struct warmup_samples {
  warmup_sample *items;
  size_t count;
} warmup_samples;

// Also reads files of the folder `warmup`. For warmup_samples_fini, also after an error. Errors
// name the sample.
error *warmup_samples_init(warmup_samples *samples, const model *m);
void warmup_samples_fini(warmup_samples *samples);

#endif

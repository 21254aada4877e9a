// SPDX-License-Identifier: Apache-2.0
// A model's counters for each GPU that it has, or had, instances on: series of their own with the
// label gpu_uuid. Made with the first instance on a device, and kept as long as the model.
#ifndef NEREID_CORE_MODEL_GPUS_H
#define NEREID_CORE_MODEL_GPUS_H

#include "core/model.h"

typedef struct gpu_counters {
  int32_t device;
  statistics counters; // any thread adds
  char *metric_labels; // as the model's, with gpu_uuid; NULL where there are no metrics
} gpu_counters;

// The device's counters, for an instance that comes to it. On the model's loading thread, or the
// thread that replaces its instances. Errors: UNAVAILABLE.
error *model_gpus_add(model *m, int32_t device, gpu_counters **counters);
void model_gpus_free(model *m);

// Any thread. Counters are only added, and stay where they are.
size_t model_gpus_count(model *m);
const gpu_counters *model_gpus_at(model *m, size_t index);

#endif

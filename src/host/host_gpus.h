// SPDX-License-Identifier: Apache-2.0
// The GPUs of this process's model, watched like the server's. Made and freed by the main thread.
#ifndef NEREID_HOST_GPUS_H
#define NEREID_HOST_GPUS_H

#include "config/config.h"

typedef struct host_gpus host_gpus;

// NULL for a model without an instance on a GPU. Makes the contexts of its devices, which the
// backend uses too.
error *host_gpus_new(const Inference__ModelConfig *config, host_gpus **gpus);
struct gpu_watch *host_gpus_watch(const host_gpus *gpus); // for the model's environment
void host_gpus_free(host_gpus *gpus); // after the model is gone; NULL is allowed

#endif

// SPDX-License-Identifier: Apache-2.0
// The GPUs of a model's process. Their contexts are held, so that the watch notices dead ones; a
// fault ends the process. A new process has new contexts, and the server answers the waiting
// requests.
#include "host/host_gpus.h"

#include "core/gpu_watch.h"
#include "gpu/context.h"
#include "host/host_state.h"

#include <stdlib.h>

struct host_gpus {
  gpu_watch *watch;
  bool held[MAX_GPUS];
};

static void failed(void *context, const gpu_device *device, const char *text)
{
  (void)context, (void)device;
  host_give_up(text);
}

static error *hold(host_gpus *g, int device)
{
  if (device < 0 || device >= MAX_GPUS || g->held[device])
    return NULL;
  RETURN_IF_ERROR(gpu_context_hold(device));
  g->held[device] = true;
  return NULL;
}

static error *hold_all(host_gpus *g, const Inference__ModelConfig *config)
{
  for (size_t i = 0; i < config->n_instance_group; i++) {
    const Inference__ModelInstanceGroup *group = config->instance_group[i];
    bool is_on_gpus = group->kind == INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU;
    for (size_t k = 0; is_on_gpus && k < group->n_gpus; k++)
      RETURN_IF_ERROR(hold(g, group->gpus[k]));
  }
  return NULL;
}

static bool uses_gpus(const Inference__ModelConfig *config)
{
  for (size_t i = 0; i < config->n_instance_group; i++)
    if (config->instance_group[i]->kind == INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU)
      return true;
  return false;
}

error *host_gpus_new(const Inference__ModelConfig *config, host_gpus **result)
{
  const gpu_devices *devices;
  *result = NULL;
  if (!uses_gpus(config))
    return NULL;
  RETURN_IF_ERROR(gpu_devices_find(&devices, NULL));
  host_gpus *g = calloc(1, sizeof(*g));
  if (g == NULL)
    return error_no_memory();
  error *e = gpu_watch_new(devices, (gpu_watch_calls){.failed = failed}, &g->watch);
  if (e == NULL)
    e = hold_all(g, config);
  if (e == NULL)
    *result = g;
  else
    host_gpus_free(g);
  return e;
}

gpu_watch *host_gpus_watch(const host_gpus *g)
{
  return g == NULL ? NULL : g->watch;
}

void host_gpus_free(host_gpus *g)
{
  if (g == NULL)
    return;
  gpu_watch_free(g->watch);
  for (int device = 0; device < MAX_GPUS; device++)
    if (g->held[device])
      gpu_context_release(device);
  free(g);
}

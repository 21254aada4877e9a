// SPDX-License-Identifier: Apache-2.0
// The list only grows, under the model's instance_lock; its entries stay where they are.
#include "core/model_gpus.h"

#include "base/cleanup.h"
#include "base/thread.h"
#include "core/gpus.h"
#include "metrics/exposition.h"

#include <assert.h>
#include <stdlib.h>

static const char *uuid_of(const gpu_devices *devices, int32_t device)
{
  for (size_t i = 0; i < devices->count; i++)
    if (devices->items[i].ordinal == device)
      return devices->items[i].uuid;
  return "";
}

static error *make(const model *m, int32_t device, gpu_counters *made)
{
  AUTO_BUFFER buffer labels = BUFFER_EMPTY;
  const metric_label uuid = {"gpu_uuid", uuid_of(gpus_devices(m->environment.gpus), device)};
  made->device = device;
  RETURN_IF_ERROR(statistics_init(&made->counters, m->shared.max_batch_size));
  if (m->metric_labels == NULL)
    return NULL;
  metrics_insert_label(&labels, slice_of(m->metric_labels), uuid);
  made->metric_labels = buffer_take_text(&labels);
  return made->metric_labels == NULL ? error_no_memory() : NULL;
}

static void free_counters(gpu_counters *c)
{
  statistics_fini(&c->counters);
  free(c->metric_labels);
  free(c);
}

static error *append(model *m, gpu_counters *made)
{
  LOCK_SCOPE(&m->instance_lock);
  gpu_counters **grown = reallocarray(m->gpus, m->gpu_count + 1, sizeof(*grown));
  if (grown == NULL)
    return error_no_memory();
  m->gpus = grown;
  grown[m->gpu_count++] = made;
  return NULL;
}

error *model_gpus_add(model *m, int32_t device, gpu_counters **counters)
{
  for (size_t i = 0; i < m->gpu_count; i++) // only this thread adds
    if (m->gpus[i]->device == device) {
      *counters = m->gpus[i];
      return NULL;
    }
  gpu_counters *made = calloc(1, sizeof(*made));
  if (made == NULL)
    return error_no_memory();
  error *e = make(m, device, made);
  if (e == NULL)
    e = append(m, made);
  if (e != NULL)
    free_counters(made);
  else
    *counters = made;
  return e;
}

size_t model_gpus_count(model *m)
{
  LOCK_SCOPE(&m->instance_lock);
  return m->gpu_count;
}

const gpu_counters *model_gpus_at(model *m, size_t index)
{
  LOCK_SCOPE(&m->instance_lock);
  assert(index < m->gpu_count);
  return m->gpus[index];
}

void model_gpus_free(model *m)
{
  for (size_t i = 0; i < m->gpu_count; i++)
    free_counters(m->gpus[i]);
  free(m->gpus);
}

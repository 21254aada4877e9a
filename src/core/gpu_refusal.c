// SPDX-License-Identifier: Apache-2.0
// Runs on the watch's thread.
#include "core/gpu_refusal.h"

#include "base/log.h"
#include "core/gpu_watch.h"
#include "core/gpus.h"
#include "core/model_instances.h"
#include "core/model_queue.h"
#include "core/server_state.h"

#include <stdatomic.h>

static bool has_fault(const instance *i)
{
  char text[GPU_FAULT_BYTES];
  return instance_has_gpu_fault(i, text, sizeof(text));
}

typedef struct instance_count {
  size_t working, failed;
  int device; // of a failed instance
} instance_count;

static void count_instance(void *context, instance *i)
{
  instance_count *count = context;
  if (i->group->passive)
    return;
  if (!has_fault(i)) {
    count->working++;
    return;
  }
  count->failed++;
  count->device = i->device_id;
}

static void dismiss_failed(void *context, instance *i)
{
  (void)context;
  if (has_fault(i))
    instance_dismiss(i);
}

// Queued requests are left to the instances that work. A sequence stays with its instance, which
// refuses it.
static void refuse_model(model *m)
{
  instance_count count = {0};
  if (m->runner != NULL || atomic_load_explicit(&m->target.failed_gpu, memory_order_relaxed) > 0)
    return;
  model_visit_instances(m, count_instance, &count);
  if (count.failed > 0 && count.working > 0 && m->shared.sequences == NULL)
    model_visit_instances(m, dismiss_failed, NULL);
  if (count.failed == 0 || count.working > 0)
    return;
  atomic_store_explicit(&m->target.failed_gpu, count.device + 1, memory_order_release);
  model_queue_stop(m);
  model_queue_abandon(m);
}

static void refuse_models(void *context)
{
  server *s = context;
  for (model *m = NULL; (m = live_models_next(&s->live, m)) != NULL;)
    refuse_model(m);
}

static void failed(void *context, const gpu_device *device, const char *text)
{
  const server_options *o = &((const server *)context)->options;
  log_error("%s; requests for it are refused until the server is started again (GPU %d is %s)",
            text, device->ordinal, device->uuid);
  if (o->gpu_failed != NULL)
    o->gpu_failed(o->gpu_failed_context, device->ordinal, text);
}

static size_t count_users(void *context, int device)
{
  return gpus_users(((const server *)context)->environment.gpus, device);
}

error *server_watch_gpus(server *s)
{
  const gpu_watch_calls calls = {
      .context = s, .users = count_users, .failed = failed, .refuse = refuse_models};
  if (s->environment.gpus == NULL || gpus_devices(s->environment.gpus)->count == 0)
    return NULL;
  return gpu_watch_new(gpus_devices(s->environment.gpus), calls, &s->environment.gpu_watch);
}

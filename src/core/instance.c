// Instances: made and initialised on a load thread. The first request that is queued brings them
// their threads, which run until the scheduler stops.
#include "core/instance.h"

#include "base/log.h"
#include "base/state.h"
#include "base/thread.h"
#include "core/execute.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Lingering for clients that come back (docs/scheduling.md): a part of an execution's time.
#define LINGER_PART     8
#define LINGER_MIN_NS   UINT64_C(500000)  // executions that are shorter are over as soon
#define LINGER_MAX_NS   UINT64_C(2000000) // clients that need longer are not waiting for us
#define LINGER_MAX_SKIP 63                // executions without lingering, where nobody came

#define MAX_REQUESTS 65536 // of one execution; a configuration may name any batch size

static TRITONSERVER_InstanceGroupKind kind_of(const Inference__ModelInstanceGroup *group)
{
  switch (group->kind) {
  case INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU:
    return TRITONSERVER_INSTANCEGROUPKIND_GPU;
  case INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_MODEL:
    return TRITONSERVER_INSTANCEGROUPKIND_MODEL;
  default:
    return TRITONSERVER_INSTANCEGROUPKIND_CPU;
  }
}

static int32_t device_of(const Inference__ModelInstanceGroup *group, size_t gpu)
{
  bool on_gpu = kind_of(group) == TRITONSERVER_INSTANCEGROUPKIND_GPU && gpu < group->n_gpus;
  return on_gpu ? group->gpus[gpu] : 0;
}

// Writes the policy's name and reads its settings.
static error *find_placement(const setting_list *policies,
                             const Inference__ModelInstanceGroup *group, size_t gpu,
                             char name[HOST_POLICY_BYTES], host_placement *placement)
{
  TRITONSERVER_InstanceGroupKind kind = kind_of(group);
  if (group->host_policy != NULL && group->host_policy[0] != '\0')
    snprintf(name, HOST_POLICY_BYTES, "%s", group->host_policy);
  else if (kind == TRITONSERVER_INSTANCEGROUPKIND_GPU)
    snprintf(name, HOST_POLICY_BYTES, "gpu_%d", (int)device_of(group, gpu));
  else
    snprintf(name, HOST_POLICY_BYTES, "%s",
             kind == TRITONSERVER_INSTANCEGROUPKIND_MODEL ? "model" : "cpu");
  return host_placement_read(policies, name, placement);
}

error *instance_common_placement(const setting_list *policies, const Inference__ModelConfig *config,
                                 host_placement *common)
{
  bool first = true;
  *common = (host_placement){0};
  for (size_t g = 0; g < config->n_instance_group; g++) {
    const Inference__ModelInstanceGroup *group = config->instance_group[g];
    for (size_t gpu = 0; gpu == 0 || gpu < group->n_gpus; gpu++) {
      char name[HOST_POLICY_BYTES];
      host_placement placement;
      RETURN_IF_ERROR(find_placement(policies, group, gpu, name, &placement));
      if (first)
        *common = placement;
      first = false;
      if (!host_placement_equal(common, &placement)) {
        *common = (host_placement){0};
        return NULL;
      }
    }
  }
  return NULL;
}

static void set_stage(instance *i, instance_stage to)
{
  static const unsigned allowed[] = {
      [INSTANCE_MADE] = STATE_BIT(INSTANCE_INITIALIZED),
      [INSTANCE_INITIALIZED] = STATE_BIT(INSTANCE_RUNNING),
      [INSTANCE_RUNNING] = STATE_BIT(INSTANCE_INITIALIZED),
  };
  state_assert(allowed, atomic_load_explicit(&i->stage, memory_order_relaxed), to);
  atomic_store_explicit(&i->stage, to, memory_order_relaxed);
}

static bool is_running(const instance *i)
{
  return atomic_load_explicit(&i->stage, memory_order_relaxed) == INSTANCE_RUNNING;
}

static error *make_instance(instance_shared *shared, const Inference__ModelInstanceGroup *group,
                            size_t index, size_t gpu, instance **result)
{
  instance *i = calloc(1, sizeof(*i));
  if (i == NULL)
    return error_no_memory();
  *result = i;
  i->shared = shared;
  i->group = group;
  i->kind = kind_of(group);
  i->device_id = device_of(group, gpu);
  RETURN_IF_ERROR(find_placement(shared->host_policies, group, gpu, i->host_policy, &i->placement));
  return asprintf(&i->name, "%s_%zu", group->name, index) < 0 ? error_no_memory() : NULL;
}

// Threads and processes that the backend starts for the instance are to be in the instance's place.
static error *initialize_in_place(instance *i)
{
  host_place before;
  RETURN_IF_ERROR(host_placement_enter(&i->placement, &before));
  int missing = host_placement_missing_cores(&i->placement);
  if (missing > 0)
    log_warning("instance '%s': this process may not use %d of the cores of host policy '%s'",
                i->name, missing, i->host_policy);
  error *e = (error *)i->shared->backend->functions.model_instance_initialize(i);
  host_placement_leave(&i->placement, &before);
  return e;
}

error *instance_new(instance_shared *shared, const Inference__ModelInstanceGroup *group,
                    size_t index, size_t gpu, instance **result)
{
  const backend_functions *functions = &shared->backend->functions;
  *result = NULL;
  error *e = make_instance(shared, group, index, gpu, result);
  if (e == NULL && functions->model_instance_initialize != NULL)
    e = initialize_in_place(*result);
  if (e != NULL) {
    if (*result != NULL)
      instance_free(*result);
    *result = NULL;
    return e;
  }
  set_stage(*result, INSTANCE_INITIALIZED);
  return NULL;
}

// Threads of others may run an instance that uses nothing but CPUs, and any of them.
static void *claimable(instance *i)
{
  bool anywhere = !host_placement_is_set(&i->placement);
  return i->kind == TRITONSERVER_INSTANCEGROUPKIND_CPU && anywhere ? i : NULL;
}

static uint64_t count_rows(const instance *i, size_t count)
{
  uint64_t rows = 0;
  for (size_t n = 0; n < count; n++)
    rows += queue_item_rows(i->items[n]);
  return rows;
}

// Clients that wait for their answers before they ask again would meet in ever the same parts of a
// batch: while some are executed the others wait, and the other way round. A pause that is short
// against the execution lets them come together. Where they do not come, it is made ever more
// seldom.
static void linger_for_batch(instance *i, uint64_t rows)
{
  batch_linger *l = &i->linger;
  uint64_t typical = atomic_load_explicit(&i->shared->typical_ns, memory_order_relaxed);
  uint64_t pause = typical / LINGER_PART < LINGER_MAX_NS ? typical / LINGER_PART : LINGER_MAX_NS;
  if (typical < LINGER_MIN_NS)
    return;
  if (l->skip > 0) {
    l->skip--;
    return;
  }
  if (scheduler_linger(i->shared->scheduler, rows, clock_monotonic_ns() + pause))
    l->idle_passes = 0;
  else if (l->idle_passes < LINGER_MAX_SKIP)
    l->idle_passes = 2 * l->idle_passes + 1;
  l->skip = l->idle_passes;
}

static void *run_instance(void *argument)
{
  instance *i = argument;
  batch_close_reason reason;
  size_t count;
  AUTO_ERROR error *misplaced = host_placement_enter(&i->placement, NULL);
  if (misplaced != NULL)
    log_error("instance '%s': %s", i->name, error_message(misplaced));
  while ((count = scheduler_take(i->shared->scheduler, claimable(i), i->items, i->batch_capacity,
                                 &reason)) > 0) {
    if (count == SCHEDULER_HANDED_OFF) {
      execute_rest(i);
      continue;
    }
    uint64_t rows = count_rows(i, count); // they may be gone afterwards
    execute(i, count);
    linger_for_batch(i, rows);
  }
  return NULL;
}

static void free_batch(instance *i)
{
  statistics_fini(&i->counters);
  free(i->batch);
  free(i->executing);
  free(i->items);
}

// What an instance needs to execute; an idle one goes without.
static error *make_batch(instance *i)
{
  uint32_t rows = i->shared->max_batch_size;
  i->batch_capacity = rows < MAX_INSTANCE_BEGUN ? MAX_INSTANCE_BEGUN
                      : rows < MAX_REQUESTS     ? rows
                                                : MAX_REQUESTS;
  i->batch = calloc(i->batch_capacity, sizeof(*i->batch));
  i->executing = calloc(i->batch_capacity, sizeof(*i->executing));
  i->items = calloc(i->batch_capacity, sizeof(*i->items));
  if (i->batch == NULL || i->executing == NULL || i->items == NULL)
    return error_no_memory();
  return statistics_init(&i->counters, rows);
}

error *instance_start(instance *i)
{
  if (i->group->passive || is_running(i))
    return NULL;
  error *e = make_batch(i);
  if (e == NULL)
    e = thread_start(&i->thread, i->name, run_instance, i);
  if (e != NULL)
    free_batch(i);
  else
    set_stage(i, INSTANCE_RUNNING);
  return e;
}

void instance_join(instance *i)
{
  if (is_running(i)) {
    pthread_join(i->thread, NULL);
    free_batch(i);
    set_stage(i, INSTANCE_INITIALIZED);
  }
}

void instance_free(instance *i)
{
  const backend_functions *functions = &i->shared->backend->functions;
  assert(!is_running(i) && i->begun_count == 0);
  if (i->stage == INSTANCE_INITIALIZED && functions->model_instance_finalize != NULL) {
    AUTO_ERROR error *e = (error *)functions->model_instance_finalize(i);
    if (e != NULL)
      log_error("failed to finalize instance '%s': %s", i->name, error_message(e));
  }
  message_free(i->host_policy_message);
  free(i->name);
  free(i);
}

error *instance_ready(instance *i)
{
  const backend_functions *functions = &i->shared->backend->functions;
  if (functions->model_instance_ready == NULL)
    return NULL;
  return (error *)functions->model_instance_ready(i);
}

error *instance_host_policy(instance *i, message **policy)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  if (i->host_policy_message == NULL) {
    buffer_append_char(&text, '{');
    buffer_append_json_string(&text, slice_of(i->host_policy));
    buffer_append_char(&text, ':');
    setting_list_print(i->shared->host_policies, i->host_policy, &text);
    buffer_append_char(&text, '}');
    RETURN_IF_ERROR(message_new_from_buffer(&text, &i->host_policy_message));
  }
  *policy = i->host_policy_message;
  return NULL;
}

statistics *instance_counters(instance *i, bool *single_writer)
{
  *single_writer = is_running(i) && pthread_equal(i->thread, pthread_self());
  return *single_writer ? &i->counters : &i->shared->target->shared_statistics;
}

// SPDX-License-Identifier: Apache-2.0
// Instances: made and initialised on a load thread. The first queued request starts their threads,
// which run until the scheduler stops.
#include "core/instance.h"

#include "base/log.h"
#include "base/state.h"
#include "base/thread.h"
#include "core/execute.h"
#include "core/gpu_watch.h"
#include "core/gpus.h"
#include "core/model_gpus.h"
#include "gpu/context.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The pause for clients that come back (docs/scheduling.md): this part of an execution's time.
#define LINGER_PART     8
#define LINGER_MIN_NS   UINT64_C(500000)  // no pause where executions are shorter
#define LINGER_MAX_NS   UINT64_C(2000000) // clients that take longer are not waiting for answers
#define LINGER_MAX_SKIP 63                // executions without a pause, where none has helped
// Where each sequence has its row, an execution with fewer requests costs as much, so that a pause
// in which half of the clients come back costs nothing.
#define LINGER_ROWS_PART   2
#define LINGER_ROWS_MAX_NS UINT64_C(20000000)

#define MAX_REQUESTS 65536 // of one execution; configurations may have any batch size

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

// The permit that the instance needs to run, where there is a rate limiter. A passive instance
// never runs and needs none.
static error *join_rate_limiter(instance *i)
{
  rate_limiter *l = i->shared->rate_limiter;
  return l == NULL || i->group->passive ? NULL
                                        : rate_limiter_join(l, i->group, i->device_id, &i->permit);
}

static error *make_instance(instance_shared *shared, const Inference__ModelInstanceGroup *group,
                            size_t index, size_t gpu, instance **result)
{
  instance *i = calloc(1, sizeof(*i));
  if (i == NULL)
    return error_no_memory();
  *result = i;
  memory_report_init(&i->memory);
  i->shared = shared;
  i->group = group;
  i->index = index;
  i->kind = kind_of(group);
  i->device_id = device_of(group, gpu);
  i->leader = i->next = i;
  RETURN_IF_ERROR(find_placement(shared->host_policies, group, gpu, i->host_policy, &i->placement));
  size_t each = i->kind == TRITONSERVER_INSTANCEGROUPKIND_GPU ? group->n_gpus : 1;
  if (asprintf(&i->name, "%s_%zu", group->name, index / each) < 0) // the same name on each GPU
    return error_no_memory();
  return join_rate_limiter(i);
}

// Threads and processes that the backend starts for the instance inherit the placement.
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

// Makes the device's context and pools before the backend uses it, unless the backend runs in
// another process.
static error *use_gpu(instance *i)
{
  gpus *g = i->shared->gpus;
  if (i->kind != TRITONSERVER_INSTANCEGROUPKIND_GPU || g == NULL || i->shared->is_isolated)
    return NULL;
  RETURN_IF_ERROR(gpus_use(g, i->device_id));
  i->uses_gpu = true;
  return NULL;
}

// Checks the use of the GPU's memory, as Triton does after the fact: only now is it known.
static error *check_limit(const instance *i)
{
  if (i->kind != TRITONSERVER_INSTANCEGROUPKIND_GPU || i->shared->gpus == NULL)
    return NULL;
  return gpus_check_limit(i->shared->gpus, i->device_id, i->name);
}

error *instance_new(instance_shared *shared, const Inference__ModelInstanceGroup *group,
                    size_t index, size_t gpu, instance **result)
{
  const backend_functions *functions = &shared->backend->functions;
  *result = NULL;
  error *e = make_instance(shared, group, index, gpu, result);
  if (e == NULL)
    e = use_gpu(*result);
  if (e == NULL && functions->model_instance_initialize != NULL)
    e = initialize_in_place(*result);
  if (e == NULL) {
    set_stage(*result, INSTANCE_INITIALIZED);
    e = check_limit(*result);
  }
  if (e != NULL) {
    if (*result != NULL)
      instance_free(*result);
    *result = NULL;
  }
  return e;
}

// The instance, if other threads may run it: it uses CPUs only, and any of them. Else NULL.
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

static uint64_t pause_after(const instance *i, uint64_t typical_ns)
{
  bool has_rows = i->row_controls != NULL;
  uint64_t pause = typical_ns / (has_rows ? LINGER_ROWS_PART : LINGER_PART);
  uint64_t longest = has_rows ? LINGER_ROWS_MAX_NS : LINGER_MAX_NS;
  return pause < longest ? pause : longest;
}

// Clients that wait for their answers before they ask again would always meet in the same parts of
// a batch: while some are executed the others wait, and the other way round. A pause that is short
// compared with the execution lets them come together. While pauses are in vain, they become rarer.
static void linger_for_batch(instance *i, uint64_t rows)
{
  batch_linger *l = &i->linger;
  uint64_t typical = atomic_load_explicit(&i->shared->typical_ns, memory_order_relaxed);
  uint64_t pause = pause_after(i, typical);
  if (typical < LINGER_MIN_NS)
    return;
  if (l->skip > 0) {
    l->skip--;
    return;
  }
  if (scheduler_linger(i->scheduler, rows, clock_monotonic_ns() + pause))
    l->idle_passes = 0;
  else if (l->idle_passes < LINGER_MAX_SKIP)
    l->idle_passes = 2 * l->idle_passes + 1;
  l->skip = l->idle_passes;
}

// ---- with a rate limiter ----

bool instance_may_run(void *i)
{
  return rate_limiter_try(((instance *)i)->permit);
}

void instance_end_wait(void *unused, instance *i)
{
  (void)unused;
  if (i->permit != NULL)
    rate_limiter_end(i->permit);
}

// Whether other instances of the model may need other resources than this one.
static bool has_others(const instance *i)
{
  return i->group->n_gpus > 1 ||
         atomic_load_explicit(&i->shared->group_count, memory_order_relaxed) > 1;
}

// As scheduler_take, but the instance then also has its resources.
static size_t take_permitted(instance *i, batch_close_reason *reason)
{
  for (;;) {
    if (!i->asked) {
      size_t found = scheduler_await(i->scheduler, claimable(i), &i->leaving, true);
      if (found != 1)
        return found;
      i->granted = rate_limiter_ask(i->permit);
    }
    bool offered = !i->granted && has_others(i); // others may take the work while this one waits
    if (offered)
      scheduler_offer(i->scheduler);
    i->asked = false;
    bool permitted = rate_limiter_wait(i->permit);
    size_t count = scheduler_take_awaited(i->scheduler, offered, &i->leaving, i->items,
                                          permitted ? i->batch_capacity : 0, reason);
    if (count > 0)
      return count;
    if (permitted)
      rate_limiter_release(i->permit, false);
  }
}

// Called after an execution. If the thread continues with another instance, that instance asks.
static void end_permit(instance *i)
{
  i->asked = i->next == i && scheduler_await(i->scheduler, NULL, &i->leaving, false) == 1;
  if (i->asked)
    i->granted = rate_limiter_release_and_ask(i->permit);
  else
    rate_limiter_release(i->permit, true);
}

static size_t take_batch(instance *i, batch_close_reason *reason)
{
  if (i->permit != NULL)
    return take_permitted(i, reason);
  return scheduler_take(i->scheduler, claimable(i), &i->leaving, i->items, i->batch_capacity,
                        reason);
}

static void *run_instance(void *argument)
{
  instance *i = argument;
  batch_close_reason reason;
  size_t count;
  AUTO_ERROR error *misplaced = host_placement_enter(&i->placement, NULL);
  if (misplaced != NULL)
    log_error("instance '%s': %s", i->name, error_message(misplaced));
  AUTO_ERROR error *without = i->uses_gpu ? gpu_context_enter(i->device_id) : NULL;
  if (without != NULL)
    log_error("instance '%s': %s", i->name, error_message(without));
  for (; (count = take_batch(i, &reason)) > 0; i = i->next) {
    if (count == SCHEDULER_HANDED_OFF) {
      execute_rest(i);
      if (i->permit != NULL)
        end_permit(i);
      continue;
    }
    uint64_t rows = count_rows(i, count); // the requests may be gone afterwards
    execute(i, count);
    if (i->permit != NULL)
      end_permit(i);
    if (!i->asked)
      linger_for_batch(i, rows);
  }
  return NULL;
}

// May be called again.
static void free_batch(instance *i)
{
  statistics_fini(&i->counters);
  free(i->batch);
  free(i->executing);
  free(i->items);
  free(i->arrived_ns);
  i->counters = (statistics){0};
  i->batch = NULL;
  i->executing = NULL;
  i->items = NULL;
  i->arrived_ns = NULL;
}

static error *make_batch(instance *i, size_t capacity)
{
  i->batch_capacity = capacity < MAX_INSTANCE_BEGUN ? MAX_INSTANCE_BEGUN : capacity;
  i->batch = calloc(i->batch_capacity, sizeof(*i->batch));
  i->executing = calloc(i->batch_capacity, sizeof(*i->executing));
  i->items = calloc(i->batch_capacity, sizeof(*i->items));
  bool fits = i->batch != NULL && i->executing != NULL && i->items != NULL;
  if (i->shared->objective_ns != 0) {
    i->arrived_ns = calloc(i->batch_capacity, sizeof(*i->arrived_ns));
    fits = fits && i->arrived_ns != NULL;
  }
  if (!fits)
    return error_no_memory();
  return statistics_init(&i->counters, i->shared->max_batch_size);
}

error *instance_make_room(instance *i, size_t count)
{
  assert(!instance_is_running(i));
  error *e = make_batch(i, count);
  if (e != NULL)
    free_batch(i);
  return e;
}

void instance_free_room(instance *i)
{
  assert(!instance_is_running(i) && i->begun_count == 0);
  free_batch(i);
}

void instance_follow(instance *i, instance *mate)
{
  assert(!instance_is_running(i) && !instance_is_running(mate) && i->leader == i &&
         mate->next == mate->leader);
  i->leader = mate->leader;
  i->next = mate->next;
  mate->next = i;
}

// Memory for a batch is allocated only here: an instance that was never started has none.
error *instance_start(instance *i)
{
  char fault[GPU_FAULT_BYTES];
  uint32_t rows = i->shared->max_batch_size;
  if (i->group->passive || instance_is_running(i) ||
      instance_has_gpu_fault(i, fault, sizeof(fault)))
    return NULL;
  error *e = make_batch(i, rows < MAX_REQUESTS ? rows : MAX_REQUESTS);
  if (e == NULL && i->leader == i)
    e = thread_start(&i->thread, i->name, run_instance, i);
  if (e == NULL)
    set_stage(i, INSTANCE_RUNNING);
  else
    free_batch(i);
  return e;
}

void instance_dismiss(instance *i)
{
  if (instance_is_running(i)) {
    scheduler_dismiss(i->scheduler, &i->leaving);
    instance_end_wait(NULL, i);
  }
}

void instance_join(instance *i)
{
  if (instance_is_running(i)) {
    if (i->leader == i)
      pthread_join(i->thread, NULL);
    set_stage(i, INSTANCE_INITIALIZED);
  }
}

void instance_free(instance *i)
{
  const backend_functions *functions = &i->shared->backend->functions;
  assert(!instance_is_running(i) && i->begun_count == 0);
  if (i->stage == INSTANCE_INITIALIZED && functions->model_instance_finalize != NULL) {
    AUTO_ERROR error *e = (error *)functions->model_instance_finalize(i);
    if (e != NULL)
      log_error("failed to finalize instance '%s': %s", i->name, error_message(e));
  }
  if (i->uses_gpu)
    gpus_leave(i->shared->gpus, i->device_id);
  if (i->looked_after_by != NULL)
    gpu_watch_end_apart(i->looked_after_by, i->device_id);
  rate_limiter_leave(i->permit);
  free_batch(i);
  memory_report_fini(&i->memory);
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
  if (i->on_gpu != NULL) {
    *single_writer = false;
    return &i->on_gpu->counters;
  }
  *single_writer = instance_is_running(i) && pthread_equal(i->leader->thread, pthread_self());
  return *single_writer ? &i->counters : &i->shared->target->shared_statistics;
}

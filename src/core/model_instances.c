// SPDX-License-Identifier: Apache-2.0
// See model_instances.h. Load threads make and replace sets, the reaper's threads take out
// instances that leave, and front ends ask for health and statistics. No lock but change_lock is
// held while a backend is called.
#include "core/model_instances.h"

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/thread.h"
#include "core/gpu_watch.h"
#include "core/gpus.h"
#include "core/model_gpus.h"
#include "core/model_queue.h"
#include "core/sequences.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

// ---- reading ----

static instance_set *enter(model *m)
{
  LOCK_SCOPE(&m->instance_lock);
  m->instances->readers++;
  return m->instances;
}

static void leave(model *m, instance_set *set)
{
  LOCK_SCOPE(&m->instance_lock);
  assert(set->readers > 0);
  if (--set->readers == 0)
    pthread_cond_broadcast(&m->instances_left);
}

static size_t total(const instance_set *set)
{
  return set->count + set->leaving;
}

void model_visit_instances(model *m, void (*visit)(void *context, instance *i), void *context)
{
  instance_set *set = enter(m);
  for (size_t i = 0; i < total(set); i++)
    visit(context, set->items[i]);
  leave(m, set);
}

void model_ask_health(model *m)
{
  const backend_functions *functions = &m->shared.backend->functions;
  if (functions->model_instance_ask_ready == NULL)
    return;
  instance_set *set = enter(m);
  for (size_t i = 0; i < set->count; i++) {
    char fault[GPU_FAULT_BYTES];
    if (!instance_has_gpu_fault(set->items[i], fault, sizeof(fault)))
      functions->model_instance_ask_ready(set->items[i]);
  }
  leave(m, set);
}

// Reads all answers: the answer to one question must not be left for the next one.
bool model_is_healthy(model *m)
{
  bool healthy = true;
  instance_set *set = enter(m);
  for (size_t i = 0; i < set->count; i++) {
    AUTO_ERROR error *e = instance_gpu_refusal(set->items[i]);
    if (e == NULL) // else the backend may hang: its answer is not read, though it was asked
      e = instance_ready(set->items[i]);
    if (e != NULL)
      log_verbose(1, "instance '%s' is not ready: %s", set->items[i]->name, error_message(e));
    healthy = healthy && e == NULL;
  }
  leave(m, set);
  return healthy;
}

bool model_has_fault(model *m, char *text, size_t size)
{
  const backend_functions *functions = &m->shared.backend->functions;
  if (functions->model_instance_fault == NULL && m->environment.gpu_watch == NULL)
    return false;
  bool found = false;
  instance_set *set = enter(m);
  for (size_t i = 0; i < set->count && !found; i++)
    found = instance_has_gpu_fault(set->items[i], text, size);
  for (size_t i = 0; functions->model_instance_fault != NULL && i < set->count && !found; i++)
    found = functions->model_instance_fault(set->items[i], text, size);
  leave(m, set);
  return found;
}

// Holds the lock throughout: counts of an instance that leaves move to the shared counters.
void model_statistics_off_gpus(model *m, statistics *sum)
{
  LOCK_SCOPE(&m->instance_lock);
  statistics_add(sum, &m->target.shared_statistics);
  if (!model_is_started(m))
    return;
  for (size_t i = 0; i < total(m->instances); i++)
    statistics_add(sum, &m->instances->items[i]->counters);
}

void model_statistics(model *m, statistics *sum)
{
  model_statistics_off_gpus(m, sum);
  for (size_t i = 0; i < model_gpus_count(m); i++)
    statistics_add(sum, &model_gpus_at(m, i)->counters);
}

error *model_print_config(model *m, buffer *out)
{
  LOCK_SCOPE(&m->instance_lock);
  return config_print_json(m->config, out);
}

// ---- making ----

// A set with room for the configuration's instances and `more`.
static instance_set *new_set(const Inference__ModelConfig *config, size_t more)
{
  size_t size;
  bool fits = checked_array_size(sizeof(instance_set), config_instances(config) + more,
                                 sizeof(instance *), &size);
  return fits ? calloc(1, size) : NULL;
}

// No instance is made on a GPU that has failed.
static error *check_gpu(const model *m, const Inference__ModelInstanceGroup *group, size_t gpu)
{
  char fault[GPU_FAULT_BYTES];
  if (m->environment.gpu_watch == NULL || gpu >= group->n_gpus)
    return NULL;
  if (gpu_fault(group->gpus[gpu], fault, sizeof(fault)))
    return error_new(ERROR_UNAVAILABLE, "instance group %s of model %s cannot be made: %s",
                     group->name, m->name, fault);
  return NULL;
}

static error *follow_gpu(model *m, instance *i)
{
  RETURN_IF_ERROR(gpu_watch_begin(m->environment.gpu_watch));
  return model_gpus_add(m, i->device_id, &i->on_gpu);
}

static error *add_instance(model *m, instance_set *set, const Inference__ModelInstanceGroup *group,
                           size_t index)
{
  size_t gpu = group->n_gpus > 0 ? index % group->n_gpus : 0;
  RETURN_IF_ERROR(check_gpu(m, group, gpu));
  RETURN_IF_ERROR(instance_new(&m->shared, group, index, gpu, &set->items[set->count]));
  instance *added = set->items[set->count++];
  model_queue_attach(m, added);
  if (added->uses_gpu)
    return follow_gpu(m, added);
  if (added->kind != TRITONSERVER_INSTANCEGROUPKIND_GPU || m->environment.gpu_watch == NULL)
    return NULL;
  added->looked_after_by = m->environment.gpu_watch;
  return gpu_watch_begin_apart(added->looked_after_by, added->device_id);
}

// Whether instances on one GPU share a thread. As in Triton, models with sequences do not.
static bool blocks_devices(const model *m)
{
  return m->shared.backend->policy == TRITONBACKEND_EXECUTION_DEVICE_BLOCKING &&
         m->shared.sequences == NULL;
}

static bool are_mates(const instance *a, const instance *b)
{
  return a->kind == TRITONSERVER_INSTANCEGROUPKIND_GPU && b->kind == a->kind &&
         a->device_id == b->device_id && !a->group->passive && !b->group->passive;
}

static void share_threads(const instance_set *set)
{
  for (size_t i = 1; i < set->count; i++)
    for (size_t k = i; k-- > 0;)
      if (are_mates(set->items[i], set->items[k])) {
        instance_follow(set->items[i], set->items[k]);
        break;
      }
}

// Whether inputs are copied from the host to a GPU, which is fastest from pinned memory. The
// configuration may disable this.
static bool want_pinned(const model *m)
{
  const Inference__ModelOptimizationPolicy *policy = m->config->optimization;
  bool any = false;
  for (size_t i = 0; i < m->instances->count; i++)
    any = any || m->instances->items[i]->uses_gpu;
  return any && !m->shared.backend->reads_on_host && policy->input_pinned_memory->enable;
}

// Passive instances do not count, since they get no requests. Instances that share a thread count
// as one.
static void publish_counts(model *m)
{
  size_t count = 0;
  for (size_t i = 0; i < m->instances->count; i++)
    count += !m->instances->items[i]->group->passive &&
             m->instances->items[i]->leader == m->instances->items[i];
  atomic_store_explicit(&m->shared.instance_count, count, memory_order_relaxed);
  atomic_store_explicit(&m->shared.group_count, m->config->n_instance_group, memory_order_relaxed);
  atomic_store_explicit(&m->shared.wants_pinned, want_pinned(m), memory_order_relaxed);
  if (m->shared.objective_ns != 0 && count > 0)
    scheduler_set_workers(m->shared.scheduler, count);
}

error *model_instances_make(model *m)
{
  m->instances = new_set(m->config, 0);
  if (m->instances == NULL)
    return error_no_memory();
  for (size_t g = 0; g < m->config->n_instance_group; g++) {
    const Inference__ModelInstanceGroup *group = m->config->instance_group[g];
    size_t count = config_group_instances(group);
    for (size_t i = 0; i < count; i++)
      RETURN_IF_ERROR(add_instance(m, m->instances, group, i));
  }
  if (blocks_devices(m))
    share_threads(m->instances);
  else if (m->shared.backend->policy == TRITONBACKEND_EXECUTION_DEVICE_BLOCKING)
    log_info("Overriding execution policy to \"TRITONBACKEND_EXECUTION_BLOCKING\" for sequence "
             "model \"%s\"",
             m->name);
  publish_counts(m);
  return NULL;
}

error *model_start(model *m)
{
  LOCK_SCOPE(&m->start_lock);
  // Sets are replaced under the same lock. Backwards: an instance that leads others starts last.
  for (size_t i = m->instances->count; i-- > 0;)
    RETURN_IF_ERROR(instance_start(m->instances->items[i]));
  atomic_store_explicit(&m->started, true, memory_order_release);
  return NULL;
}

static void join_all(const instance_set *set)
{
  for (size_t i = 0; i < total(set); i++)
    instance_join(set->items[i]);
}

static void end_instance(instance *i)
{
  if (i->shared->sequences != NULL)
    sequences_detach(i->shared->sequences, i);
  instance_free(i);
}

static void end_all(const instance_set *set)
{
  for (size_t i = 0; i < total(set); i++)
    end_instance(set->items[i]);
}

// The configurations whose groups leaving instances still borrow.
typedef struct former_groups {
  Inference__ModelConfig *config;
  struct former_groups *next;
} former_groups;

static void free_former_groups(model *m)
{
  for (former_groups *former = m->former_groups, *next; former != NULL; former = next) {
    next = former->next;
    config_free(former->config);
    free(former);
  }
  m->former_groups = NULL;
}

void model_instances_free(model *m)
{
  if (m->instances == NULL)
    return;
  assert(m->instances->readers == 0);
  join_all(m->instances);
  end_all(m->instances);
  free(m->instances);
  free_former_groups(m);
}

// ---- leaving late ----

// Counts of the instance stay counted: statistics find them either here or there.
static void take_out(model *m, instance *i)
{
  LOCK_SCOPE(&m->instance_lock);
  instance_set *set = m->instances;
  size_t at = set->count;
  while (set->readers > 0)
    pthread_cond_wait(&m->instances_left, &m->instance_lock);
  while (set->items[at] != i) {
    at++;
    assert(at < total(set));
  }
  statistics_fold(&m->target.shared_statistics, &i->counters);
  set->items[at] = set->items[total(set) - 1];
  set->leaving--;
}

static void leave_late(load_task *task)
{
  instance *i = container_of(task, instance, leave_task);
  model *m = i->shared->model;
  pthread_mutex_lock(&m->change_lock);
  instance_dismiss(i);
  instance_join(i);
  take_out(m, i);
  log_info("instance '%s' of model '%s' version %" PRId64 " went: its sequences have ended",
           i->name, m->name, m->target.version);
  end_instance(i);
  if (m->instances->leaving == 0)
    free_former_groups(m);
  pthread_mutex_unlock(&m->change_lock);
  request_target_unref(&m->target);
}

// Called on any thread when the last sequence has left the instance (sequences_leave). A model
// without references ends all its instances itself.
static void vacated(instance *i)
{
  model *m = i->shared->model;
  if (!refcount_try_take(&m->target.references))
    return;
  i->leave_task.run = leave_late;
  m->environment.run_later(m->environment.server, &i->leave_task);
}

// ---- replacing ----

typedef struct replacement {
  model *m;
  Inference__ModelConfig *config; // its groups become the model's; then it has the former ones
  size_t *former; // for each of its groups: 1 + the number of the model's equal group; 0: none
  instance_set *next;
  instance_set *added, *removed;
  size_t late;                                    // instances that leave after their sequences
  former_groups *former_groups;                   // room for `config`, if instances leave late
  Inference__ModelInstanceGroup **groups, **left; // room for the new groups and the former ones
} replacement;

static void fini_replacement(replacement *r)
{
  config_free(r->config);
  free(r->former);
  free(r->next);
  free(r->added);
  free(r->removed);
  free(r->former_groups);
  free(r->groups);
  free(r->left);
}

// The model's group that equals the new group number `wanted` and that no other new group has
// taken; 0: none.
static error *find_former(const replacement *r, size_t wanted, size_t *former)
{
  const Inference__ModelConfig *now = r->m->config;
  for (size_t g = 0; g < now->n_instance_group; g++) {
    bool taken = false;
    for (size_t i = 0; i < wanted; i++)
      taken = taken || r->former[i] == g + 1;
    bool alike = false;
    if (!taken)
      RETURN_IF_ERROR(
          config_groups_alike(now->instance_group[g], r->config->instance_group[wanted], &alike));
    if (alike) {
      *former = g + 1;
      break;
    }
  }
  return NULL;
}

static error *prepare(replacement *r, const Inference__ModelConfig *config)
{
  config_gpus gpus = gpus_supported(r->m->environment.gpus);
  const backend_attribute *prefers = &r->m->shared.backend->attribute;
  gpus.avoided = prefers->avoids_gpus;
  RETURN_IF_ERROR(config_copy(config, &r->config));
  RETURN_IF_ERROR(
      config_normalize_instance_groups(r->config, prefers->groups, prefers->group_count, gpus));
  RETURN_IF_ERROR(config_validate_instance_groups(r->config, gpus, NULL));
  r->former = calloc(r->config->n_instance_group + 1, sizeof(*r->former));
  r->next = new_set(r->config, total(r->m->instances));
  r->added = new_set(r->config, 0);
  r->removed = new_set(r->m->config, 0);
  r->former_groups = calloc(1, sizeof(*r->former_groups));
  size_t group_count = r->config->n_instance_group + r->m->config->n_instance_group;
  r->groups = calloc(group_count + 1, sizeof(Inference__ModelInstanceGroup *));
  r->left = calloc(group_count + 1, sizeof(Inference__ModelInstanceGroup *));
  if (r->former == NULL || r->next == NULL || r->added == NULL || r->removed == NULL ||
      r->former_groups == NULL || r->groups == NULL || r->left == NULL)
    return error_no_memory();
  for (size_t g = 0; g < r->config->n_instance_group; g++)
    RETURN_IF_ERROR(find_former(r, g, &r->former[g]));
  return NULL;
}

// The group that the instances refer to, and that outlives them: the model's equal group stays.
static Inference__ModelInstanceGroup *group_of(const replacement *r, size_t g)
{
  return r->former[g] != 0 ? r->m->config->instance_group[r->former[g] - 1]
                           : r->config->instance_group[g];
}

static instance *find_instance(const instance_set *set, const Inference__ModelInstanceGroup *group,
                               size_t index)
{
  for (size_t i = 0; i < set->count; i++)
    if (set->items[i]->group == group && set->items[i]->index == index)
      return set->items[i];
  return NULL;
}

static size_t count_missing(const replacement *r)
{
  size_t missing = 0;
  for (size_t g = 0; g < r->config->n_instance_group; g++) {
    size_t count = config_group_instances(r->config->instance_group[g]);
    for (size_t i = 0; i < count; i++)
      missing += find_instance(r->m->instances, group_of(r, g), i) == NULL;
  }
  return missing;
}

static error *add_missing(replacement *r)
{
  for (size_t g = 0; g < r->config->n_instance_group; g++) {
    const Inference__ModelInstanceGroup *group = group_of(r, g);
    size_t count = config_group_instances(r->config->instance_group[g]);
    for (size_t i = 0; i < count; i++) {
      instance *present = find_instance(r->m->instances, group, i);
      if (present == NULL) {
        RETURN_IF_ERROR(add_instance(r->m, r->added, group, i));
        present = r->added->items[r->added->count - 1];
      }
      r->next->items[r->next->count++] = present;
    }
  }
  return NULL;
}

static void find_removed(replacement *r)
{
  const instance_set *now = r->m->instances;
  for (size_t i = 0; i < now->count; i++) {
    bool stays = false;
    for (size_t k = 0; k < r->next->count && !stays; k++)
      stays = r->next->items[k] == now->items[i];
    if (!stays)
      r->removed->items[r->removed->count++] = now->items[i];
  }
}

// Puts the instances that leave late, which still have sequences, behind those that stay.
static void part(replacement *r)
{
  const instance_set *now = r->m->instances;
  instance_set *next = r->next;
  const size_t count = r->removed->count;
  r->removed->count = 0;
  for (size_t i = now->count; i < total(now); i++)
    next->items[next->count + next->leaving++] = now->items[i];
  for (size_t i = 0; i < count; i++) {
    instance *removed = r->removed->items[i];
    if (r->m->shared.sequences == NULL || sequences_leave(r->m->shared.sequences, removed, vacated))
      r->removed->items[r->removed->count++] = removed;
    else
      next->items[next->count + next->leaving++] = removed;
  }
  r->late = count - r->removed->count;
}

static void dismiss_all(const instance_set *set)
{
  for (size_t i = 0; i < set->count; i++)
    instance_dismiss(set->items[i]);
  join_all(set);
}

static error *start_added(replacement *r)
{
  assert(lock_is_held(&r->m->start_lock));
  for (size_t i = 0; model_is_started(r->m) && i < r->added->count; i++)
    RETURN_IF_ERROR(instance_start(r->added->items[i]));
  return NULL;
}

// Exchanges the groups of the two configurations. Groups that stay keep their place in memory; only
// their name and count are exchanged.
static void exchange_groups(replacement *r)
{
  Inference__ModelConfig *now = r->m->config, *next = r->config;
  size_t count = next->n_instance_group, left_count = 0;
  for (size_t g = 0; g < count; g++) {
    Inference__ModelInstanceGroup *wanted = next->instance_group[g], *stays = group_of(r, g);
    r->groups[g] = stays;
    if (stays == wanted)
      continue;
    char *name = stays->name;
    stays->name = wanted->name;
    stays->count = wanted->count;
    wanted->name = name;
    r->left[left_count++] = wanted;
    now->instance_group[r->former[g] - 1] = NULL;
  }
  for (size_t g = 0; g < now->n_instance_group; g++)
    if (now->instance_group[g] != NULL)
      r->left[left_count++] = now->instance_group[g];
  free(now->instance_group);
  free(next->instance_group);
  now->instance_group = r->groups;
  now->n_instance_group = count;
  next->instance_group = r->left;
  next->n_instance_group = left_count;
  r->groups = r->left = NULL;
}

// Afterwards r->next is the former set, which has no readers.
static void exchange(replacement *r)
{
  model *m = r->m;
  assert(lock_is_held(&m->start_lock));
  LOCK_SCOPE(&m->instance_lock);
  exchange_groups(r);
  for (size_t i = 0; i < r->removed->count; i++)
    statistics_fold(&m->target.shared_statistics, &r->removed->items[i]->counters);
  if (r->next->leaving > 0) {
    *r->former_groups = (former_groups){.config = r->config, .next = m->former_groups};
    m->former_groups = r->former_groups;
    r->former_groups = NULL;
    r->config = NULL;
  }
  instance_set *before = m->instances;
  m->instances = r->next;
  r->next = before;
  publish_counts(m);
  while (before->readers > 0)
    pthread_cond_wait(&m->instances_left, &m->instance_lock);
}

// New instances run before old ones leave. All of this holds the threads' lock, so that the first
// request starts one set or the other.
static error *replace(replacement *r)
{
  LOCK_SCOPE(&r->m->start_lock);
  RETURN_IF_ERROR(start_added(r));
  if (r->m->shared.sequences != NULL)
    RETURN_IF_ERROR(sequences_open(r->m->shared.sequences));
  part(r);
  dismiss_all(r->removed);
  exchange(r);
  return NULL;
}

static void report(const replacement *r)
{
  const model *m = r->m;
  if (r->added->count + r->removed->count + r->late > 0)
    log_info("model '%s' version %" PRId64 ": %zu instances came, %zu went", m->name,
             m->target.version, r->added->count, r->removed->count);
  if (r->late > 0)
    log_info("model '%s' version %" PRId64 ": %zu instances go when their sequences have ended",
             m->name, m->target.version, r->late);
}

error *model_update_instances(model *m, const Inference__ModelConfig *config,
                              model_instances_come *come)
{
  LOCK_SCOPE(&m->change_lock);
  replacement r = {.m = m};
  error *e = prepare(&r, config);
  if (e == NULL && m->shared.sequences != NULL)
    e = sequences_prepare(m->shared.sequences, r.config, count_missing(&r));
  if (e == NULL)
    e = add_missing(&r);
  if (e == NULL)
    e = come(m, r.added->items, r.added->count);
  if (e == NULL) {
    find_removed(&r);
    e = replace(&r);
  }
  if (e != NULL && r.added != NULL) {
    dismiss_all(r.added);
    end_all(r.added);
  } else if (e == NULL) {
    report(&r);
    end_all(r.removed);
  }
  fini_replacement(&r);
  return e;
}

bool model_can_update_instances(const model *m)
{
  return !config_is_decoupled(m->config) && m->isolated.library == NULL &&
         !(blocks_devices(m) && gpus_supported(m->environment.gpus).count > 0);
}

// SPDX-License-Identifier: Apache-2.0
// The instances of a model version: made with it, replaced while it serves. Readers on any thread
// see one set or the next; a set is freed after its last reader has left.
#ifndef NEREID_CORE_MODEL_INSTANCES_H
#define NEREID_CORE_MODEL_INSTANCES_H

#include "core/model.h"

// Does not change while it has readers.
typedef struct instance_set {
  size_t readers; // guarded by the model's instance_lock
  size_t count;   // of the configuration
  size_t leaving; // behind those: each leaves when its last sequence has ended
  instance *items[];
} instance_set;

// Makes the instances of the configuration, for model_load.
error *model_instances_make(model *m);
// Joins and frees the instances, for model_destroy; the scheduler has stopped.
void model_instances_free(model *m);

// Starts the threads that instances lack. Errors: UNAVAILABLE; the next call tries again.
error *model_start(model *m);
static inline bool model_is_started(const model *m)
{
  return atomic_load_explicit(&m->started, memory_order_acquire);
}

// Called with the new instances, before they get requests.
typedef error *model_instances_come(model *m, instance *const *instances, size_t count);

// Makes the instances those of the groups of `config`, read for a load of the same version; nothing
// else of it is looked at. Instances of an equal group stay. New ones are complete before an old
// one leaves, and an old one first ends its batch, or its sequences. No request notices. Errors:
// nothing has changed. Blocks as long as the backend takes.
error *model_update_instances(model *m, const Inference__ModelConfig *config,
                              model_instances_come *come);
// False for a decoupled model, whose instances may still answer when they leave; for a model in its
// own process, where all instances were made; and where instances may share a thread.
bool model_can_update_instances(const model *m);

// Calls `visit` for each instance, also for those that leave. No lock is held, and none of the
// instances goes meanwhile.
void model_visit_instances(model *m, void (*visit)(void *context, instance *i), void *context);

// Asks all instances whether they are ready, without waiting; model_is_healthy must follow.
void model_ask_health(model *m);
// True while every instance answers TRITONBACKEND_ModelInstanceReady positively (or has no such
// function) and its GPU works. As in Triton, instances that leave are not asked.
bool model_is_healthy(model *m);
// Whether an instance is known to be at fault; `text` then says how. Asks nobody.
bool model_has_fault(model *m, char *text, size_t size);

// Adds the counters of all instances to `sum`, as statistics_add does.
void model_statistics(model *m, statistics *sum);
// The same without what was counted on GPUs (core/model_gpus.h).
void model_statistics_off_gpus(model *m, statistics *sum);

// Appends the configuration as JSON, as config_print_json does.
error *model_print_config(model *m, buffer *out);

#endif

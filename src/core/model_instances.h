// SPDX-License-Identifier: Apache-2.0
// The instances of a model version: made with it, replaced while it serves. Readers on any thread
// see one set or the next one; who replaces a set waits until nobody reads it before it frees.
#ifndef NEREID_CORE_MODEL_INSTANCES_H
#define NEREID_CORE_MODEL_INSTANCES_H

#include "core/model.h"

// Does not change while somebody reads it.
typedef struct instance_set {
  size_t readers; // guarded by the model's instance_lock
  size_t count;   // of the configuration
  size_t leaving; // behind those: each goes when its last sequence has ended
  instance *items[];
} instance_set;

// Makes those that the configuration wants, for model_load.
error *model_instances_make(model *m);
// Joins and frees them, for model_destroy: the scheduler has stopped.
void model_instances_free(model *m);

// Gives the instances the threads that they lack. Errors: UNAVAILABLE; the next call tries again.
error *model_start(model *m);
static inline bool model_is_started(const model *m)
{
  return atomic_load_explicit(&m->started, memory_order_acquire);
}

// Called with the instances that are new, before they get requests.
typedef error *model_instances_come(model *m, instance *const *instances, size_t count);

// Makes the instances what the groups of `config` want, as read for a load of the same version;
// nothing else is looked at. Those of an equal group stay; new ones are complete before an old one
// leaves, and an old one ends its batch, or its sequences. No request notices. Errors: nothing has
// changed. Blocks as long as the backend takes.
error *model_update_instances(model *m, const Inference__ModelConfig *config,
                              model_instances_come *come);
// False where a backend answers behind its instance's back: such an instance cannot leave alone;
// nor can one of a model that has its own process, where all were made; nor one that may share its
// thread.
bool model_can_update_instances(const model *m);

// Calls `visit` for each instance, also for those that leave; no lock is held, and none of them
// goes meanwhile.
void model_visit_instances(model *m, void (*visit)(void *context, instance *i), void *context);

// Has all instances asked whether they are ready, without waiting; model_is_healthy is to follow.
void model_ask_health(model *m);
// True while every instance answers TRITONBACKEND_ModelInstanceReady positively (or has no such
// function). As in Triton, those that leave are not asked.
bool model_is_healthy(model *m);
// Whether an instance is known to be out of order, and which, without asking anybody.
bool model_has_fault(model *m, char *text, size_t size);

// Adds the counters of all instances to `sum`, as statistics_add does.
void model_statistics(model *m, statistics *sum);
// The same but for what was counted on GPUs (core/model_gpus.h).
void model_statistics_off_gpus(model *m, statistics *sum);

// Appends the configuration as JSON, as config_print_json does.
error *model_print_config(model *m, buffer *out);

#endif

// SPDX-License-Identifier: Apache-2.0
// The interface between a model's submissions and its instances: one queue for all instances, or
// the table of sequences with a queue for each instance. Each kind is a table of functions, and the
// public functions call the model's.
#include "core/model_queue.h"

#include "core/batch_strategy.h"
#include "core/refuse.h"
#include "core/sequences.h"

#include <inttypes.h>
#include <stdlib.h>

struct model_scheduler {
  error *(*make)(model *m);
  void (*free)(model *m); // `make` may have failed, or not have been called
  void (*attach)(model *m, instance *i);
  bool (*add)(model *m, request *r, refusal *reason);
  bool (*cancel)(model *m, request *r);
  void (*stop)(model *m);
  void (*close)(model *m);
  void (*abandon)(model *m);
  size_t (*pending)(const model *m);
  void (*dismiss)(model *m);         // NULL: no sequences
  size_t (*awaited)(const model *m); // the same
  uint64_t (*closed_batches)(const model *m, batch_close_reason reason);
};

// ---- one queue ----

static queue_policy queue_policy_of(const Inference__ModelQueuePolicy *policy)
{
  if (policy == NULL)
    return (queue_policy){0};
  return (queue_policy){
      .action = policy->timeout_action == INFERENCE__MODEL_QUEUE_POLICY__TIMEOUT_ACTION__DELAY
                    ? TIMEOUT_DELAY
                    : TIMEOUT_REJECT,
      .default_timeout_us = policy->default_timeout_microseconds,
      .allow_timeout_override = policy->allow_timeout_override,
      .max_queue_size = policy->max_queue_size,
  };
}

// The policies of priority levels that have their own. NULL when memory is short.
static level_policy *level_policies_of(const Inference__ModelDynamicBatching *batching)
{
  level_policy *policies = calloc(batching->n_priority_queue_policy + 1, sizeof(*policies));
  for (size_t i = 0; policies != NULL && i < batching->n_priority_queue_policy; i++) {
    policies[i].level = batching->priority_queue_policy[i]->key;
    policies[i].policy = queue_policy_of(batching->priority_queue_policy[i]->value);
  }
  return policies;
}

static error *make_dynamic_scheduler(model *m, const Inference__ModelDynamicBatching *batching)
{
  size_t count = batching->n_preferred_batch_size;
  uint32_t *preferred = calloc(count + 1, sizeof(*preferred));
  level_policy *levels = level_policies_of(batching);
  error *e = preferred == NULL || levels == NULL ? error_no_memory() : NULL;
  if (e == NULL && batching->preserve_ordering)
    e = ordering_new(response_send_ordered, m, &m->shared.ordering);
  for (size_t i = 0; e == NULL && i < count; i++)
    preferred[i] = (uint32_t)batching->preferred_batch_size[i];
  if (e == NULL) {
    scheduler_config config = {
        .dynamic_batching = true,
        .max_batch_size = m->shared.max_batch_size,
        .preferred_batch_sizes = preferred,
        .preferred_batch_size_count = count,
        .max_queue_delay_us = batching->max_queue_delay_microseconds,
        .queue =
            {
                .priority_levels = batching->priority_levels,
                .default_priority_level = batching->default_priority_level,
                .default_policy = queue_policy_of(batching->default_queue_policy),
                .level_policies = levels,
                .level_policy_count = batching->n_priority_queue_policy,
            },
        .objective_ns = m->shared.objective_ns,
        .workers = config_instances(m->config),
        .strategy = batch_strategy_of(m),
        .ordering = m->shared.ordering,
        .may_run = m->shared.rate_limiter != NULL ? instance_may_run : NULL,
    };
    e = scheduler_new(&config, clock_system(), m->environment.timekeeper, refuse_item, NULL,
                      &m->shared.scheduler);
  }
  free(preferred);
  free(levels);
  return e;
}

static error *make_plain_scheduler(model *m)
{
  scheduler_config config = {
      .max_batch_size = m->shared.max_batch_size,
      .may_run = m->shared.rate_limiter != NULL ? instance_may_run : NULL,
  };
  return scheduler_new(&config, clock_system(), m->environment.timekeeper, refuse_item, NULL,
                       &m->shared.scheduler);
}

static error *queue_make(model *m)
{
  return m->config->scheduling_choice_case ==
                 INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING
             ? make_dynamic_scheduler(m, m->config->dynamic_batching)
             : make_plain_scheduler(m);
}

static void queue_free(model *m)
{
  if (m->shared.scheduler != NULL)
    scheduler_free(m->shared.scheduler);
  if (m->shared.ordering != NULL)
    ordering_free(m->shared.ordering);
}

static void queue_attach(model *m, instance *i)
{
  i->scheduler = m->shared.scheduler;
  i->ordering = m->shared.ordering;
}

static bool queue_add(model *m, request *r, refusal *reason)
{
  return scheduler_enqueue(m->shared.scheduler, &r->item, reason);
}

static bool queue_cancel(model *m, request *r)
{
  return scheduler_cancel(m->shared.scheduler, &r->item);
}

static void queue_stop(model *m)
{
  if (m->shared.scheduler != NULL)
    scheduler_stop(m->shared.scheduler);
}

static void queue_abandon(model *m)
{
  scheduler_abandon(m->shared.scheduler);
}

static size_t queue_pending(const model *m)
{
  return scheduler_pending(m->shared.scheduler);
}

static uint64_t queue_closed_batches(const model *m, batch_close_reason reason)
{
  return scheduler_closed_batches(m->shared.scheduler, reason);
}

static const model_scheduler one_queue = {
    .make = queue_make,
    .free = queue_free,
    .attach = queue_attach,
    .add = queue_add,
    .cancel = queue_cancel,
    .stop = queue_stop,
    .close = queue_stop,
    .abandon = queue_abandon,
    .pending = queue_pending,
    .closed_batches = queue_closed_batches,
};

// ---- sequences ----

static error *table_make(model *m)
{
  request_target *t = &m->target;
  error *e = sequences_new(m->config, m->states, m->environment.timekeeper, &m->shared.sequences);
  t->released = sequences_released;
  t->released_context = m->shared.sequences;
  t->reschedules = m->config->sequence_batching->iterative_sequence;
  return e;
}

static void table_free(model *m)
{
  if (m->shared.sequences != NULL)
    sequences_free(m->shared.sequences);
}

static void table_attach(model *m, instance *i)
{
  sequences_attach(m->shared.sequences, i);
}

static bool table_add(model *m, request *r, refusal *reason)
{
  *reason = REFUSAL_STOPPED; // where a GPU has failed, for known sequences too
  return atomic_load_explicit(&m->target.failed_gpu, memory_order_acquire) == 0 &&
         sequences_add(m->shared.sequences, r, reason);
}

static bool table_cancel(model *m, request *r)
{
  return sequences_cancel(m->shared.sequences, r);
}

static void table_stop(model *m)
{
  if (m->shared.sequences != NULL)
    sequences_stop(m->shared.sequences);
}

static void table_close(model *m)
{
  if (m->shared.sequences != NULL)
    sequences_close(m->shared.sequences);
}

static void table_abandon(model *m)
{
  sequences_abandon(m->shared.sequences);
}

static size_t table_pending(const model *m)
{
  return sequences_pending(m->shared.sequences);
}

static void table_dismiss(model *m)
{
  if (m->shared.sequences != NULL) // else the model is still being loaded
    sequences_dismiss(m->shared.sequences);
}

static size_t table_awaited(const model *m)
{
  return m->shared.sequences != NULL ? sequences_live(m->shared.sequences) : 0;
}

static uint64_t table_closed_batches(const model *m, batch_close_reason reason)
{
  return sequences_closed_batches(m->shared.sequences, reason);
}

static const model_scheduler table_of_sequences = {
    .make = table_make,
    .free = table_free,
    .attach = table_attach,
    .add = table_add,
    .cancel = table_cancel,
    .stop = table_stop,
    .close = table_close,
    .abandon = table_abandon,
    .pending = table_pending,
    .dismiss = table_dismiss,
    .awaited = table_awaited,
    .closed_batches = table_closed_batches,
};

// ---- the model's functions ----

error *model_queue_make(model *m)
{
  RETURN_IF_ERROR(config_latency_objective(m->config, &m->shared.objective_ns));
  m->scheduling = m->config->scheduling_choice_case ==
                          INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_SEQUENCE_BATCHING
                      ? &table_of_sequences
                      : &one_queue;
  return m->scheduling->make(m);
}

void model_queue_free(model *m)
{
  if (m->scheduling != NULL)
    m->scheduling->free(m);
}

void model_queue_attach(model *m, instance *i)
{
  m->scheduling->attach(m, i);
}

bool model_queue_add(model *m, request *r, refusal *reason)
{
  return m->scheduling->add(m, r, reason);
}

error *model_queue_latency_error(model *m, const request *r)
{
  const latency_state now = scheduler_latency(m->shared.scheduler, request_rows(r));
  error *e = request_error(
      r, ERROR_UNAVAILABLE,
      "model '%s' cannot answer within its latency_objective_us of %" PRIu64 ": %" PRIu64
      " rows wait, expected at most %" PRIu64 " with this request",
      m->name, m->shared.objective_ns / 1000, now.waiting_rows, now.choice.admit_rows);
  error_set_retry(e, now.retry_ns > 0 ? now.retry_ns : 1);
  return e;
}

bool model_queue_cancel(model *m, request *r)
{
  return m->scheduling->cancel(m, r);
}

void model_queue_stop(model *m)
{
  if (m->scheduling != NULL)
    m->scheduling->stop(m);
}

void model_queue_close(model *m)
{
  if (m->scheduling != NULL)
    m->scheduling->close(m);
}

void model_queue_abandon(model *m)
{
  m->scheduling->abandon(m);
}

size_t model_queue_pending(const model *m)
{
  return m->scheduling->pending(m);
}

void model_queue_dismiss(model *m)
{
  if (m->scheduling != NULL && m->scheduling->dismiss != NULL)
    m->scheduling->dismiss(m);
}

size_t model_queue_awaited(const model *m)
{
  return m->scheduling != NULL && m->scheduling->awaited != NULL ? m->scheduling->awaited(m) : 0;
}

uint64_t model_queue_closed_batches(const model *m, batch_close_reason reason)
{
  return m->scheduling->closed_batches(m, reason);
}

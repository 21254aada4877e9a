// SPDX-License-Identifier: Apache-2.0
// What stands between a model's submissions and its instances: one queue for all of them, or the
// table of sequences with a queue for each.
#include "core/model_queue.h"

#include "core/batch_strategy.h"
#include "core/refuse.h"
#include "core/sequences.h"

#include <inttypes.h>
#include <stdlib.h>

// ---- making ----

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

// The priority levels that have a policy of their own. NULL when memory is short.
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

static error *make_sequences(model *m)
{
  request_target *t = &m->target;
  error *e = sequences_new(m->config, m->states, m->environment.timekeeper, &m->shared.sequences);
  t->released = sequences_released;
  t->released_context = m->shared.sequences;
  t->reschedules = m->config->sequence_batching->iterative_sequence;
  return e;
}

error *model_queue_make(model *m)
{
  RETURN_IF_ERROR(config_latency_objective(m->config, &m->shared.objective_ns));
  if (m->config->scheduling_choice_case ==
      INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING)
    return make_dynamic_scheduler(m, m->config->dynamic_batching);
  if (m->config->scheduling_choice_case ==
      INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_SEQUENCE_BATCHING)
    return make_sequences(m);
  scheduler_config config = {
      .max_batch_size = m->shared.max_batch_size,
      .may_run = m->shared.rate_limiter != NULL ? instance_may_run : NULL,
  };
  return scheduler_new(&config, clock_system(), m->environment.timekeeper, refuse_item, NULL,
                       &m->shared.scheduler);
}

void model_queue_free(model *m)
{
  if (m->shared.sequences != NULL)
    sequences_free(m->shared.sequences);
  if (m->shared.scheduler != NULL)
    scheduler_free(m->shared.scheduler);
  if (m->shared.ordering != NULL)
    ordering_free(m->shared.ordering);
}

void model_queue_attach(model *m, instance *i)
{
  i->scheduler = m->shared.scheduler;
  i->ordering = m->shared.ordering;
  if (m->shared.sequences != NULL)
    sequences_attach(m->shared.sequences, i);
}

// ---- while it serves ----

bool model_queue_add(model *m, request *r, refusal *reason)
{
  if (m->shared.sequences != NULL) {
    *reason = REFUSAL_STOPPED; // where a GPU has failed, whether the sequence was known or not
    return atomic_load_explicit(&m->target.failed_gpu, memory_order_acquire) == 0 &&
           sequences_add(m->shared.sequences, r, reason);
  }
  return scheduler_enqueue(m->shared.scheduler, &r->item, reason);
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
  if (m->shared.sequences != NULL)
    return sequences_cancel(m->shared.sequences, r);
  return scheduler_cancel(m->shared.scheduler, &r->item);
}

void model_queue_stop(model *m)
{
  if (m->shared.sequences != NULL)
    sequences_stop(m->shared.sequences);
  else if (m->shared.scheduler != NULL)
    scheduler_stop(m->shared.scheduler);
}

void model_queue_close(model *m)
{
  if (m->shared.sequences != NULL)
    sequences_close(m->shared.sequences);
  else if (m->shared.scheduler != NULL)
    scheduler_stop(m->shared.scheduler);
}

void model_queue_abandon(model *m)
{
  if (m->shared.sequences != NULL)
    sequences_abandon(m->shared.sequences);
  else
    scheduler_abandon(m->shared.scheduler);
}

size_t model_queue_pending(const model *m)
{
  if (m->shared.sequences != NULL)
    return sequences_pending(m->shared.sequences);
  return scheduler_pending(m->shared.scheduler);
}

void model_queue_dismiss(model *m)
{
  if (m->shared.sequences != NULL)
    sequences_dismiss(m->shared.sequences);
}

size_t model_queue_awaited(const model *m)
{
  return m->shared.sequences != NULL ? sequences_live(m->shared.sequences) : 0;
}

uint64_t model_queue_closed_batches(const model *m, batch_close_reason reason)
{
  if (m->shared.sequences != NULL)
    return sequences_closed_batches(m->shared.sequences, reason);
  return scheduler_closed_batches(m->shared.scheduler, reason);
}

// SPDX-License-Identifier: Apache-2.0
// The rules of dynamic batching. Called from load threads. Texts are Triton's.
#include "config/rules.h"

#include <inttypes.h>

static void check_preferred(rules *r, const Inference__ModelDynamicBatching *batching)
{
  const Inference__ModelConfig *config = r->config;
  for (size_t i = 0; i < batching->n_preferred_batch_size; i++) {
    const int32_t size = batching->preferred_batch_size[i];
    const phrase path = say("dynamic_batching.preferred_batch_size[%zu]", i);
    if (size <= 0)
      refuse(r, path.text, "give sizes from 1 on, or leave them out",
             "dynamic batching preferred size must be positive for %s", config->name);
    else if (size > config->max_batch_size)
      refuse(r, path.text, say("max_batch_size is %" PRId32, config->max_batch_size).text,
             "dynamic batching preferred size must be <= max batch size for %s", config->name);
  }
}

static void check_priorities(rules *r, const Inference__ModelDynamicBatching *batching)
{
  const uint64_t levels = batching->priority_levels;
  if (levels == 0)
    return;
  if (batching->default_priority_level == 0 || batching->default_priority_level > levels)
    refuse(r, "dynamic_batching.default_priority_level",
           "say which level a request without a priority has; 1 is served first",
           "default priority level must be in range [1, %" PRIu64 "] for %s", levels,
           r->config->name);
  for (size_t i = 0; i < batching->n_priority_queue_policy; i++) {
    const uint64_t level = batching->priority_queue_policy[i]->key;
    if (level == 0 || level > levels)
      refuse(r, say("dynamic_batching.priority_queue_policy[%" PRIu64 "]", level).text,
             "use a level that there is, or raise priority_levels",
             "priority queue policy must have priority level in range [1, %" PRIu64 "] for %s",
             levels, r->config->name);
  }
}

static void check_delay(rules *r, const char *path, const Inference__ModelQueuePolicy *policy)
{
  if (policy != NULL && policy->default_timeout_microseconds != 0 &&
      policy->timeout_action == INFERENCE__MODEL_QUEUE_POLICY__TIMEOUT_ACTION__DELAY)
    refuse(r, say("%s.timeout_action", path).text, "use REJECT, or leave out preserve_ordering",
           "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true "
           "for %s",
           r->config->name);
}

// With preserve_ordering no setting may let requests overtake each other.
static void check_ordering(rules *r, const Inference__ModelDynamicBatching *batching)
{
  if (!batching->preserve_ordering)
    return;
  if (batching->priority_levels > 1)
    refuse(r, "dynamic_batching.priority_levels", "leave out preserve_ordering or the levels",
           "Only one priority level is allowed when 'preserve_ordering' is true for %s",
           r->config->name);
  check_delay(r, "dynamic_batching.default_queue_policy", batching->default_queue_policy);
  for (size_t i = 0; i < batching->n_priority_queue_policy; i++) {
    const phrase path = say("dynamic_batching.priority_queue_policy[%" PRIu64 "]",
                            batching->priority_queue_policy[i]->key);
    check_delay(r, path.text, batching->priority_queue_policy[i]->value);
  }
}

void rules_dynamic_batching(rules *r)
{
  const Inference__ModelDynamicBatching *batching = r->config->dynamic_batching;
  check_preferred(r, batching);
  check_priorities(r, batching);
  check_ordering(r, batching);
}

// SPDX-License-Identifier: Apache-2.0
// Levels as a sorted list, items as lists in the levels, deadlines as one heap. Called with the
// scheduler's lock held.
#include "schedule/queue.h"

#include "base/checked.h"
#include "base/clock.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static int compare_levels(const void *a, const void *b)
{
  uint64_t left = ((const level_policy *)a)->level;
  uint64_t right = ((const level_policy *)b)->level;
  return left < right ? -1 : left > right;
}

bool request_queue_init(request_queue *q, const queue_config *config)
{
  *q = (request_queue){.config = *config};
  q->config.level_policies = NULL;
  list_init(&q->levels);
  list_init(&q->spare);
  if (config->level_policy_count == 0)
    return true;
  q->own_policies = calloc(config->level_policy_count, sizeof(*q->own_policies));
  if (q->own_policies == NULL)
    return false;
  memcpy(q->own_policies, config->level_policies,
         config->level_policy_count * sizeof(*q->own_policies));
  qsort(q->own_policies, config->level_policy_count, sizeof(*q->own_policies), compare_levels);
  return true;
}

void request_queue_fini(request_queue *q)
{
  assert(q->count == 0);
  list_foreach_safe (queue_level, level, node, &q->spare)
    free(level);
  free(q->own_policies);
  *q = (request_queue){0};
}

// The level for a request's priority; 0 if the model has only one level.
static uint64_t effective_priority(const queue_config *config, uint64_t priority)
{
  if (config->priority_levels == 0)
    return 0;
  if (priority == 0 || priority > config->priority_levels)
    return config->default_priority_level;
  return priority;
}

static const queue_policy *policy_of(const request_queue *q, uint64_t priority)
{
  if (priority == 0 || q->own_policies == NULL)
    return &q->config.default_policy;
  level_policy wanted = {.level = priority};
  const level_policy *found = bsearch(&wanted, q->own_policies, q->config.level_policy_count,
                                      sizeof(wanted), compare_levels);
  return found != NULL ? &found->policy : &q->config.default_policy;
}

// The level of this priority, made if there is none; NULL when memory is short. Searches from the
// end: there are few levels, or the priorities grow with time.
static queue_level *get_level(request_queue *q, uint64_t priority)
{
  list_node *next = &q->levels.ends; // successor of the level
  while (next->previous != &q->levels.ends) {
    queue_level *level = container_of(next->previous, queue_level, node);
    if (level->priority == priority)
      return level;
    if (level->priority < priority)
      break;
    next = &level->node;
  }
  queue_level *made = container_of(list_take_first(&q->spare), queue_level, node);
  if (made == NULL)
    made = malloc(sizeof(*made));
  if (made == NULL)
    return NULL;
  *made = (queue_level){.priority = priority, .policy = policy_of(q, priority)};
  list_init(&made->queued);
  list_init(&made->delayed);
  list_insert_before(next, &made->node);
  return made;
}

// A request's own timeout counts only if the policy allows it and it is shorter than the default;
// never without a default.
static uint64_t deadline_of(const queue_policy *policy, uint64_t request_timeout_us,
                            uint64_t now_ns)
{
  uint64_t timeout_us = policy->default_timeout_us;
  if (policy->allow_timeout_override && request_timeout_us != 0 && request_timeout_us < timeout_us)
    timeout_us = request_timeout_us;
  uint64_t timeout_ns, deadline_ns;
  if (timeout_us == 0 || __builtin_mul_overflow(timeout_us, (uint64_t)1000, &timeout_ns) ||
      __builtin_add_overflow(now_ns, timeout_ns, &deadline_ns))
    return CLOCK_NEVER;
  return deadline_ns;
}

// Outside → queued → (delayed →) outside.
static void set_state(queue_item *item, queue_item_state state)
{
  assert(state == ITEM_OUTSIDE ? item->state != ITEM_OUTSIDE : item->state + 1 == state);
  item->state = state;
}

queue_push_result request_queue_push(request_queue *q, queue_item *item, uint64_t now_ns)
{
  assert(item->state == ITEM_OUTSIDE);
  uint64_t priority = effective_priority(&q->config, item->priority);
  queue_level *level = get_level(q, priority);
  if (level == NULL)
    return PUSH_NO_MEMORY;
  const queue_policy *policy = level->policy;
  if (policy->max_queue_size != 0 && level->count >= policy->max_queue_size)
    return PUSH_FULL;

  item->level = level;
  set_state(item, ITEM_QUEUED);
  item->enqueued_ns = now_ns;
  item->deadline.when_ns = deadline_of(policy, item->timeout_us, now_ns);
  if (item->deadline.when_ns != CLOCK_NEVER)
    heap_insert(&q->deadlines, &item->deadline);
  list_append(&level->queued, &item->node);
  level->count++;
  q->count++;
  q->rows += queue_item_rows(item);
  return PUSH_DONE;
}

static void forget_deadline(request_queue *q, queue_item *item)
{
  if (item->deadline.when_ns == CLOCK_NEVER)
    return;
  heap_remove(&q->deadlines, &item->deadline);
  item->deadline.when_ns = CLOCK_NEVER;
}

void request_queue_remove(request_queue *q, queue_item *item)
{
  queue_level *level = item->level;
  assert(level->count > 0 && q->count >= level->count && q->rows >= queue_item_rows(item));
  forget_deadline(q, item);
  if (item->state == ITEM_DELAYED) {
    assert(q->delayed_count > 0);
    q->delayed_count--;
  }
  list_remove(&item->node);
  set_state(item, ITEM_OUTSIDE);
  item->level = NULL;
  assert(q->count > 0 && q->rows >= queue_item_rows(item) && level->count > 0);
  q->count--;
  q->rows -= queue_item_rows(item);
  if (--level->count == 0) {
    assert(list_is_empty(&level->queued) && list_is_empty(&level->delayed));
    list_remove(&level->node);
    list_append(&q->spare, &level->node);
  }
}

uint64_t request_queue_next_deadline(const request_queue *q)
{
  const heap_node *first = heap_first(&q->deadlines);
  return first != NULL ? first->when_ns : CLOCK_NEVER;
}

queue_item *request_queue_expire(request_queue *q, uint64_t now_ns, bool *moved)
{
  *moved = false;
  heap_node *first = heap_first(&q->deadlines);
  if (first == NULL || first->when_ns > now_ns)
    return NULL;
  queue_item *item = container_of(first, queue_item, deadline);
  if (item->level->policy->action == TIMEOUT_REJECT) {
    request_queue_remove(q, item);
    return item;
  }
  forget_deadline(q, item);
  assert(item->state == ITEM_QUEUED);
  list_remove(&item->node);
  list_append(&item->level->delayed, &item->node);
  set_state(item, ITEM_DELAYED);
  q->delayed_count++;
  *moved = true;
  return NULL;
}

// SPDX-License-Identifier: Apache-2.0
// Walks along the queue until a batch closes. Called by the scheduler with its lock held, and by
// tests.
#include "schedule/batch_policy.h"

#include "base/clock.h"

// The front of the queue that fits into one batch, and the best place to cut it.
typedef struct walk {
  size_t count; // requests examined that fit together
  uint64_t rows;
  uint64_t oldest_ns;
  bool closed;                     // no more requests fit
  batch_close_reason close_reason; // why
  size_t cut_count;                // 0: no cut
  batch_close_reason cut_reason;
} walk;

static void close_walk(walk *w, batch_close_reason reason)
{
  w->closed = true;
  w->close_reason = reason;
}

// Whether `item` fits after the examined ones; closes the walk if not. If no preferred size is
// reached yet and this request exceeds the largest, the batch is cut before it: no preferred size
// can be met any more.
static bool fits(walk *w, const batch_policy *policy, slice key, const queue_item *item)
{
  uint64_t rows = w->rows + queue_item_rows(item);
  uint64_t largest_preferred = policy->preferred_sizes[policy->preferred_size_count - 1];
  if (rows > largest_preferred && w->cut_count == 0) {
    w->cut_count = w->count;
    w->cut_reason = BATCH_CLOSED_SIZE;
  }
  if (rows > policy->max_batch_size)
    close_walk(w, BATCH_CLOSED_SIZE);
  else if (!slice_equal(key, item->batch_key))
    close_walk(w, BATCH_CLOSED_SHAPE);
  return !w->closed;
}

// An item that the strategy does not include even in an empty batch goes alone.
static bool suits_strategy(walk *w, const batch_policy *policy, queue_item *item)
{
  if (policy->forming == NULL || batch_forming_includes(policy->forming, w->count, item))
    return true;
  close_walk(w, BATCH_CLOSED_STRATEGY);
  return w->count == 0;
}

static walk walk_queue(const batch_policy *policy, const request_queue *queue, size_t capacity)
{
  queue_item *first = request_queue_first(queue);
  walk w = {.oldest_ns = CLOCK_NEVER};
  size_t preferred = 0; // index of the first preferred size not passed yet
  for (queue_item *item = first; item != NULL && !w.closed;
       item = request_queue_next(queue, item)) {
    if (w.count > 0 && !fits(&w, policy, first->batch_key, item))
      break;
    if (!suits_strategy(&w, policy, item))
      break;
    w.count++;
    w.rows += queue_item_rows(item);
    if (item->enqueued_ns < w.oldest_ns)
      w.oldest_ns = item->enqueued_ns;
    while (preferred < policy->preferred_size_count && policy->preferred_sizes[preferred] < w.rows)
      preferred++;
    if (preferred < policy->preferred_size_count && policy->preferred_sizes[preferred] == w.rows) {
      w.cut_count = w.count;
      w.cut_reason = w.rows == policy->max_batch_size ? BATCH_CLOSED_FULL : BATCH_CLOSED_PREFERRED;
    }
    if (!w.closed && (w.rows >= policy->max_batch_size || w.count == capacity))
      close_walk(&w, BATCH_CLOSED_FULL);
  }
  return w;
}

static batch_decision take(size_t count, batch_close_reason reason)
{
  return (batch_decision){
      .verdict = BATCH_TAKE, .count = count, .reason = reason, .until_ns = CLOCK_NEVER};
}

// The fewest rows in the queue that could close the batch: the next preferred size (one exists, as
// the rows are below the largest), or as many requests as the caller can take.
static uint64_t next_close(const batch_policy *policy, const walk *w, size_t capacity)
{
  size_t i = 0;
  while (policy->preferred_sizes[i] <= w->rows)
    i++;
  uint64_t until_capacity = w->rows + (capacity - w->count);
  return policy->preferred_sizes[i] < until_capacity ? policy->preferred_sizes[i] : until_capacity;
}

batch_decision batch_policy_decide(const batch_policy *policy, const request_queue *queue,
                                   size_t capacity, uint64_t now_ns)
{
  if (queue->count == 0)
    return (batch_decision){.verdict = BATCH_EMPTY, .until_ns = CLOCK_NEVER};
  if (!policy->batching)
    return take(1, BATCH_CLOSED_FULL);

  walk w = walk_queue(policy, queue, capacity);
  uint64_t due_ns; // when the oldest has waited long enough
  if (__builtin_add_overflow(w.oldest_ns, policy->max_delay_ns, &due_ns))
    due_ns = CLOCK_NEVER;
  bool delay_passed = policy->max_delay_ns != 0 && now_ns >= due_ns;

  if (w.cut_count != 0 && (!delay_passed || w.cut_count == w.count))
    return take(w.cut_count, w.cut_reason);
  if (w.closed)
    return take(w.count, w.close_reason);
  if (w.rows >= policy->preferred_sizes[policy->preferred_size_count - 1] && !delay_passed)
    return take(w.count, BATCH_CLOSED_SIZE); // one request, larger than every preferred size
  if (delay_passed)
    return take(w.count, BATCH_CLOSED_DELAY);
  if (policy->max_delay_ns == 0)
    return take(w.count, BATCH_CLOSED_IDLE);
  return (batch_decision){
      .verdict = BATCH_WAIT, .until_ns = due_ns, .wake_rows = next_close(policy, &w, capacity)};
}

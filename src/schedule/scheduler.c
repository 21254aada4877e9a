// SPDX-License-Identifier: Apache-2.0
// The lock, the idle instances and the wake-ups around the queue and its policy. Called by threads
// that submit or cancel (enqueue, claim, cancel), instances' threads (take) and the timekeeper
// (expiry). Callbacks and system calls come after the lock, except the strategy, `may_run` and the
// wake-ups of scheduler_stop.
#include "schedule/scheduler.h"

#include "base/cleanup.h"
#include "base/thread.h"
#include "schedule/waiter.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

// An instance's thread that waits in scheduler_take; lives on its stack.
typedef struct idle_worker {
  waiter waiter;
  void *owner;         // NULL: cannot be claimed
  const bool *leaving; // guarded by the lock: it was dismissed; NULL: it cannot be
  list_node node;      // linked until it is woken or claimed
  bool handed_off;     // woken to continue the execution begun in its place
} idle_worker;

struct scheduler {
  // Constant after scheduler_new:
  clock_source clock;
  timekeeper *timekeeper; // NULL if no policy has timeouts
  scheduler_refuse *refuse;
  void *context;
  ordering *ordering;
  bool (*may_run)(void *owner); // NULL: always
  uint32_t *preferred_sizes;
  bool arrivals_are_given;

  pthread_mutex_t lock;    // guards all below
  batch_policy policy;     // its delay becomes 0 when the scheduler stops
  batch_forming forming;   // the policy's, with a strategy
  latency_policy *latency; // owned; NULL: there is no objective
  request_queue queue;
  bool stopped;
  list idle;            // last in, first out: the warmest cache is used first
  idle_worker *leader;  // the idle worker that sleeps until the pending batch is due; or NULL
  waiter *lingering;    // of the thread in scheduler_linger; or NULL
  uint64_t linger_rows; // rows in the queue that end its wait
  uint64_t waking;      // workers woken that do not have the lock yet
  uint64_t awaited;     // workers that scheduler_await told of a batch
  uint64_t wake_rows;   // while there is a leader: batch_decision.wake_rows of its decision
  uint64_t due_ns;      // likewise until_ns
  uint64_t timer_at_ns; // when the timer fires at the latest
  timer timer;          // guarded by the timekeeper

  // Written under the lock, read without:
  _Atomic size_t pending;
  _Atomic uint64_t closed[BATCH_CLOSE_REASON_COUNT];
};

_Static_assert(sizeof(scheduler) <= 1024, "each model has one: what few need is behind a pointer");

static uint64_t on_timer(void *context, uint64_t now_ns);

static int compare_sizes(const void *a, const void *b)
{
  uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
  return left < right ? -1 : left > right;
}

static bool has_timeouts(const queue_config *config)
{
  bool found = config->default_policy.default_timeout_us != 0;
  for (size_t i = 0; i < config->level_policy_count; i++)
    found = found || config->level_policies[i].policy.default_timeout_us != 0;
  return found;
}

// False when memory is short.
static bool init_policy(scheduler *s, const scheduler_config *config)
{
  uint32_t max_batch_size = config->max_batch_size > 0 ? config->max_batch_size : 1;
  size_t count = config->preferred_batch_size_count;
  s->preferred_sizes = calloc(count > 0 ? count : 1, sizeof(*s->preferred_sizes));
  if (s->preferred_sizes == NULL)
    return false;
  if (count > 0)
    memcpy(s->preferred_sizes, config->preferred_batch_sizes, count * sizeof(*s->preferred_sizes));
  else
    s->preferred_sizes[count++] = max_batch_size;
  qsort(s->preferred_sizes, count, sizeof(*s->preferred_sizes), compare_sizes);
  uint64_t delay_ns;
  if (__builtin_mul_overflow(config->max_queue_delay_us, (uint64_t)1000, &delay_ns))
    delay_ns = CLOCK_NEVER;
  s->policy = (batch_policy){.batching = config->dynamic_batching,
                             .max_batch_size = max_batch_size,
                             .preferred_sizes = s->preferred_sizes,
                             .preferred_size_count = count,
                             .max_delay_ns = delay_ns};
  if (config->dynamic_batching && config->strategy != NULL) {
    s->forming.strategy = config->strategy;
    s->policy.forming = &s->forming;
  }
  return true;
}

// Locked, or `s` is not shared yet.
static void use_choice(scheduler *s)
{
  const latency_choice *c = &s->latency->choice;
  s->preferred_sizes[0] = (uint32_t)c->max_rows;
  s->policy.preferred_size_count = 1;
  s->policy.max_batch_size = c->max_rows;
  s->policy.max_delay_ns = 0;
}

// Allocated apart, as it is large and few models have an objective. False when memory is short.
static bool make_latency(scheduler *s, const scheduler_config *config)
{
  if (config->objective_ns == 0)
    return true;
  const latency_settings settings = {config->objective_ns, s->policy.max_batch_size,
                                     config->workers};
  s->latency = calloc(1, sizeof(*s->latency));
  if (s->latency == NULL)
    return false;
  latency_policy_init(s->latency, &settings);
  use_choice(s);
  return true;
}

error *scheduler_new(const scheduler_config *config, clock_source clock, timekeeper *keeper,
                     scheduler_refuse *refuse, void *context, scheduler **s)
{
  scheduler *made = calloc(1, sizeof(*made));
  if (made == NULL)
    return error_no_memory();
  static const queue_config no_policy;
  const queue_config *queue = config->dynamic_batching ? &config->queue : &no_policy;
  made->clock = clock;
  made->timekeeper = has_timeouts(queue) ? keeper : NULL;
  made->refuse = refuse;
  made->context = context;
  made->ordering = config->ordering;
  made->arrivals_are_given = config->arrivals_are_given;
  made->may_run = config->may_run;
  made->timer_at_ns = CLOCK_NEVER;
  list_init(&made->idle);
  timer_init(&made->timer, on_timer, made);
  if (!init_policy(made, config) || !make_latency(made, config) ||
      !request_queue_init(&made->queue, queue)) {
    free(made->latency);
    free(made->preferred_sizes);
    free(made);
    return error_no_memory();
  }
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
  pthread_mutex_init(&made->lock, &attributes);
  pthread_mutexattr_destroy(&attributes);
  *s = made;
  return NULL;
}

void scheduler_free(scheduler *s)
{
  if (s == NULL)
    return;
  if (s->timekeeper != NULL)
    timekeeper_cancel(s->timekeeper, &s->timer);
  assert(list_is_empty(&s->idle) && s->leader == NULL && s->lingering == NULL && s->waking == 0 &&
         s->awaited == 0);
  assert(!s->forming.open); // as nothing is queued
  request_queue_fini(&s->queue);
  pthread_mutex_destroy(&s->lock);
  free(s->latency);
  free(s->preferred_sizes);
  free(s);
}

// The front of the queue has changed since the strategy was asked. Locked.
static void forget_forming(scheduler *s)
{
  assert(lock_is_held(&s->lock));
  if (s->policy.forming != NULL)
    batch_forming_end(s->policy.forming);
}

static void publish_pending(scheduler *s)
{
  assert(lock_is_held(&s->lock));
  atomic_store_explicit(&s->pending, s->queue.count, memory_order_relaxed);
}

// --- Idle workers. All under the lock; the caller wakes a returned waiter after the lock.

static idle_worker *first_idle(const scheduler *s)
{
  return container_of(list_first(&s->idle), idle_worker, node);
}

static void unlist_worker(scheduler *s, idle_worker *w)
{
  assert(lock_is_held(&s->lock));
  list_remove(&w->node);
  if (s->leader == w)
    s->leader = NULL;
}

// Takes the worker out of the list; the caller wakes it.
static waiter *call(scheduler *s, idle_worker *w)
{
  unlist_worker(s, w);
  s->waking++;
  waiter_signal(&w->waiter);
  return &w->waiter;
}

// Prefers the leader, whose decision is outdated.
static waiter *summon(scheduler *s)
{
  assert(lock_is_held(&s->lock));
  return call(s, s->leader != NULL ? s->leader : first_idle(s));
}

static bool is_dismissed(const bool *leaving)
{
  return leaving != NULL && *leaving;
}

// Whether there is more work than the workers already woken will take; for a queue without a delay.
static bool exceeds_waking(const scheduler *s)
{
  assert(lock_is_held(&s->lock));
  uint64_t workers = s->waking + s->awaited;
  if (!s->policy.batching)
    return s->queue.count > workers;
  return s->queue.rows > workers * s->policy.max_batch_size;
}

// After any change of the queue: the idle worker to be woken, if one is needed.
static waiter *reconsider(scheduler *s)
{
  assert(lock_is_held(&s->lock));
  if (list_is_empty(&s->idle) || s->queue.count == 0)
    return NULL;
  if (!s->policy.batching || s->policy.max_delay_ns == 0)
    return exceeds_waking(s) ? summon(s) : NULL;
  if (s->waking > 0 || (s->awaited > 0 && !exceeds_waking(s)))
    return NULL; // that worker decides, and wakes the next
  if (s->leader == NULL)
    return summon(s); // one worker must wait for the delay
  batch_decision decision =
      batch_policy_decide(&s->policy, &s->queue, SIZE_MAX, clock_now(s->clock));
  if (decision.verdict == BATCH_TAKE)
    return summon(s);
  s->wake_rows = decision.wake_rows;
  return NULL;
}

// The same after `item` was added: usually the leader's decision tells it without a new walk.
static waiter *reconsider_arrival(scheduler *s, const queue_item *item)
{
  if (s->leader != NULL && s->arrivals_are_given &&
      s->due_ns - s->policy.max_delay_ns > item->enqueued_ns)
    return summon(s); // it is due before the others
  if (s->leader != NULL && s->policy.forming == NULL && s->queue.rows < s->wake_rows &&
      s->queue.delayed_count == 0 && list_first(&s->queue.levels) == list_last(&s->queue.levels) &&
      slice_equal(item->batch_key, request_queue_first(&s->queue)->batch_key))
    return NULL;
  return reconsider(s);
}

// The waiter of the lingering thread, if the rows it waits for are there.
static waiter *end_linger(scheduler *s)
{
  assert(lock_is_held(&s->lock));
  waiter *w = s->lingering;
  if (w == NULL || s->queue.rows < s->linger_rows)
    return NULL;
  s->lingering = NULL;
  waiter_signal(w);
  return w;
}

static void wake(waiter *w)
{
  if (w != NULL)
    waiter_wake(w);
}

// --- Expiry

// Handles expired items: moves those with the action REJECT to `expired`; the others become
// delayed. Returns whether there was any. Locked.
static bool expire(scheduler *s, uint64_t now_ns, list *expired)
{
  assert(lock_is_held(&s->lock));
  bool changed = false;
  list_init(expired);
  for (;;) {
    bool moved;
    queue_item *item = request_queue_expire(&s->queue, now_ns, &moved);
    if (item == NULL && !moved)
      return changed;
    changed = true;
    forget_forming(s);
    if (item != NULL)
      list_append(expired, &item->node);
  }
}

// Gives back items that will not be executed, oldest first. No lock may be held.
static void refuse_all(scheduler *s, list *items, refusal reason)
{
  list_node *first;
  while ((first = list_take_first(items)) != NULL)
    s->refuse(s->context, container_of(first, queue_item, node), reason);
}

static uint64_t on_timer(void *context, uint64_t now_ns)
{
  scheduler *s = context;
  pthread_mutex_lock(&s->lock);
  list expired;
  waiter *w = expire(s, now_ns, &expired) ? reconsider(s) : NULL;
  uint64_t next_ns = request_queue_next_deadline(&s->queue);
  s->timer_at_ns = next_ns;
  publish_pending(s);
  pthread_mutex_unlock(&s->lock);
  wake(w);
  refuse_all(s, &expired, REFUSAL_TIMEOUT);
  return next_ns;
}

// --- Called by threads

// Adds the item. False: refused (*reason). Locked.
static bool push(scheduler *s, queue_item *item, uint64_t now_ns, refusal *reason)
{
  assert(lock_is_held(&s->lock));
  if (s->stopped) {
    *reason = REFUSAL_STOPPED;
    return false;
  }
  if (s->latency != NULL &&
      !latency_policy_admits(s->latency, queue_item_rows(item), s->queue.rows)) {
    *reason = REFUSAL_LATENCY;
    return false;
  }
  switch (request_queue_push(&s->queue, item, now_ns)) {
  case PUSH_DONE:
    if (s->policy.forming != NULL && request_queue_next(&s->queue, item) != NULL)
      batch_forming_end(s->policy.forming);
    return true;
  case PUSH_FULL:
    *reason = REFUSAL_QUEUE_FULL;
    return false;
  case PUSH_NO_MEMORY:
    break;
  }
  *reason = REFUSAL_NO_MEMORY;
  return false;
}

bool scheduler_enqueue(scheduler *s, queue_item *item, refusal *reason)
{
  uint64_t now_ns = s->arrivals_are_given ? item->enqueued_ns : clock_now(s->clock);
  pthread_mutex_lock(&s->lock);
  if (!push(s, item, now_ns, reason)) {
    pthread_mutex_unlock(&s->lock);
    return false;
  }
  uint64_t arm_ns = CLOCK_NEVER;
  if (s->timekeeper != NULL && item->deadline.when_ns < s->timer_at_ns)
    arm_ns = s->timer_at_ns = item->deadline.when_ns;
  waiter *w = list_is_empty(&s->idle) ? end_linger(s) : reconsider_arrival(s, item);
  publish_pending(s);
  pthread_mutex_unlock(&s->lock);
  wake(w);
  if (arm_ns != CLOCK_NEVER) // rare: the timer stays armed while items with later deadlines pass
    timekeeper_arm(s->timekeeper, &s->timer, arm_ns);
  return true;
}

// Moves the first `count` items out of the queue. Locked.
static void collect(scheduler *s, queue_item **items, size_t count, batch_close_reason reason)
{
  assert(lock_is_held(&s->lock));
  forget_forming(s);
  for (size_t i = 0; i < count; i++) {
    items[i] = request_queue_first(&s->queue);
    request_queue_remove(&s->queue, items[i]);
    if (s->ordering != NULL)
      ordering_reserve(s->ordering, items[i]->slot);
  }
  items[0]->left_rows = s->queue.rows;
  uint64_t closed = atomic_load_explicit(&s->closed[reason], memory_order_relaxed);
  atomic_store_explicit(&s->closed[reason], closed + 1, memory_order_relaxed);
  publish_pending(s);
}

// Gives back expired items; releases the lock meanwhile.
static void expire_all(scheduler *s, uint64_t *now_ns)
{
  assert(lock_is_held(&s->lock));
  *now_ns = clock_now(s->clock);
  while (request_queue_next_deadline(&s->queue) <= *now_ns) {
    list expired;
    expire(s, *now_ns, &expired);
    publish_pending(s);
    if (list_is_empty(&expired))
      return;
    pthread_mutex_unlock(&s->lock);
    refuse_all(s, &expired, REFUSAL_TIMEOUT);
    pthread_mutex_lock(&s->lock);
    *now_ns = clock_now(s->clock);
  }
}

// Removes expired items from the queue; *now_ns is the time for the decision.
static inline void expire_before_decision(scheduler *s, uint64_t *now_ns)
{
  *now_ns = 0; // not needed if there are neither delay nor deadlines
  if (s->policy.max_delay_ns != 0 || request_queue_next_deadline(&s->queue) != CLOCK_NEVER)
    expire_all(s, now_ns);
}

// One attempt, locked on entry. True: a batch was taken and the lock released.
static inline bool try_take(scheduler *s, queue_item **items, size_t capacity,
                            batch_decision *decision)
{
  assert(lock_is_held(&s->lock));
  uint64_t now_ns;
  expire_before_decision(s, &now_ns);
  *decision = batch_policy_decide(&s->policy, &s->queue, capacity, now_ns);
  if (decision->verdict != BATCH_TAKE)
    return false;
  collect(s, items, decision->count, decision->reason);
  waiter *w = reconsider(s); // another worker may take the rest
  pthread_mutex_unlock(&s->lock);
  wake(w);
  return true;
}

// Sleeps until woken or, if no other worker waits for that, until the pending batch is due. Locked
// on entry and on return. True: this worker must end the execution that was begun in its place.
static inline bool park(scheduler *s, void *owner, const bool *leaving,
                        const batch_decision *decision)
{
  assert(lock_is_held(&s->lock));
  idle_worker own = {.owner = owner, .leaving = leaving};
  waiter_reset(&own.waiter);
  list_prepend(&s->idle, &own.node);
  uint64_t until_ns = CLOCK_NEVER;
  if (decision->verdict == BATCH_WAIT && s->leader == NULL) {
    s->leader = &own;
    s->wake_rows = decision->wake_rows;
    until_ns = s->due_ns = decision->until_ns;
  }
  pthread_mutex_unlock(&s->lock);
  waiter_sleep(&own.waiter, until_ns);
  pthread_mutex_lock(&s->lock);
  if (list_is_linked(&own.node)) {
    unlist_worker(s, &own);
  } else if (!own.handed_off) { // it no longer counts as on its way
    assert(s->waking > 0);
    s->waking--;
  }
  return own.handed_off;
}

// Passes on work for which this worker may have been woken. Locked on entry, not on return.
static size_t leave(scheduler *s)
{
  waiter *w = reconsider(s);
  pthread_mutex_unlock(&s->lock);
  wake(w);
  return 0;
}

size_t scheduler_take(scheduler *s, void *owner, const bool *leaving, queue_item **items,
                      size_t capacity, batch_close_reason *reason)
{
  batch_decision decision;
  pthread_mutex_lock(&s->lock);
  while (!is_dismissed(leaving)) {
    if (try_take(s, items, capacity, &decision)) {
      *reason = decision.reason;
      return decision.count;
    }
    if (decision.verdict == BATCH_EMPTY && s->stopped) {
      pthread_mutex_unlock(&s->lock);
      return 0;
    }
    if (park(s, owner, leaving, &decision)) {
      pthread_mutex_unlock(&s->lock);
      return SCHEDULER_HANDED_OFF;
    }
  }
  return leave(s);
}

size_t scheduler_await(scheduler *s, void *owner, const bool *leaving, bool wait)
{
  pthread_mutex_lock(&s->lock);
  while (!is_dismissed(leaving)) {
    uint64_t now_ns;
    expire_before_decision(s, &now_ns);
    batch_decision decision = batch_policy_decide(&s->policy, &s->queue, SIZE_MAX, now_ns);
    if (decision.verdict == BATCH_TAKE) {
      s->awaited++;
      leave(s);
      return 1;
    }
    if (!wait || (decision.verdict == BATCH_EMPTY && s->stopped)) {
      pthread_mutex_unlock(&s->lock);
      return 0;
    }
    if (park(s, owner, leaving, &decision)) {
      pthread_mutex_unlock(&s->lock);
      return SCHEDULER_HANDED_OFF;
    }
  }
  return leave(s);
}

size_t scheduler_take_awaited(scheduler *s, bool offered, const bool *leaving, queue_item **items,
                              size_t capacity, batch_close_reason *reason)
{
  batch_decision decision;
  pthread_mutex_lock(&s->lock);
  assert(offered || s->awaited > 0);
  s->awaited -= !offered;
  if (capacity > 0 && !is_dismissed(leaving) && try_take(s, items, capacity, &decision)) {
    *reason = decision.reason;
    return decision.count;
  }
  return leave(s);
}

void scheduler_offer(scheduler *s)
{
  waiter *w = NULL;
  pthread_mutex_lock(&s->lock);
  assert(s->awaited > 0);
  s->awaited--;
  if (s->queue.count > 0 && !list_is_empty(&s->idle))
    w = summon(s);
  pthread_mutex_unlock(&s->lock);
  wake(w);
}

// Whether a batch can grow by waiting: not if an idle worker would take new items at once, or a
// strategy decides.
static bool may_linger(const scheduler *s)
{
  assert(lock_is_held(&s->lock));
  return !s->stopped && s->policy.batching && s->policy.max_delay_ns == 0 &&
         s->policy.forming == NULL && list_is_empty(&s->idle) && s->lingering == NULL &&
         s->queue.rows < s->policy.max_batch_size;
}

bool scheduler_linger(scheduler *s, uint64_t rows, uint64_t until_ns)
{
  waiter own;
  pthread_mutex_lock(&s->lock);
  if (!may_linger(s)) {
    pthread_mutex_unlock(&s->lock);
    return true;
  }
  uint64_t before = s->queue.rows;
  uint64_t room = s->policy.max_batch_size - before;
  uint64_t awaited = rows < room ? rows : room;
  waiter_reset(&own);
  s->lingering = &own;
  s->linger_rows = before + awaited;
  pthread_mutex_unlock(&s->lock);
  waiter_sleep(&own, until_ns);
  pthread_mutex_lock(&s->lock);
  if (s->lingering == &own)
    s->lingering = NULL;
  bool returned = s->queue.rows >= before + (awaited + 1) / 2;
  pthread_mutex_unlock(&s->lock);
  return returned;
}

// The policy takes a batch of one if nothing else waits and it has no delay.
static bool may_claim(const scheduler *s)
{
  assert(lock_is_held(&s->lock));
  const idle_worker *w = first_idle(s);
  return !s->stopped && s->queue.count == 0 && w != NULL && w->owner != NULL &&
         (!s->policy.batching || s->policy.max_delay_ns == 0);
}

static bool may_run(const scheduler *s)
{
  return s->may_run == NULL || s->may_run(first_idle(s)->owner);
}

void *scheduler_claim(scheduler *s, queue_item *item, claimed_worker **claimed)
{
  void *owner = NULL;
  uint64_t now_ns = clock_now(s->clock);
  pthread_mutex_lock(&s->lock);
  bool pushed = may_claim(s) && request_queue_push(&s->queue, item, now_ns) == PUSH_DONE;
  if (pushed && !may_run(s)) {
    request_queue_remove(&s->queue, item);
  } else if (pushed) {
    batch_decision decision = batch_policy_decide(&s->policy, &s->queue, SIZE_MAX, now_ns);
    assert(decision.verdict == BATCH_TAKE && decision.count == 1);
    queue_item *taken;
    collect(s, &taken, 1, decision.reason);
    *claimed = first_idle(s);
    assert(*claimed != s->leader); // no leader exists: nothing was queued
    owner = (*claimed)->owner;
    unlist_worker(s, *claimed);
  }
  pthread_mutex_unlock(&s->lock);
  return owner;
}

void scheduler_release(scheduler *s, claimed_worker *claimed)
{
  waiter *w = NULL;
  pthread_mutex_lock(&s->lock);
  assert(!claimed->handed_off);
  list_prepend(&s->idle, &claimed->node);
  if (s->stopped || is_dismissed(claimed->leaving))
    w = call(s, claimed);
  else
    w = reconsider(s); // items may have come meanwhile
  pthread_mutex_unlock(&s->lock);
  wake(w);
}

void scheduler_hand_off(scheduler *s, claimed_worker *claimed)
{
  pthread_mutex_lock(&s->lock);
  assert(!list_is_linked(&claimed->node) && !claimed->handed_off);
  claimed->handed_off = true;
  waiter_signal(&claimed->waiter);
  pthread_mutex_unlock(&s->lock);
  waiter_wake(&claimed->waiter);
}

static bool may_take_ahead(const scheduler *s, size_t others)
{
  assert(lock_is_held(&s->lock));
  return !s->policy.batching && s->queue.count > s->waking + others &&
         request_queue_first(&s->queue)->may_go_ahead;
}

queue_item *scheduler_take_ahead(scheduler *s, size_t others)
{
  queue_item *item = NULL;
  pthread_mutex_lock(&s->lock);
  if (may_take_ahead(s, others))
    collect(s, &item, 1, BATCH_CLOSED_FULL);
  pthread_mutex_unlock(&s->lock);
  return item;
}

bool scheduler_cancel(scheduler *s, queue_item *item)
{
  pthread_mutex_lock(&s->lock);
  bool queued = item->state != ITEM_OUTSIDE;
  waiter *w = NULL;
  if (queued) {
    request_queue_remove(&s->queue, item);
    forget_forming(s);
    w = reconsider(s); // the rest may close a batch now
    publish_pending(s);
  }
  pthread_mutex_unlock(&s->lock);
  wake(w);
  return queued;
}

void scheduler_stop(scheduler *s)
{
  pthread_mutex_lock(&s->lock);
  s->stopped = true;
  s->policy.max_delay_ns = 0; // no request can join a batch any more
  while (!list_is_empty(&s->idle))
    waiter_wake(summon(s));
  pthread_mutex_unlock(&s->lock);
}

void scheduler_dismiss(scheduler *s, bool *leaving)
{
  waiter *called = NULL;
  pthread_mutex_lock(&s->lock);
  *leaving = true;
  list_node *node = list_first(&s->idle);
  for (; node != NULL; node = list_next(&s->idle, node)) {
    idle_worker *w = container_of(node, idle_worker, node);
    if (w->leaving == leaving) {
      called = call(s, w);
      break;
    }
  }
  pthread_mutex_unlock(&s->lock);
  wake(called);
}

void scheduler_abandon(scheduler *s)
{
  list out;
  list_init(&out);
  pthread_mutex_lock(&s->lock);
  forget_forming(s);
  for (queue_item *item; (item = request_queue_first(&s->queue)) != NULL;) {
    request_queue_remove(&s->queue, item);
    list_append(&out, &item->node);
  }
  publish_pending(s);
  pthread_mutex_unlock(&s->lock);
  refuse_all(s, &out, REFUSAL_STOPPED);
}

void scheduler_executed(scheduler *s, const executed_batch *b)
{
  uint64_t now_ns = clock_now(s->clock);
  LOCK_SCOPE(&s->lock);
  assert(s->latency != NULL);
  if (latency_policy_executed(s->latency, b->rows, b->left_rows, b->duration_ns, b->requests,
                              b->late, now_ns))
    use_choice(s);
}

void scheduler_set_workers(scheduler *s, uint64_t workers)
{
  pthread_mutex_lock(&s->lock);
  s->latency->settings.workers = workers;
  pthread_mutex_unlock(&s->lock);
}

latency_state scheduler_latency(scheduler *s, uint64_t rows)
{
  LOCK_SCOPE(&s->lock);
  return (latency_state){s->latency->choice, s->queue.rows,
                         latency_policy_retry_ns(s->latency, rows, s->queue.rows)};
}

size_t scheduler_pending(const scheduler *s)
{
  return atomic_load_explicit(&s->pending, memory_order_relaxed);
}

uint64_t scheduler_closed_batches(const scheduler *s, batch_close_reason reason)
{
  return atomic_load_explicit(&s->closed[reason], memory_order_relaxed);
}

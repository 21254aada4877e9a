// SPDX-License-Identifier: Apache-2.0
// The timer heap, its lock and its thread. The thread sleeps until the first timer is due and is
// woken only by a timer that comes earlier.
#include "schedule/timekeeper.h"

#include "base/thread.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct timekeeper {
  clock_source clock;
  pthread_mutex_t lock;   // guards all below and every timer's fields
  pthread_cond_t changed; // for the thread: an earlier timer, or the end
  pthread_cond_t fired;   // for timekeeper_cancel: a callback returned
  const timer *running;   // its callback runs; NULL once the callback cancelled it
  pthread_t runner;       // on this thread
  heap heap;
  uint64_t sleeping_until_ns; // when the thread will wake; 0 while it does not sleep
  timer question;             // timekeeper_answers
  _Atomic bool silent;        // the question has no answer yet
  bool stopped;
  bool has_thread;
  pthread_t thread;
};

static uint64_t answer(void *context, uint64_t now_ns)
{
  timekeeper *k = context;
  (void)now_ns;
  atomic_store_explicit(&k->silent, false, memory_order_relaxed);
  return CLOCK_NEVER;
}

static error *make_timekeeper(clock_source clock, timekeeper **k)
{
  timekeeper *made = calloc(1, sizeof(*made));
  if (made == NULL)
    return error_no_memory();
  made->clock = clock;
  pthread_mutex_init(&made->lock, NULL);
  pthread_cond_init(&made->changed, NULL);
  pthread_cond_init(&made->fired, NULL);
  timer_init(&made->question, answer, made);
  *k = made;
  return NULL;
}

// Puts an unarmed timer into the heap. Locked.
static void insert(timekeeper *k, timer *t, uint64_t when_ns)
{
  assert(lock_is_held(&k->lock) && !t->firing);
  t->node.when_ns = when_ns;
  heap_insert(&k->heap, &t->node);
}

// Runs the callback of a timer that was taken out of the heap. Locked on entry and on return.
static void fire(timekeeper *k, timer *t, uint64_t now_ns)
{
  assert(lock_is_held(&k->lock) && !t->firing && !heap_is_linked(&t->node));
  t->firing = true;
  t->rearm_ns = CLOCK_NEVER;
  k->running = t;
  k->runner = pthread_self();
  pthread_mutex_unlock(&k->lock);
  uint64_t next_ns = t->callback(t->context, now_ns);
  pthread_mutex_lock(&k->lock);
  if (k->running == NULL) // the timer may be freed
    return;
  k->running = NULL;
  t->firing = false;
  if (t->rearm_ns < next_ns)
    next_ns = t->rearm_ns;
  if (next_ns != CLOCK_NEVER)
    insert(k, t, next_ns);
  pthread_cond_broadcast(&k->fired);
}

// Locked on entry and on return.
static uint64_t fire_due(timekeeper *k)
{
  assert(lock_is_held(&k->lock));
  uint64_t now_ns = clock_now(k->clock);
  heap_node *node;
  while ((node = heap_first(&k->heap)) != NULL && node->when_ns <= now_ns) {
    heap_remove(&k->heap, node);
    fire(k, container_of(node, timer, node), now_ns);
  }
  return node != NULL ? node->when_ns : CLOCK_NEVER;
}

static void *run(void *argument)
{
  timekeeper *k = argument;
  pthread_mutex_lock(&k->lock);
  while (!k->stopped) {
    uint64_t next_ns = fire_due(k);
    if (next_ns <= clock_now(k->clock) || k->stopped)
      continue;
    k->sleeping_until_ns = next_ns;
    thread_wait(&k->changed, &k->lock, next_ns);
    k->sleeping_until_ns = 0;
  }
  pthread_mutex_unlock(&k->lock);
  return NULL;
}

error *timekeeper_new(clock_source clock, timekeeper **k)
{
  timekeeper *made = NULL;
  RETURN_IF_ERROR(make_timekeeper(clock, &made));
  error *failure = thread_start(&made->thread, "timekeeper", run, made);
  if (failure != NULL) {
    timekeeper_free(made);
    return failure;
  }
  made->has_thread = true;
  *k = made;
  return NULL;
}

void timekeeper_free(timekeeper *k)
{
  if (k == NULL)
    return;
  if (k->has_thread) {
    pthread_mutex_lock(&k->lock);
    k->stopped = true;
    pthread_cond_signal(&k->changed);
    pthread_mutex_unlock(&k->lock);
    pthread_join(k->thread, NULL);
  }
  timekeeper_cancel(k, &k->question);
  assert(heap_first(&k->heap) == NULL);
  pthread_cond_destroy(&k->changed);
  pthread_cond_destroy(&k->fired);
  pthread_mutex_destroy(&k->lock);
  free(k);
}

void timer_init(timer *t, timer_callback *callback, void *context)
{
  *t = (timer){.callback = callback, .context = context};
}

void timekeeper_arm(timekeeper *k, timer *t, uint64_t when_ns)
{
  if (when_ns == CLOCK_NEVER)
    return;
  pthread_mutex_lock(&k->lock);
  if (t->firing) {
    if (when_ns < t->rearm_ns)
      t->rearm_ns = when_ns;
  } else if (!heap_is_linked(&t->node)) {
    insert(k, t, when_ns);
  } else if (when_ns < t->node.when_ns) {
    heap_remove(&k->heap, &t->node);
    insert(k, t, when_ns);
  }
  if (when_ns < k->sleeping_until_ns)
    pthread_cond_signal(&k->changed);
  pthread_mutex_unlock(&k->lock);
}

bool timekeeper_answers(timekeeper *k)
{
  if (atomic_exchange_explicit(&k->silent, true, memory_order_relaxed))
    return false;
  timekeeper_arm(k, &k->question, 0);
  return true;
}

void timekeeper_cancel(timekeeper *k, timer *t)
{
  pthread_mutex_lock(&k->lock);
  if (t == k->running && pthread_equal(k->runner, pthread_self())) {
    t->firing = false;
    k->running = NULL;
    pthread_cond_broadcast(&k->fired);
  }
  while (t->firing)
    pthread_cond_wait(&k->fired, &k->lock);
  if (heap_is_linked(&t->node))
    heap_remove(&k->heap, &t->node);
  pthread_mutex_unlock(&k->lock);
}

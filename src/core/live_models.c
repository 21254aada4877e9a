// SPDX-License-Identifier: Apache-2.0
// The reaper, its helpers and their lists.
#include "core/live_models.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/thread.h"
#include "core/model.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define HELPERS 16

static void destroy(load_task *reap_task)
{
  model *m = container_of(reap_task, model, reap_task);
  live_models *live = m->live;
  char *name AUTO_FREE = strdup(m->id);
  int64_t version = m->target.version;
  bool was_loaded = atomic_load_explicit(&m->load_ns, memory_order_relaxed) > 0;
  model_destroy(m);
  live->on_gone(live->context, name != NULL ? name : "", version, m, was_loaded);
  LOCK_SCOPE(&live->lock);
  assert(live->count > 0);
  live->count--;
  pthread_cond_broadcast(&live->gone);
}

// Waits for work. NULL: the threads end, and there is none.
static load_task *take_task(live_models *live)
{
  LOCK_SCOPE(&live->lock);
  while (list_is_empty(&live->destroy_queue) && list_is_empty(&live->tasks) && !live->ending)
    pthread_cond_wait(&live->queued, &live->lock);
  load_task *task = container_of(list_take_first(&live->tasks), load_task, node);
  if (task != NULL)
    return task;
  model *m = container_of(list_take_first(&live->destroy_queue), model, destroy_node);
  if (m == NULL)
    return NULL;
  assert(refcount_peek(&m->target.references) == 0);
  list_remove(&m->live_node);
  m->reap_task.run = destroy;
  return &m->reap_task;
}

// A backend may take a second for each model, so several models are destroyed at a time. When no
// helper can be started, this thread does the work.
static void *reap(void *list)
{
  live_models *live = list;
  load_task *task;
  while ((task = take_task(live)) != NULL)
    load_pool_add(&live->helpers, task);
  return NULL;
}

error *live_models_init(live_models *live, model_gone *on_gone, void *context)
{
  *live = (live_models){.on_gone = on_gone, .context = context};
  list_init(&live->models);
  list_init(&live->destroy_queue);
  list_init(&live->tasks);
  pthread_mutex_init(&live->lock, NULL);
  pthread_cond_init(&live->queued, NULL);
  pthread_cond_init(&live->gone, NULL);
  load_pool_init(&live->helpers, "reaper", HELPERS);
  error *e = thread_start(&live->reaper, "reaper", reap, live);
  if (e != NULL) {
    load_pool_fini(&live->helpers);
    pthread_cond_destroy(&live->gone);
    pthread_cond_destroy(&live->queued);
    pthread_mutex_destroy(&live->lock);
  }
  return e;
}

bool live_models_fini(live_models *live)
{
  pthread_mutex_lock(&live->lock);
  bool left = live->count > 0;
  live->ending = true;
  pthread_cond_signal(&live->queued);
  pthread_mutex_unlock(&live->lock);
  if (left)
    return false; // the reaper may be inside a backend
  pthread_join(live->reaper, NULL);
  load_pool_fini(&live->helpers);
  pthread_cond_destroy(&live->gone);
  pthread_cond_destroy(&live->queued);
  pthread_mutex_destroy(&live->lock);
  return true;
}

void live_models_add(live_models *live, model *m)
{
  LOCK_SCOPE(&live->lock);
  m->live = live;
  list_prepend(&live->models, &m->live_node);
  live->count++;
}

void live_models_queue_destroy(live_models *live, model *m)
{
  LOCK_SCOPE(&live->lock);
  list_append(&live->destroy_queue, &m->destroy_node);
  pthread_cond_signal(&live->queued);
}

void live_models_queue_task(live_models *live, load_task *task)
{
  LOCK_SCOPE(&live->lock);
  list_append(&live->tasks, &task->node);
  pthread_cond_signal(&live->queued);
}

void live_models_visit(live_models *live, void (*visit)(void *context, model *m), void *context)
{
  LOCK_SCOPE(&live->lock);
  list_foreach (model, m, live_node, &live->models)
    visit(context, m);
}

// A referenced model stays in the list, so that `m` leads to the next one.
static model *find_next(live_models *live, const model *m)
{
  LOCK_SCOPE(&live->lock);
  assert(list_is_empty(&live->models) || live->count > 0);
  list_node *next = m == NULL ? list_first(&live->models) : list_next(&live->models, &m->live_node);
  while (next != NULL) {
    model *found = container_of(next, model, live_node);
    if (refcount_try_take(&found->target.references))
      return found;
    next = list_next(&live->models, next); // that one is about to be destroyed
  }
  return NULL;
}

model *live_models_next(live_models *live, model *m_owned)
{
  model *next = find_next(live, m_owned);
  if (m_owned != NULL)
    model_unref(m_owned);
  return next;
}

size_t live_models_await_none(live_models *live, uint64_t deadline_ns)
{
  LOCK_SCOPE(&live->lock);
  while (live->count > 0 && thread_wait(&live->gone, &live->lock, deadline_ns))
    ;
  return live->count;
}

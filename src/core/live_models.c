// The undertaker, its helpers and its list.
#include "core/live_models.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/thread.h"
#include "core/model_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define HELPERS 16

// Waits for a dead model and takes it off the list; NULL when the end was asked for and there is
// none.
static model *take_dead(live_models *live)
{
  LOCK_SCOPE(&live->lock);
  while (live->dead == NULL && !live->ending)
    pthread_cond_wait(&live->died, &live->lock);
  model *m = live->dead;
  if (m == NULL)
    return NULL;
  live->dead = m->dead_next;
  assert(refcount_peek(&m->target.references) == 0);
  if (m->live_previous != NULL)
    m->live_previous->live_next = m->live_next;
  else
    live->first = m->live_next;
  if (m->live_next != NULL)
    m->live_next->live_previous = m->live_previous;
  return m;
}

static void destroy(load_task *burial)
{
  model *m = model_of_burial(burial);
  live_models *live = m->live;
  char *name AUTO_FREE = strdup(m->name);
  int64_t version = m->target.version;
  model_destroy(m);
  live->tell(live->context, name != NULL ? name : "", version, m);
  LOCK_SCOPE(&live->lock);
  assert(live->count > 0);
  live->count--;
  pthread_cond_broadcast(&live->gone);
}

// A backend may take a second for each model, so several are destroyed at a time; where no thread
// can be had, this one does it.
static void *bury(void *list)
{
  live_models *live = list;
  model *m;
  while ((m = take_dead(live)) != NULL) {
    m->burial.run = destroy;
    load_pool_add(&live->helpers, &m->burial);
  }
  return NULL;
}

error *live_models_init(live_models *live, model_gone *tell, void *context)
{
  *live = (live_models){.tell = tell, .context = context};
  pthread_mutex_init(&live->lock, NULL);
  pthread_cond_init(&live->died, NULL);
  pthread_cond_init(&live->gone, NULL);
  load_pool_init(&live->helpers, "undertaker", HELPERS);
  error *e = thread_start(&live->undertaker, "undertaker", bury, live);
  if (e != NULL) {
    load_pool_fini(&live->helpers);
    pthread_cond_destroy(&live->gone);
    pthread_cond_destroy(&live->died);
    pthread_mutex_destroy(&live->lock);
  }
  return e;
}

bool live_models_fini(live_models *live)
{
  pthread_mutex_lock(&live->lock);
  bool left = live->count > 0;
  live->ending = true;
  pthread_cond_signal(&live->died);
  pthread_mutex_unlock(&live->lock);
  if (left)
    return false; // the undertaker may be inside a backend
  pthread_join(live->undertaker, NULL);
  load_pool_fini(&live->helpers);
  pthread_cond_destroy(&live->gone);
  pthread_cond_destroy(&live->died);
  pthread_mutex_destroy(&live->lock);
  return true;
}

void live_models_add(live_models *live, model *m, double load_seconds)
{
  LOCK_SCOPE(&live->lock);
  m->live = live;
  m->load_seconds = load_seconds;
  m->live_previous = NULL;
  m->live_next = live->first;
  if (live->first != NULL)
    live->first->live_previous = m;
  live->first = m;
  live->count++;
}

void live_models_died(live_models *live, model *m)
{
  LOCK_SCOPE(&live->lock);
  m->dead_next = live->dead;
  live->dead = m;
  pthread_cond_signal(&live->died);
}

void live_models_visit(live_models *live, void (*visit)(void *context, model *m), void *context)
{
  LOCK_SCOPE(&live->lock);
  for (model *m = live->first; m != NULL; m = m->live_next)
    visit(context, m);
}

// A model with a reference stays in the list, so that `m` leads to the next one.
static model *find_next(live_models *live, const model *m)
{
  LOCK_SCOPE(&live->lock);
  assert(live->first == NULL || live->count > 0);
  model *next = m == NULL ? live->first : m->live_next;
  while (next != NULL && !refcount_try_take(&next->target.references)) // waits for its undertaker
    next = next->live_next;
  return next;
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

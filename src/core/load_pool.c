// Threads come with the work and leave when there is none.
#include "core/load_pool.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/thread.h"

#include <stdbool.h>

void load_pool_init(load_pool *pool, size_t thread_limit)
{
  pthread_mutex_init(&pool->lock, NULL);
  pthread_cond_init(&pool->ended, NULL);
  pool->first = NULL;
  pool->last = &pool->first;
  pool->thread_count = 0;
  pool->thread_limit = thread_limit > 0 ? thread_limit : 1;
}

void load_pool_fini(load_pool *pool)
{
  pthread_mutex_lock(&pool->lock);
  while (pool->thread_count > 0)
    pthread_cond_wait(&pool->ended, &pool->lock);
  pthread_mutex_unlock(&pool->lock);
  pthread_cond_destroy(&pool->ended);
  pthread_mutex_destroy(&pool->lock);
}

// The next task, or NULL: then the calling thread no longer counts.
static load_task *take_task(load_pool *pool)
{
  LOCK_SCOPE(&pool->lock);
  load_task *task = pool->first;
  if (task == NULL) {
    if (--pool->thread_count == 0)
      pthread_cond_broadcast(&pool->ended);
    return NULL;
  }
  pool->first = task->next;
  if (pool->first == NULL)
    pool->last = &pool->first;
  return task;
}

static void *run_tasks(void *pool)
{
  load_task *task;
  while ((task = take_task(pool)) != NULL)
    task->run(task);
  return NULL;
}

void load_pool_add(load_pool *pool, load_task *task)
{
  pthread_mutex_lock(&pool->lock);
  task->next = NULL;
  *pool->last = task;
  pool->last = &task->next;
  bool start = pool->thread_count < pool->thread_limit;
  if (start)
    pool->thread_count++;
  pthread_mutex_unlock(&pool->lock);
  if (!start)
    return;
  pthread_t thread;
  error *e = thread_start(&thread, "load", run_tasks, pool);
  if (e == NULL) {
    pthread_detach(thread);
    return;
  }
  log_warning("a load thread could not be started, loading on the caller's: %s", error_message(e));
  error_free(e);
  run_tasks(pool);
}

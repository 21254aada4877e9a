// SPDX-License-Identifier: Apache-2.0
// Threads are started when there is work, and leave when there is none.
#include "core/load_pool.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/thread.h"

#include <assert.h>

void load_pool_init(load_pool *pool, const char *thread_name, size_t thread_limit)
{
  pthread_mutex_init(&pool->lock, NULL);
  pthread_cond_init(&pool->ended, NULL);
  list_init(&pool->tasks);
  pool->thread_count = 0;
  pool->thread_limit = thread_limit > 0 ? thread_limit : 1;
  pool->thread_name = thread_name;
  pool->any_left = false;
}

void load_pool_fini(load_pool *pool)
{
  pthread_mutex_lock(&pool->lock);
  while (pool->thread_count > 0)
    pthread_cond_wait(&pool->ended, &pool->lock);
  pthread_mutex_unlock(&pool->lock);
  assert(list_is_empty(&pool->tasks));
  if (pool->any_left)
    pthread_join(pool->left, NULL);
  pthread_cond_destroy(&pool->ended);
  pthread_mutex_destroy(&pool->lock);
}

// The next task. NULL: there is none, and the thread no longer counts. The lock is held.
static load_task *take_task(load_pool *pool)
{
  assert(lock_is_held(&pool->lock) && pool->thread_count > 0);
  load_task *task = container_of(list_take_first(&pool->tasks), load_task, node);
  if (task == NULL && --pool->thread_count == 0)
    pthread_cond_broadcast(&pool->ended);
  return task;
}

// Runs tasks until there is none. The lock is held before and after.
static void run_tasks(load_pool *pool)
{
  load_task *task;
  while ((task = take_task(pool)) != NULL) {
    pthread_mutex_unlock(&pool->lock);
    task->run(task);
    pthread_mutex_lock(&pool->lock);
  }
}

// Each thread joins the thread that left before it, so that after the pool's end no thread is still
// on its way out in code of this library or of a backend.
static void *run_thread(void *pool_pointer)
{
  load_pool *pool = pool_pointer;
  pthread_mutex_lock(&pool->lock);
  run_tasks(pool);
  bool joins = pool->any_left;
  pthread_t before = pool->left;
  pool->left = pthread_self();
  pool->any_left = true;
  pthread_mutex_unlock(&pool->lock);
  if (joins)
    pthread_join(before, NULL);
  return NULL;
}

void load_pool_add(load_pool *pool, load_task *task)
{
  LOCK_SCOPE(&pool->lock); // a new thread cannot leave before thread_start has returned
  list_append(&pool->tasks, &task->node);
  if (pool->thread_count == pool->thread_limit)
    return;
  pthread_t thread;
  pool->thread_count++;
  error *e = thread_start(&thread, pool->thread_name, run_thread, pool);
  if (e == NULL)
    return;
  log_warning("a thread '%s' could not be started, the caller's does its work: %s",
              pool->thread_name, error_message(e));
  error_free(e);
  run_tasks(pool);
}

// SPDX-License-Identifier: Apache-2.0
// Threads that load or destroy models: as many as are needed up to a limit, none while there is
// nothing to do. Any thread may add work.
#ifndef NEREID_CORE_LOAD_POOL_H
#define NEREID_CORE_LOAD_POOL_H

#include "base/error.h"
#include "base/list.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

// Embedded in the work to do; the pool's until `run` is called.
typedef struct load_task {
  void (*run)(struct load_task *task);
  list_node node; // zeroed by the caller
} load_task;

typedef struct load_pool {
  pthread_mutex_t lock; // guards everything below
  list tasks;
  size_t thread_count; // running
  size_t thread_limit;
  const char *thread_name;
  pthread_t left; // the last thread that left; the next one to leave, or the end, joins it
  bool any_left;
  pthread_cond_t ended; // thread_count fell to 0
} load_pool;

// `thread_name` stays the caller's.
void load_pool_init(load_pool *pool, const char *thread_name, size_t thread_limit);
// Waits for all threads. Nothing may be added any more.
void load_pool_fini(load_pool *pool);

// Runs `task` on a thread of the pool, in the order of adding; on the calling thread when no thread
// can be started.
void load_pool_add(load_pool *pool, load_task *task);

#endif

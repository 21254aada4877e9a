// SPDX-License-Identifier: Apache-2.0
// The thread holds the lock except while it ticks.
#include "core/gpu_ticker.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"

#include <pthread.h>
#include <stdlib.h>

#define PATIENCE_NS UINT64_C(2000000000)

struct gpu_ticker {
  const char *name; // a constant
  uint64_t interval_ns;
  bool (*tick)(void *context);
  void *context;
  pthread_t thread;
  pthread_mutex_t lock; // guards what follows
  pthread_cond_t changed;
  bool stopping, over;
};

static void *run(void *pointer)
{
  gpu_ticker *t = pointer;
  bool again = true;
  pthread_mutex_lock(&t->lock);
  while (again && !t->stopping) {
    pthread_mutex_unlock(&t->lock);
    again = t->tick(t->context);
    pthread_mutex_lock(&t->lock);
    uint64_t due_ns = clock_monotonic_ns() + t->interval_ns;
    while (again && !t->stopping && thread_wait(&t->changed, &t->lock, due_ns))
      ;
  }
  t->over = true;
  pthread_cond_broadcast(&t->changed);
  pthread_mutex_unlock(&t->lock);
  return NULL;
}

error *gpu_ticker_new(const char *name, uint64_t interval_ns, bool (*tick)(void *context),
                      void *context, gpu_ticker **ticker)
{
  gpu_ticker *t = calloc(1, sizeof(*t));
  if (t == NULL)
    return error_no_memory();
  t->name = name;
  t->interval_ns = interval_ns;
  t->tick = tick;
  t->context = context;
  pthread_mutex_init(&t->lock, NULL);
  pthread_cond_init(&t->changed, NULL);
  error *e = thread_start(&t->thread, name, run, t);
  if (e != NULL) {
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->changed);
    free(t);
    return e;
  }
  *ticker = t;
  return NULL;
}

bool gpu_ticker_free(gpu_ticker *t)
{
  if (t == NULL)
    return true;
  uint64_t until_ns = clock_monotonic_ns() + PATIENCE_NS;
  pthread_mutex_lock(&t->lock);
  t->stopping = true;
  pthread_cond_broadcast(&t->changed);
  while (!t->over && thread_wait(&t->changed, &t->lock, until_ns))
    ;
  bool over = t->over;
  pthread_mutex_unlock(&t->lock);
  if (!over) {
    log_warning("thread '%s' is left behind: the GPU's driver does not come back", t->name);
    pthread_detach(t->thread);
    return false;
  }
  pthread_join(t->thread, NULL);
  pthread_mutex_destroy(&t->lock);
  pthread_cond_destroy(&t->changed);
  free(t);
  return true;
}

// SPDX-License-Identifier: Apache-2.0
// The thread's life and its wait for work. See writer.h.
#include "frontend/common/observe/writer.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/thread.h"

#include <assert.h>

// ---- the thread

static void await_work(writer *w)
{
  while (
      !w->urgent && !w->stopping && w->weight < w->enough &&
      thread_wait(&w->changed, &w->lock, w->weight == 0 ? CLOCK_NEVER : w->oldest_ns + w->wait_ns))
    continue;
}

static void *run_writer(void *pointer)
{
  writer *w = pointer;
  LOCK_SCOPE(&w->lock);
  for (await_work(w); w->weight > 0 || w->urgent; await_work(w)) {
    w->weight = 0;
    w->urgent = false;
    w->work(w);
  }
  w->ended = true;
  pthread_cond_signal(&w->changed);
  return NULL;
}

// ---- what comes

bool writer_admit(writer *w, size_t weight)
{
  assert(lock_is_held(&w->lock));
  if (w->stopping || weight > w->most || w->weight > w->most - weight)
    return false;
  bool first = w->weight == 0, below = w->weight < w->enough;
  w->weight += weight;
  if (first)
    w->oldest_ns = clock_monotonic_ns();
  if (first || (below && w->weight >= w->enough))
    pthread_cond_signal(&w->changed);
  return true;
}

void writer_urge(writer *w)
{
  assert(lock_is_held(&w->lock));
  w->urgent = true;
  pthread_cond_signal(&w->changed);
}

// ---- what is lost

// Without metrics `lost` stays NULL.
static void make_counter(writer *w, const char *metric, const char *description)
{
  TRITONSERVER_Error *failure = TRITONSERVER_MetricFamilyNew(
      &w->family, TRITONSERVER_METRIC_KIND_COUNTER, metric, description);
  if (failure == NULL)
    failure = TRITONSERVER_MetricNew(&w->lost, w->family, NULL, 0);
  TRITONSERVER_ErrorDelete(failure);
}

void writer_count_lost(const writer *w, uint64_t count)
{
  if (w->lost != NULL && count > 0)
    TRITONSERVER_ErrorDelete(TRITONSERVER_MetricIncrement(w->lost, (double)count));
}

// ---- life

error *writer_start(writer *w, const char *name, const char *metric, const char *description)
{
  pthread_mutex_init(&w->lock, NULL);
  pthread_cond_init(&w->changed, NULL);
  make_counter(w, metric, description);
  error *e = thread_start(&w->thread, name, run_writer, w);
  if (e != NULL)
    writer_fini(w);
  return e;
}

static bool await_end(writer *w, uint64_t deadline_ns)
{
  LOCK_SCOPE(&w->lock);
  w->stopping = true;
  pthread_cond_signal(&w->changed);
  while (!w->ended && thread_wait(&w->changed, &w->lock, deadline_ns))
    continue;
  return w->ended;
}

bool writer_stop(writer *w, uint64_t deadline_ns)
{
  bool ended = await_end(w, deadline_ns);
  if (ended)
    pthread_join(w->thread, NULL);
  else
    pthread_detach(w->thread);
  return ended;
}

void writer_fini(writer *w)
{
  if (w->lost != NULL)
    TRITONSERVER_ErrorDelete(TRITONSERVER_MetricDelete(w->lost));
  if (w->family != NULL)
    TRITONSERVER_ErrorDelete(TRITONSERVER_MetricFamilyDelete(w->family));
  pthread_cond_destroy(&w->changed);
  pthread_mutex_destroy(&w->lock);
}

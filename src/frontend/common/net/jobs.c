// SPDX-License-Identifier: Apache-2.0
// Queues of jobs, the threads that run them, and parts of another thread's work.
//
// Each thread takes any job that may run. There are as many threads as all kinds together may use,
// so a job whose kind is below its limit always gets one.
#include "frontend/common/net/jobs.h"

#include "base/cleanup.h"
#include "base/machine.h"
#include "base/thread.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

// A limit of threads that some kinds of jobs share.
typedef struct job_class {
  size_t queued;
  size_t running;
  size_t max_running;
} job_class;

typedef enum class_index {
  CLASS_COMPUTES,
  CLASS_PROBES,
  CLASS_BLOCKS,
  CLASS_DRIVER,
  CLASSES
} class_index;

static const class_index class_of[JOB_KINDS] = {
    [JOB_FINISHES] = CLASS_COMPUTES, [JOB_COMPUTES] = CLASS_COMPUTES, [JOB_PROBES] = CLASS_PROBES,
    [JOB_BLOCKS] = CLASS_BLOCKS,     [JOB_DRIVER] = CLASS_DRIVER,
};

// Work in parts, on the stack of the thread that asked for it.
typedef struct parts {
  parallel_part *run;
  void *context;
  size_t count;
  size_t taken;
  size_t running;
  pthread_cond_t done; // signalled when no part runs
  list_node node;      // while a part is left to take
} parts;

struct jobs {
  pthread_mutex_t mutex; // guards what follows
  pthread_cond_t arrived;
  list queues[JOB_KINDS];
  job_class classes[CLASSES];
  list parts; // those with a part left to take
  size_t idle_count;
  size_t thread_count;
  bool stopping;
  size_t max_threads; // sum of all classes' limits
  pthread_t *threads;
};

error *jobs_new(jobs **result)
{
  jobs *j = calloc(1, sizeof(*j));
  if (j == NULL)
    return error_no_memory();
  j->classes[CLASS_COMPUTES].max_running = machine_cpus();
  j->classes[CLASS_PROBES].max_running = JOBS_MAX_PROBES;
  j->classes[CLASS_BLOCKS].max_running = JOBS_MAX_BLOCKING;
  j->classes[CLASS_DRIVER].max_running = JOBS_MAX_DRIVER_CALLS;
  for (size_t i = 0; i < CLASSES; i++)
    j->max_threads += j->classes[i].max_running;
  for (size_t i = 0; i < JOB_KINDS; i++)
    list_init(&j->queues[i]);
  list_init(&j->parts);
  j->threads = calloc(j->max_threads, sizeof(*j->threads));
  if (j->threads == NULL) {
    free(j);
    return error_no_memory();
  }
  pthread_mutex_init(&j->mutex, NULL);
  pthread_cond_init(&j->arrived, NULL);
  *result = j;
  return NULL;
}

// ---- what may run; the mutex is held ----

static bool has_room(const job_class *c)
{
  assert(c->running <= c->max_running);
  return c->running < c->max_running;
}

// How many of the queued jobs threads may take now.
static size_t count_runnable(const jobs *j)
{
  size_t count = 0;
  for (size_t i = 0; i < CLASSES; i++) {
    const job_class *c = &j->classes[i];
    size_t room = c->max_running - c->running;
    count += c->queued < room ? c->queued : room;
  }
  return count;
}

// Runs a job, if one may run. The mutex is released meanwhile, as in run_part.
static bool run_job(jobs *j)
{
  job_kind kind = 0;
  while (kind < JOB_KINDS &&
         (list_is_empty(&j->queues[kind]) || !has_room(&j->classes[class_of[kind]])))
    kind++;
  if (kind == JOB_KINDS)
    return false;
  job_class *class = &j->classes[class_of[kind]];
  job *next = container_of(list_take_first(&j->queues[kind]), job, node);
  assert(class->queued > 0);
  class->queued--;
  class->running++;
  pthread_mutex_unlock(&j->mutex);
  next->run(next);
  pthread_mutex_lock(&j->mutex);
  class->running--;
  return true;
}

static void run_part(jobs *j, parts *p)
{
  assert(p->taken < p->count);
  size_t index = p->taken++;
  p->running++;
  if (p->taken == p->count) // no part is left to take
    list_remove(&p->node);
  pthread_mutex_unlock(&j->mutex);
  p->run(p->context, index);
  pthread_mutex_lock(&j->mutex);
  if (--p->running == 0)
    pthread_cond_signal(&p->done);
}

static bool run_part_of_another(jobs *j)
{
  job_class *class = &j->classes[CLASS_COMPUTES];
  if (list_is_empty(&j->parts) || !has_room(class))
    return false;
  class->running++;
  run_part(j, container_of(list_first(&j->parts), parts, node));
  class->running--;
  return true;
}

// ---- threads ----

static void *run(void *argument)
{
  jobs *j = argument;
  pthread_mutex_lock(&j->mutex);
  for (;;) {
    if (run_job(j) || run_part_of_another(j))
      continue;
    if (j->stopping)
      break;
    j->idle_count++;
    pthread_cond_wait(&j->arrived, &j->mutex);
    j->idle_count--;
  }
  pthread_mutex_unlock(&j->mutex);
  return NULL;
}

// The mutex is held.
static error *add_thread(jobs *j)
{
  assert(j->thread_count < j->max_threads);
  error *failure = thread_start(&j->threads[j->thread_count], "job", run, j);
  if (failure == NULL)
    j->thread_count++;
  return failure;
}

error *jobs_submit(jobs *j, job_kind kind, job *added)
{
  LOCK_SCOPE(&j->mutex);
  assert(!j->stopping);
  job_class *class = &j->classes[class_of[kind]];
  bool runnable = class->queued < class->max_running - class->running;
  // A new thread is needed if each idle one has a job to take already. At max_threads, one of them
  // is just starting.
  if (runnable && j->idle_count <= count_runnable(j) && j->thread_count < j->max_threads) {
    error *failure = add_thread(j);
    if (failure != NULL && j->thread_count == 0)
      return failure;
    error_free(failure); // the other threads run it
  }
  list_append(&j->queues[kind], &added->node);
  class->queued++;
  if (runnable)
    pthread_cond_signal(&j->arrived);
  return NULL;
}

void jobs_run_parts(void *jobs_pointer, size_t count, parallel_part *part, void *context)
{
  jobs *j = jobs_pointer;
  parts p = {.run = part, .context = context, .count = count};
  if (count == 0)
    return;
  pthread_cond_init(&p.done, NULL);
  pthread_mutex_lock(&j->mutex);
  list_prepend(&j->parts, &p.node);
  const job_class *class = &j->classes[CLASS_COMPUTES];
  size_t max_helpers = j->stopping ? 0 : class->max_running - class->running;
  for (size_t i = j->idle_count;
       i + 1 < count && i < max_helpers && j->thread_count < j->max_threads; i++)
    error_free(add_thread(j)); // fewer threads do as well
  pthread_cond_broadcast(&j->arrived);
  while (p.taken < p.count)
    run_part(j, &p);
  while (p.running > 0)
    pthread_cond_wait(&p.done, &j->mutex);
  pthread_mutex_unlock(&j->mutex);
  pthread_cond_destroy(&p.done);
}

void jobs_free(jobs *j)
{
  if (j == NULL)
    return;
  pthread_mutex_lock(&j->mutex);
  j->stopping = true;
  pthread_cond_broadcast(&j->arrived);
  pthread_mutex_unlock(&j->mutex);
  for (size_t i = 0; i < j->thread_count; i++)
    pthread_join(j->threads[i], NULL);
  for (size_t i = 0; i < JOB_KINDS; i++)
    assert(list_is_empty(&j->queues[i]));
  assert(list_is_empty(&j->parts));
  pthread_cond_destroy(&j->arrived);
  pthread_mutex_destroy(&j->mutex);
  free(j->threads);
  free(j);
}

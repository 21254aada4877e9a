// Queues of jobs, the threads that run them, and parts of what another thread does.
#include "frontend/common/net/jobs.h"

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/thread.h"

#include <stdbool.h>
#include <stdlib.h>

typedef struct job_queue {
  job *first;
  job *last;
} job_queue;

// Work in parts, on the stack of the thread that wants it done.
typedef struct parts {
  parallel_part *run;
  void *context;
  size_t count;
  size_t taken;
  size_t running;
  pthread_cond_t done; // none runs
  struct parts *next;
} parts;

struct jobs {
  const char *thread_name;
  pthread_mutex_t mutex; // guards what follows
  pthread_cond_t arrived;
  job_queue queues[JOB_ORDERS]; // by job_order
  size_t queued_count;
  parts *parts; // that have one to take
  size_t idle_count;
  size_t thread_count;
  size_t max_threads;
  bool stopping;
  pthread_t threads[];
};

error *jobs_new(const char *thread_name, size_t max_threads, jobs **result)
{
  size_t size;
  bool fits = checked_array_size(sizeof(jobs), max_threads, sizeof(pthread_t), &size);
  jobs *j = fits ? calloc(1, size) : NULL;
  if (j == NULL)
    return error_no_memory();
  j->thread_name = thread_name;
  j->max_threads = max_threads;
  pthread_mutex_init(&j->mutex, NULL);
  pthread_cond_init(&j->arrived, NULL);
  *result = j;
  return NULL;
}

// The mutex is held, and given up meanwhile, as in run_part.
static void run_job(jobs *j)
{
  job_queue *queue = j->queues;
  while (queue->first == NULL)
    queue++;
  job *next = queue->first;
  j->queued_count--;
  queue->first = next->next;
  if (queue->first == NULL)
    queue->last = NULL;
  pthread_mutex_unlock(&j->mutex);
  next->run(next);
  pthread_mutex_lock(&j->mutex);
}

static void run_part(jobs *j, parts *p)
{
  size_t index = p->taken++;
  p->running++;
  if (p->taken == p->count) { // nothing more to take
    parts **link = &j->parts;
    while (*link != p)
      link = &(*link)->next;
    *link = p->next;
  }
  pthread_mutex_unlock(&j->mutex);
  p->run(p->context, index);
  pthread_mutex_lock(&j->mutex);
  if (--p->running == 0)
    pthread_cond_signal(&p->done);
}

static void *run(void *argument)
{
  jobs *j = argument;
  pthread_mutex_lock(&j->mutex);
  while (j->queued_count > 0 || j->parts != NULL || !j->stopping) {
    if (j->queued_count > 0) {
      run_job(j);
    } else if (j->parts != NULL) {
      run_part(j, j->parts);
    } else {
      j->idle_count++;
      pthread_cond_wait(&j->arrived, &j->mutex);
      j->idle_count--;
    }
  }
  pthread_mutex_unlock(&j->mutex);
  return NULL;
}

// The mutex is held, as in make_room.
static error *add_thread(jobs *j)
{
  error *failure = thread_start(&j->threads[j->thread_count], j->thread_name, run, j);
  if (failure == NULL)
    j->thread_count++;
  return failure;
}

// Starts a thread when every idle one has a job to take already and one more is allowed.
static error *make_room(jobs *j)
{
  if (j->idle_count > j->queued_count || j->thread_count == j->max_threads)
    return NULL;
  error *failure = add_thread(j);
  if (failure != NULL && j->thread_count > 0) { // the others get to it
    error_free(failure);
    failure = NULL;
  }
  return failure;
}

error *jobs_submit(jobs *j, job_order order, job *added)
{
  LOCK_SCOPE(&j->mutex);
  RETURN_IF_ERROR(make_room(j));
  job_queue *queue = &j->queues[order];
  added->next = NULL;
  if (queue->last == NULL)
    queue->first = added;
  else
    queue->last->next = added;
  queue->last = added;
  j->queued_count++;
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
  p.next = j->parts;
  j->parts = &p;
  size_t most = j->stopping ? 0 : j->max_threads;
  for (size_t i = j->idle_count + 1; i < count && j->thread_count < most; i++)
    error_free(add_thread(j)); // fewer do as well
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
  pthread_cond_destroy(&j->arrived);
  pthread_mutex_destroy(&j->mutex);
  free(j);
}

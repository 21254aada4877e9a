// A queue of exchanges and the threads that run their jobs.
#include "frontend/http/jobs.h"

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/thread.h"
#include "frontend/http/exchange.h"

#include <stdbool.h>
#include <stdlib.h>

typedef struct job_queue {
  exchange *first;
  exchange *last;
} job_queue;

struct jobs {
  pthread_mutex_t mutex; // guards what follows
  pthread_cond_t arrived;
  job_queue queues[JOB_ORDERS]; // by job_order
  size_t queued_count;
  size_t idle_count;
  size_t thread_count;
  size_t max_threads;
  bool stopping;
  pthread_t threads[];
};

error *jobs_new(size_t max_threads, jobs **result)
{
  size_t size;
  bool fits = checked_array_size(sizeof(jobs), max_threads, sizeof(pthread_t), &size);
  jobs *j = fits ? calloc(1, size) : NULL;
  if (j == NULL)
    return error_no_memory();
  j->max_threads = max_threads;
  pthread_mutex_init(&j->mutex, NULL);
  pthread_cond_init(&j->arrived, NULL);
  *result = j;
  return NULL;
}

// The next job, or NULL at the end of all; the mutex is held.
static exchange *wait_for_job(jobs *j)
{
  while (j->queued_count == 0 && !j->stopping) {
    j->idle_count++;
    pthread_cond_wait(&j->arrived, &j->mutex);
    j->idle_count--;
  }
  if (j->queued_count == 0)
    return NULL;
  job_queue *queue = j->queues;
  while (queue->first == NULL)
    queue++;
  exchange *x = queue->first;
  j->queued_count--;
  queue->first = x->next_job;
  if (queue->first == NULL)
    queue->last = NULL;
  return x;
}

static void *run(void *argument)
{
  jobs *j = argument;
  pthread_mutex_lock(&j->mutex);
  exchange *x;
  while ((x = wait_for_job(j)) != NULL) {
    pthread_mutex_unlock(&j->mutex);
    x->job(x);
    exchange_resume(x);
    pthread_mutex_lock(&j->mutex);
  }
  pthread_mutex_unlock(&j->mutex);
  return NULL;
}

// Starts a thread when every idle one has a job to take already and one more is allowed; the mutex
// is held.
static error *add_thread(jobs *j)
{
  if (j->idle_count > j->queued_count || j->thread_count == j->max_threads)
    return NULL;
  error *failure = thread_start(&j->threads[j->thread_count], "http-job", run, j);
  if (failure == NULL)
    j->thread_count++;
  else if (j->thread_count > 0) { // the others get to it
    error_free(failure);
    failure = NULL;
  }
  return failure;
}

error *jobs_submit(jobs *j, job_order order, exchange *x)
{
  LOCK_SCOPE(&j->mutex);
  RETURN_IF_ERROR(add_thread(j));
  job_queue *queue = &j->queues[order];
  x->next_job = NULL;
  if (queue->last == NULL)
    queue->first = x;
  else
    queue->last->next_job = x;
  queue->last = x;
  j->queued_count++;
  pthread_cond_signal(&j->arrived);
  return NULL;
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

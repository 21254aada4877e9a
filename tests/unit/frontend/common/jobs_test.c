// SPDX-License-Identifier: Apache-2.0
// The threads for jobs: each kind has its own number of them, whatever the others do.
#include "base/machine.h"
#include "frontend/common/net/jobs.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MAX_JOBS 64

// What the jobs of a test share. A job waits until the gate is open.
typedef struct fixture {
  jobs *jobs;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  bool open;
  size_t running;
  size_t done;
  int order[MAX_JOBS]; // names of those that are done
} fixture;

typedef struct gated {
  job job;
  fixture *fixture;
  int name;
} gated;

static void run_gated(job *j)
{
  gated *g = container_of(j, gated, job);
  fixture *f = g->fixture;
  pthread_mutex_lock(&f->mutex);
  f->running++;
  pthread_cond_broadcast(&f->changed);
  while (!f->open)
    pthread_cond_wait(&f->changed, &f->mutex);
  f->running--;
  f->order[f->done++] = g->name;
  pthread_cond_broadcast(&f->changed);
  pthread_mutex_unlock(&f->mutex);
}

static void submit(fixture *f, gated *g, job_kind kind, int name)
{
  *g = (gated){.job.run = run_gated, .fixture = f, .name = name};
  assert_null(jobs_submit(f->jobs, kind, &g->job));
}

static void await(fixture *f, size_t *count, size_t wanted)
{
  pthread_mutex_lock(&f->mutex);
  while (*count < wanted)
    pthread_cond_wait(&f->changed, &f->mutex);
  pthread_mutex_unlock(&f->mutex);
}

static void open_gate(fixture *f)
{
  pthread_mutex_lock(&f->mutex);
  f->open = true;
  pthread_cond_broadcast(&f->changed);
  pthread_mutex_unlock(&f->mutex);
}

static int begin(void **state)
{
  static fixture f;
  f = (fixture){.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
  assert_null(jobs_new(&f.jobs));
  *state = &f;
  return 0;
}

static int end(void **state)
{
  fixture *f = *state;
  jobs_free(f->jobs);
  return 0;
}

static void a_kind_has_its_threads_while_others_take_all_of_theirs(void **state)
{
  fixture *f = *state;
  enum {
    BEFORE_COMPUTES = JOBS_MAX_BLOCKING + JOBS_MAX_PROBES + JOBS_MAX_DRIVER_CALLS
  };
  gated blocks[JOBS_MAX_BLOCKING + 3], probes[JOBS_MAX_PROBES], computes[1];
  gated calls[JOBS_MAX_DRIVER_CALLS + 3];
  for (int i = 0; i < JOBS_MAX_DRIVER_CALLS + 3; i++)
    submit(f, &calls[i], JOB_DRIVER, 0);
  await(f, &f->running, JOBS_MAX_DRIVER_CALLS);
  for (int i = 0; i < JOBS_MAX_BLOCKING + 3; i++)
    submit(f, &blocks[i], JOB_BLOCKS, 0);
  await(f, &f->running, JOBS_MAX_DRIVER_CALLS + JOBS_MAX_BLOCKING);
  for (int i = 0; i < JOBS_MAX_PROBES; i++)
    submit(f, &probes[i], JOB_PROBES, 1);
  await(f, &f->running, BEFORE_COMPUTES);
  submit(f, &computes[0], JOB_COMPUTES, 2);
  await(f, &f->running, BEFORE_COMPUTES + 1);
  assert_int_equal(f->running, BEFORE_COMPUTES + 1); // the other 3 and 3 wait
  open_gate(f);
  await(f, &f->done, BEFORE_COMPUTES + 1 + 3 + 3);
}

static void what_finishes_a_request_goes_first(void **state)
{
  fixture *f = *state;
  fixture others = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
  static const int expected[] = {0, 1, 2, 3, 4};
  gated held[MAX_JOBS], first, begins[2], finishes[2];
  size_t cpus = machine_cpus();
  assert_true(cpus <= MAX_JOBS);
  others.jobs = f->jobs;
  for (size_t i = 0; i + 1 < cpus; i++) // one thread is left
    submit(&others, &held[i], JOB_COMPUTES, 0);
  await(&others, &others.running, cpus - 1);
  submit(f, &first, JOB_COMPUTES, 0);
  await(f, &f->running, 1);
  submit(f, &begins[0], JOB_COMPUTES, 3);
  submit(f, &begins[1], JOB_COMPUTES, 4);
  submit(f, &finishes[0], JOB_FINISHES, 1);
  submit(f, &finishes[1], JOB_FINISHES, 2);
  open_gate(f);
  await(f, &f->done, 5);
  assert_memory_equal(f->order, expected, sizeof(expected));
  open_gate(&others);
  await(&others, &others.done, cpus - 1);
}

static void count_part(void *counts, size_t index)
{
  atomic_uint *of = counts;
  atomic_fetch_add(&of[index], 1);
}

static void each_part_is_done_once_also_when_all_threads_are_taken(void **state)
{
  fixture *f = *state;
  atomic_uint counts[100] = {0};
  gated busy[MAX_JOBS];
  size_t cpus = machine_cpus();
  jobs_run_parts(f->jobs, 100, count_part, counts);
  for (size_t i = 0; i < cpus; i++)
    submit(f, &busy[i], JOB_COMPUTES, 0);
  await(f, &f->running, cpus);
  jobs_run_parts(f->jobs, 100, count_part, counts); // by this thread
  for (size_t i = 0; i < 100; i++)
    assert_int_equal(counts[i], 2);
  open_gate(f);
  await(f, &f->done, cpus);
}

// On one processor what is started comes to its work late: this thread has all of them started.
static void a_job_needs_no_thread_while_the_last_ones_are_starting(void **state)
{
  fixture *f = *state;
  static atomic_uint counts[MAX_JOBS];
  gated one;
  cpu_set_t before, single;
  CPU_ZERO(&single);
  CPU_SET((size_t)sched_getcpu(), &single);
  assert_int_equal(pthread_getaffinity_np(pthread_self(), sizeof(before), &before), 0);
  assert_int_equal(pthread_setaffinity_np(pthread_self(), sizeof(single), &single), 0);
  for (int i = 0; i < JOBS_MAX_BLOCKING + JOBS_MAX_PROBES + JOBS_MAX_DRIVER_CALLS + MAX_JOBS; i++)
    jobs_run_parts(f->jobs, MAX_JOBS, count_part, counts);
  submit(f, &one, JOB_BLOCKS, 0);
  assert_int_equal(pthread_setaffinity_np(pthread_self(), sizeof(before), &before), 0);
  open_gate(f);
  await(f, &f->done, 1);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_kind_has_its_threads_while_others_take_all_of_theirs, begin,
                                      end),
      cmocka_unit_test_setup_teardown(what_finishes_a_request_goes_first, begin, end),
      cmocka_unit_test_setup_teardown(each_part_is_done_once_also_when_all_threads_are_taken, begin,
                                      end),
      cmocka_unit_test_setup_teardown(a_job_needs_no_thread_while_the_last_ones_are_starting, begin,
                                      end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// See inprocess.h.
#include "inprocess.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#define MAX_CALLERS 64
#define MAX_TIMES   4000000 // of each caller
#define WARM_RUNS   20

typedef struct caller {
  const inprocess *of;
  pthread_t thread;
  void *state;
  uint64_t end_ns;
  uint32_t *times; // of each run, in nanoseconds
  size_t count;
} caller;

void inprocess_fail(const char *what)
{
  fprintf(stderr, "%s\n", what);
  exit(1);
}

static void *call(void *argument)
{
  caller *self = argument;
  uint64_t now = clock_monotonic_ns();
  while (now < self->end_ns && self->count < MAX_TIMES) {
    const uint64_t begun = now;
    self->of->run(self->state);
    now = clock_monotonic_ns();
    self->times[self->count++] = (uint32_t)(now - begun);
  }
  return NULL;
}

static int compare(const void *a, const void *b)
{
  const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

static double cpu_us(void)
{
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e6 +
         (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static uint32_t *sort_all(const caller *callers, int count, size_t *total)
{
  *total = 0;
  for (int i = 0; i < count; i++)
    *total += callers[i].count;
  uint32_t *all = calloc(*total + 1, sizeof(*all));
  if (all == NULL || *total == 0)
    inprocess_fail("nothing was measured");
  size_t at = 0;
  for (int i = 0; i < count; i++)
    for (size_t k = 0; k < callers[i].count; k++)
      all[at++] = callers[i].times[k];
  qsort(all, *total, sizeof(*all), compare);
  return all;
}

static void print(const inprocess *self, const caller *callers, int count, double seconds,
                  double cpu)
{
  size_t total = 0;
  struct rusage used;
  uint32_t *all = sort_all(callers, count, &total);
  getrusage(RUSAGE_SELF, &used);
  printf("{\"requests\": %zu, \"rps\": %.1f, \"cpu\": %.1f, \"p50\": %.1f, \"p99\": %.1f, "
         "\"open\": %.1f, \"load\": %.1f, \"rss\": %ld}\n",
         total, (double)total / seconds, cpu / (double)total, all[total / 2] / 1e3,
         all[total * 99 / 100] / 1e3, (double)(self->opened_ns - self->start_ns) / 1e6,
         (double)(self->loaded_ns - self->opened_ns) / 1e6, used.ru_maxrss / 1024);
  free(all);
}

void inprocess_measure(const inprocess *self, int callers, int seconds)
{
  static caller list[MAX_CALLERS];
  const int count = callers < MAX_CALLERS ? callers : MAX_CALLERS;
  for (int i = 0; i < count; i++) {
    list[i] = (caller){.of = self, .state = self->caller_new()};
    list[i].times = malloc(MAX_TIMES * sizeof(uint32_t));
    if (list[i].times == NULL)
      inprocess_fail("out of memory");
    for (int k = 0; k < WARM_RUNS; k++)
      self->run(list[i].state);
  }
  const double cpu = cpu_us();
  const uint64_t begun = clock_monotonic_ns();
  for (int i = 0; i < count; i++) {
    list[i].end_ns = begun + (uint64_t)seconds * 1000000000;
    if (pthread_create(&list[i].thread, NULL, call, &list[i]) != 0)
      inprocess_fail("no thread");
  }
  for (int i = 0; i < count; i++)
    pthread_join(list[i].thread, NULL);
  print(self, list, count, (double)(clock_monotonic_ns() - begun) / 1e9, cpu_us() - cpu);
  for (int i = 0; i < count; i++)
    free(list[i].times);
}

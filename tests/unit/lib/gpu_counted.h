// SPDX-License-Identifier: Apache-2.0
// What the played driver (tests/fakes/gpu) has counted beside the file that NEREID_FAKE_GPU names.
#ifndef NEREID_TESTS_GPU_COUNTED_H
#define NEREID_TESTS_GPU_COUNTED_H

#include "gpu_testing.h"

#include "base/clock.h"

#include <unistd.h>

#define PLAYED_HEADER 16384 // of the counters' file (tests/fakes/gpu/counters.c)

static char played_counters[64];

static inline void count_calls(const char *path)
{
  snprintf(played_counters, sizeof(played_counters), "%s.counters", path);
}

// What this process has done under names that begin so, calls and counters.
static inline uint64_t counted(const char *name)
{
  char line[80];
  uint64_t words[512], sum = 0;
  size_t count;
  FILE *names = fopen(played_counters, "r"), *slots = fopen(played_counters, "r");
  assert_true(names != NULL && slots != NULL);
  assert_non_null(fgets(line, sizeof(line), names));
  assert_int_equal(fscanf(names, "%zu\n", &count), 1);
  assert_true(count <= sizeof(words) / sizeof(*words));
  assert_int_equal(fseek(slots, PLAYED_HEADER, SEEK_SET), 0);
  do
    assert_int_equal(fread(words, sizeof(*words), count, slots), count);
  while (words[0] != (uint64_t)getpid());
  for (size_t i = 0; i < count && fgets(line, sizeof(line), names) != NULL; i++)
    if (strncmp(line, name, strlen(name)) == 0)
      sum += words[i];
  fclose(slots);
  fclose(names);
  return sum;
}

// One more than `so_far`.
static inline void await_call(const char *name, uint64_t so_far)
{
  while (counted(name) <= so_far)
    clock_sleep_until(clock_monotonic_ns() + 1000000);
}

#endif

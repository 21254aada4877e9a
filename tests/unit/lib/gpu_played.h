// SPDX-License-Identifier: Apache-2.0
// For tests that need the played driver (tests/fakes/gpu): its faults, written into the file that
// NEREID_FAKE_GPU names, and what it has counted.
#ifndef NEREID_TESTS_GPU_PLAYED_H
#define NEREID_TESTS_GPU_PLAYED_H

#include "gpu_counted.h"

#include <stdlib.h>
#include <unistd.h>

static char played_path[] = "/tmp/gpu_played_XXXXXX";
static int played_devices;

// The file changes at once, as a whole.
static inline void play(const char *faults)
{
  char next[sizeof(played_path) + 4];
  snprintf(next, sizeof(next), "%s.new", played_path);
  FILE *file = fopen(next, "w");
  assert_non_null(file);
  fprintf(file, "{\"devices\": [{}");
  for (int i = 1; i < played_devices; i++)
    fprintf(file, ",{}");
  fprintf(file, "], \"faults\": [%s]}", faults);
  assert_int_equal(fclose(file), 0);
  assert_int_equal(rename(next, played_path), 0);
}

// Before anything looks for devices.
static inline void play_devices(int count)
{
  int fd = mkstemp(played_path);
  assert_true(fd >= 0);
  close(fd);
  count_calls(played_path);
  played_devices = count;
  play("");
  setenv("NEREID_FAKE_GPU", played_path, 1);
}

static inline void play_no_more(void)
{
  unlink(played_counters);
  unlink(played_path);
}

#endif

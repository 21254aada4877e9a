// Counts processors. Called when threads are about to be started.
#include "base/cpus.h"

#include <inttypes.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static unsigned affinity_count(void)
{
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0)
    return 1;
  int count = CPU_COUNT(&set);
  return count < 1 ? 1 : (unsigned)count;
}

// The group's path below /sys/fs/cgroup, "" when unknown. Only the own group is looked at: inside a
// container that is the one with the container's limit.
static void own_group(char *path, size_t capacity)
{
  char line[512];
  path[0] = '\0';
  FILE *file = fopen("/proc/self/cgroup", "re");
  if (file == NULL)
    return;
  while (fgets(line, sizeof(line), file) != NULL)
    if (strncmp(line, "0::", 3) == 0) {
      line[strcspn(line, "\n")] = '\0';
      snprintf(path, capacity, "%s", line + 3);
    }
  fclose(file);
}

// Processors' worth of time that the group may use; `count` when it may use all.
static unsigned quota_count(unsigned count)
{
  char group[512];
  char path[560];
  uint64_t quota;
  uint64_t period;
  own_group(group, sizeof(group));
  snprintf(path, sizeof(path), "/sys/fs/cgroup%s/cpu.max", group);
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return count;
  int fields = fscanf(file, "%" SCNu64 " %" SCNu64, &quota, &period); // "max" is no number
  fclose(file);
  if (fields != 2 || period == 0)
    return count;
  uint64_t granted = quota / period + (quota % period != 0);
  return granted < 1 ? 1 : granted < count ? (unsigned)granted : count;
}

unsigned cpus_available(void)
{
  return quota_count(affinity_count());
}

// Asks the kernel, and the files of control groups.
#include "base/machine.h"

#include "base/checked.h"

#include <inttypes.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

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

// Opens a file of the own group; NULL when there is none.
static FILE *open_group_file(const char *name)
{
  char group[512];
  char path[600];
  own_group(group, sizeof(group));
  snprintf(path, sizeof(path), "/sys/fs/cgroup%s/%s", group, name);
  return fopen(path, "re");
}

// Processors' worth of time that the group may use; `count` when it may use all.
static unsigned quota_count(unsigned count)
{
  uint64_t quota;
  uint64_t period;
  FILE *file = open_group_file("cpu.max");
  if (file == NULL)
    return count;
  int fields = fscanf(file, "%" SCNu64 " %" SCNu64, &quota, &period); // "max" is no number
  fclose(file);
  if (fields != 2 || period == 0)
    return count;
  uint64_t granted = quota / period + (quota % period != 0);
  return granted < 1 ? 1 : granted < count ? (unsigned)granted : count;
}

unsigned machine_cpus(void)
{
  return quota_count(affinity_count());
}

size_t machine_memory(void)
{
  long pages = sysconf(_SC_PHYS_PAGES);
  long page_size = sysconf(_SC_PAGESIZE);
  size_t bytes;
  if (pages <= 0 || page_size <= 0 ||
      !checked_multiply_size((size_t)pages, (size_t)page_size, &bytes))
    bytes = SIZE_MAX;
  size_t granted;
  FILE *file = open_group_file("memory.max");
  if (file == NULL)
    return bytes;
  if (fscanf(file, "%zu", &granted) == 1 && granted < bytes) // "max" is no number
    bytes = granted;
  fclose(file);
  return bytes;
}

size_t machine_descriptors(void)
{
  struct rlimit limit;
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur
                                                                                  : SIZE_MAX;
}

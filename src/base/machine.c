// Asks the kernel, and the files of control groups.
#include "base/machine.h"

#include "base/checked.h"
#include "base/text.h"

#include <sched.h>
#include <stdbool.h>
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

// The own group's path: in the unified hierarchy (v2) when `controller` is "", else in that one's;
// "" when there is none. Only the own group is looked at: in a container it has its limit.
static void own_group(const char *controller, char *path, size_t capacity)
{
  char line[512];
  path[0] = '\0';
  FILE *file = fopen("/proc/self/cgroup", "re");
  if (file == NULL)
    return;
  while (fgets(line, sizeof(line), file) != NULL) { // "<id>:<controllers>:<path>"
    char *controllers = strchr(line, ':');
    char *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
    if (group == NULL)
      continue;
    *group++ = '\0';
    group[strcspn(group, "\n")] = '\0';
    if (strcmp(controllers + 1, controller) == 0)
      snprintf(path, capacity, "%s", group);
  }
  fclose(file);
}

// Reads up to two whole numbers, apart by a space; returns how many there are ("max" and -1 are
// none).
static int read_numbers(const char *line, uint64_t numbers[2])
{
  int count = 0;
  while (count < 2) {
    size_t size = strcspn(line, " \n");
    if (!text_to_uint64((slice){line, size}, &numbers[count]))
      break;
    count++;
    line += size + (line[size] != '\0');
  }
  return count;
}

// The same of the first line of a file of the own group.
static int read_group_file(const char *controller, const char *name, uint64_t numbers[2])
{
  char group[512];
  char path[640];
  own_group(controller, group, sizeof(group));
  snprintf(path, sizeof(path), "/sys/fs/cgroup/%s%s/%s", controller, group, name);
  FILE *file = fopen(path, "re");
  if (file == NULL) { // a container sees its own group as the root, under the path of its host
    snprintf(path, sizeof(path), "/sys/fs/cgroup/%s/%s", controller, name);
    file = fopen(path, "re");
  }
  if (file == NULL)
    return 0;
  char line[128];
  int count = fgets(line, sizeof(line), file) == NULL ? 0 : read_numbers(line, numbers);
  fclose(file);
  return count;
}

// Processors' worth of time that the group may use; `count` when it may use all.
static unsigned quota_count(unsigned count)
{
  uint64_t quota[2] = {0}; // microseconds, and the microseconds that they are granted for
  uint64_t period[2];
  if (read_group_file("", "cpu.max", quota) != 2) { // v1 has two files
    bool limited = read_group_file("cpu", "cpu.cfs_quota_us", quota) == 1;
    quota[1] = limited && read_group_file("cpu", "cpu.cfs_period_us", period) == 1 ? period[0] : 0;
  }
  if (quota[1] == 0)
    return count;
  uint64_t granted = quota[0] / quota[1] + (quota[0] % quota[1] != 0);
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
  uint64_t granted[2];
  int found = read_group_file("", "memory.max", granted);
  if (found == 0)
    found = read_group_file("memory", "memory.limit_in_bytes", granted);
  return found > 0 && granted[0] < bytes ? (size_t)granted[0] : bytes;
}

size_t machine_descriptors(void)
{
  struct rlimit limit;
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur
                                                                                  : SIZE_MAX;
}

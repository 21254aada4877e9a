// SPDX-License-Identifier: Apache-2.0
// Asks the kernel, and the files of control groups.
#include "base/machine.h"

#include "base/checked.h"
#include "base/text.h"

#include <assert.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define MAX_PATH_BYTES 640
#define NO_LIMIT       UINT64_MAX

static unsigned affinity_count(void)
{
  cpu_set_t set;
  CPU_ZERO(&set); // fails on machines with more processors than it holds
  long count = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set)
                                                            : sysconf(_SC_NPROCESSORS_ONLN);
  return count < 1 ? 1 : (unsigned)count;
}

// Whether `list`, names with commas between them, has `name`; "" is in the empty list.
static bool has_name(const char *list, const char *name)
{
  size_t size = strcspn(list, ",");
  while (list[size] != '\0' && (size != strlen(name) || strncmp(list, name, size) != 0)) {
    list += size + 1;
    size = strcspn(list, ",");
  }
  return size == strlen(name) && strncmp(list, name, size) == 0;
}

// The path of the process's group: in the unified hierarchy (v2) when `controller` is "", else in
// that controller's; "" when there is none.
static void own_group(const machine_groups *groups, const char *controller, char *path,
                      size_t capacity)
{
  char line[512];
  path[0] = '\0';
  FILE *file = fopen(groups->membership, "re");
  if (file == NULL)
    return;
  while (fgets(line, sizeof(line), file) != NULL) { // "<id>:<controllers>:<path>"
    char *controllers = strchr(line, ':');
    char *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
    if (group == NULL)
      continue;
    *group++ = '\0';
    group[strcspn(group, "\n")] = '\0';
    if (has_name(controllers + 1, controller))
      snprintf(path, capacity, "%s", group);
  }
  fclose(file);
}

// Reads up to two whole numbers, separated by a space, from a file's first line. Returns how many
// it read; "max" and -1 are none.
static int read_numbers(const char *dir, const char *name, uint64_t numbers[2])
{
  char path[MAX_PATH_BYTES + 32];
  char text[128];
  snprintf(path, sizeof(path), "%s/%s", dir, name);
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return 0;
  const char *line = fgets(text, sizeof(text), file);
  fclose(file);
  int count = 0;
  while (line != NULL && count < 2) {
    size_t size = strcspn(line, " \n");
    if (!text_to_uint64((slice){line, size}, &numbers[count]))
      break;
    count++;
    line += size + (line[size] != '\0');
  }
  return count;
}

// The processors that a group is granted by time, rounded up.
static uint64_t granted_cpus(const char *dir)
{
  uint64_t quota[2] = {0}; // microseconds, and the period in microseconds
  uint64_t period[2];
  if (read_numbers(dir, "cpu.max", quota) != 2) { // v1 has two files
    bool limited = read_numbers(dir, "cpu.cfs_quota_us", quota) == 1;
    quota[1] = limited && read_numbers(dir, "cpu.cfs_period_us", period) == 1 ? period[0] : 0;
  }
  return quota[1] == 0 ? NO_LIMIT : quota[0] / quota[1] + (quota[0] % quota[1] != 0);
}

static uint64_t granted_memory(const char *dir)
{
  uint64_t bytes[2];
  if (read_numbers(dir, "memory.max", bytes) > 0 ||
      read_numbers(dir, "memory.limit_in_bytes", bytes) > 0)
    return bytes[0];
  return NO_LIMIT;
}

// The least that the process's group and the groups above it grant. In a container the group's path
// often does not exist below the container's own mount: the mount itself is the group then.
static uint64_t granted_in(const machine_groups *groups, const char *controller,
                           uint64_t (*granted)(const char *dir))
{
  char group[512];
  char dir[MAX_PATH_BYTES];
  own_group(groups, controller, group, sizeof(group));
  size_t root = (size_t)snprintf(dir, sizeof(dir), "%s/%s", groups->mount, controller);
  assert(root < sizeof(dir));
  snprintf(dir + root, sizeof(dir) - root, "%s", group);
  uint64_t least = NO_LIMIT;
  for (char *end = dir + strlen(dir); end != NULL && end >= dir + root; end = strrchr(dir, '/')) {
    *end = '\0';
    uint64_t here = granted(dir);
    least = here < least ? here : least;
  }
  return least;
}

// The least of the unified hierarchy and of the controller's.
static uint64_t granted_to(const machine_groups *groups, const char *controller,
                           uint64_t (*granted)(const char *dir))
{
  uint64_t unified = granted_in(groups, "", granted);
  uint64_t own = granted_in(groups, controller, granted);
  return unified < own ? unified : own;
}

static const machine_groups system_groups = {"/proc/self/cgroup", "/sys/fs/cgroup"};

unsigned machine_cpus_in(const machine_groups *groups, unsigned affinity)
{
  uint64_t granted = granted_to(groups, "cpu", granted_cpus);
  return granted < 1 ? 1 : granted < affinity ? (unsigned)granted : affinity;
}

unsigned machine_cpus(void)
{
  return machine_cpus_in(&system_groups, affinity_count());
}

size_t machine_memory(void)
{
  long pages = sysconf(_SC_PHYS_PAGES);
  long page_size = sysconf(_SC_PAGESIZE);
  size_t bytes;
  if (pages <= 0 || page_size <= 0 ||
      !checked_multiply_size((size_t)pages, (size_t)page_size, &bytes))
    bytes = SIZE_MAX;
  uint64_t granted = granted_to(&system_groups, "memory", granted_memory);
  return granted < bytes ? (size_t)granted : bytes;
}

size_t machine_descriptors(void)
{
  struct rlimit limit;
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur
                                                                                  : SIZE_MAX;
}

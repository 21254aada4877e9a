// Affinity mask and control-group quota; see backend_cpu.h.
#include "backend_cpu.h"

#include "backend_config.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool read_small_file(const char *path, char *text, size_t size)
{
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return false;
  size_t length = fread(text, 1, size - 1, file);
  fclose(file);
  text[length] = '\0';
  return length > 0;
}

// With `period` NULL it stands behind the quota. No number, or none above 0, is no limit.
static int quota_to_cpus(const char *quota, const char *period)
{
  int64_t quota_us, period_us;
  const char *rest;
  if (!backend_integer(quota, &quota_us, &rest) ||
      !backend_integer(period != NULL ? period : rest, &period_us, &rest) || quota_us <= 0 ||
      period_us <= 0)
    return INT_MAX;
  int64_t cpus = (quota_us - 1) / period_us + 1; // rounded up
  return cpus > INT_MAX ? INT_MAX : (int)cpus;
}

// cpu.max holds "QUOTA PERIOD" or "max PERIOD".
static int quota_v2(const char *dir)
{
  char path[PATH_MAX], text[128];
  int length = snprintf(path, sizeof path, "%s/cpu.max", dir);
  if (length < 0 || (size_t)length >= sizeof path || !read_small_file(path, text, sizeof text))
    return INT_MAX;
  return quota_to_cpus(text, NULL);
}

static int quota_v1(const char *dir)
{
  char path[PATH_MAX], quota[64], period[64];
  int length = snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", dir);
  if (length < 0 || (size_t)length >= sizeof path || !read_small_file(path, quota, sizeof quota))
    return INT_MAX;
  length = snprintf(path, sizeof path, "%s/cpu.cfs_period_us", dir);
  if (length < 0 || (size_t)length >= sizeof path || !read_small_file(path, period, sizeof period))
    return INT_MAX;
  return quota_to_cpus(quota, period);
}

// The tightest quota from `directory` up to `mount`. A process in a container often sees a
// membership path that does not exist below its own mount; then only the mount itself answers.
static int tightest(const char *mount, const char *membership, int (*quota)(const char *))
{
  char dir[PATH_MAX];
  int length = snprintf(dir, sizeof dir, "%s%s", mount, membership);
  if (length < 0 || (size_t)length >= sizeof dir)
    return quota(mount);
  int cpus = INT_MAX;
  size_t root = strlen(mount);
  for (;;) {
    int here = quota(dir);
    cpus = here < cpus ? here : cpus;
    char *slash = strrchr(dir, '/');
    if (slash == NULL || (size_t)(slash - dir) < root)
      return cpus;
    *slash = '\0';
  }
}

// Lines are "ID:CONTROLLERS:PATH"; v2 has ID 0 and no controllers.
int backend_cpu_count_from(int affinity, const char *membership, const char *mount)
{
  int cpus = affinity < 1 ? 1 : affinity;
  char v1_mount[PATH_MAX];
  snprintf(v1_mount, sizeof v1_mount, "%s/cpu", mount);
  for (const char *line = membership; *line != '\0';) {
    const char *end = strchrnul(line, '\n');
    char text[PATH_MAX];
    snprintf(text, sizeof text, "%.*s", (int)(end - line), line);
    line = *end == '\0' ? end : end + 1;
    char *controllers = strchr(text, ':');
    char *path = controllers == NULL ? NULL : strchr(controllers + 1, ':');
    if (path == NULL)
      continue;
    *path++ = '\0';
    controllers++;
    int here = INT_MAX;
    if (*controllers == '\0')
      here = tightest(mount, path, quota_v2);
    else if (strcmp(controllers, "cpu") == 0 || strncmp(controllers, "cpu,", 4) == 0 ||
             strstr(controllers, ",cpu,") != NULL)
      here = tightest(v1_mount, path, quota_v1);
    cpus = here < cpus ? here : cpus;
  }
  return cpus;
}

int backend_cpu_count(void)
{
  cpu_set_t set;
  CPU_ZERO(&set);
  // Fails on machines with more CPUs than cpu_set_t holds.
  int affinity = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                             : (int)sysconf(_SC_NPROCESSORS_ONLN);
  char membership[16384];
  if (!read_small_file("/proc/self/cgroup", membership, sizeof membership))
    membership[0] = '\0';
  return backend_cpu_count_from(affinity, membership, "/sys/fs/cgroup");
}

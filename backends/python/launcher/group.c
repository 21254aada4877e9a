// SPDX-License-Identifier: Apache-2.0
// Limits the number of workers' processes when the server is root, whose processes RLIMIT_NPROC
// does not count. All workers of a server share one control group, if the host allows making one.
#include "launcher.h"
#include "util.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char PREFIX[] = "nereid-workers-";

#define TRIES 8

// The directory of this process's control group, in the old pids controller or the unified
// hierarchy. The caller frees it.
static char *own_group(void)
{
  char line[PATH_MAX], *dir = NULL;
  FILE *file = fopen("/proc/self/cgroup", "re");
  while (file != NULL && dir == NULL && fgets(line, sizeof(line), file) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    const char *path = strstr(line, ":pids:"), *mount = "/sys/fs/cgroup/pids";
    size_t skipped = strlen(":pids:");
    if (path == NULL && strncmp(line, "0::", 3) == 0) {
      path = line;
      skipped = 3;
      mount = "/sys/fs/cgroup";
    }
    if (path != NULL && asprintf(&dir, "%s%s", mount, path + skipped) < 0)
      dir = NULL;
    if (dir != NULL && access(dir, W_OK) != 0) {
      free(dir);
      dir = NULL;
    }
  }
  if (file != NULL)
    fclose(file);
  return dir;
}

static bool write_in(const char *dir, const char *name, const char *text)
{
  char path[PATH_MAX];
  return snprintf(path, sizeof(path), "%s/%s", dir, name) < (int)sizeof(path) &&
         launcher_write(path, text);
}

// Removes groups of servers whose guards were killed. A group with processes stays.
static void remove_old(const char *parent)
{
  DIR *dir = opendir(parent);
  struct dirent *entry;
  while (dir != NULL && (entry = readdir(dir)) != NULL)
    if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) == 0)
      unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR);
  if (dir != NULL)
    closedir(dir);
}

// May be tried again: another worker's launcher may remove the group while it is empty.
static bool enter(const char *group, const char *limit, bool *made)
{
  *made = mkdir(group, 0700) == 0 || *made;
  return write_in(group, "pids.max", limit) && write_in(group, "cgroup.procs", "0");
}

static bool name_group(char name[PATH_MAX], const char *parent, const launcher_options *options)
{
  return snprintf(name, PATH_MAX, "%s/%s%d", parent, PREFIX, (int)options->parent) < PATH_MAX;
}

static bool enter_below(const char *parent, const launcher_options *options)
{
  char group[PATH_MAX], limit[32];
  bool made = false, entered = false;
  if (!name_group(group, parent, options))
    return false;
  snprintf(limit, sizeof(limit), "%" PRIu64, options->processes);
  for (int i = 0; i < TRIES && !entered; i++)
    entered = enter(group, limit, &made);
  if (made && entered)
    remove_old(parent);
  else if (made)
    rmdir(group);
  return entered;
}

void launcher_enter_group(const launcher_options *options)
{
  if (getuid() != 0 || options->processes == LAUNCHER_AS_SERVER)
    return;
  char *parent = own_group();
  bool entered = parent != NULL && enter_below(parent, options);
  free(parent);
  if (!entered && options->strict)
    launcher_fail(0, "sandbox strict needs a control group that bounds processes, since the server "
                     "is root; run it as another user, or let it make groups");
}

// The guard is in the parent group: only the worker entered this one.
void launcher_remove_group(const launcher_options *options)
{
  char group[PATH_MAX];
  if (getuid() != 0)
    return;
  char *parent = own_group();
  if (parent != NULL && name_group(group, parent, options))
    rmdir(group);
  free(parent);
}

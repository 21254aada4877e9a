// SPDX-License-Identifier: Apache-2.0
// At level strict a worker has its own users, mounts, network and System V IPC, which end with it,
// as do the files that it has written. At level standard, root's workers have their own mounts.
#include "launcher.h"
#include "util.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

// Maps the worker's user to itself: a process without privileges may not map more.
static void map_user(const char *file, unsigned id)
{
  char text[64];
  snprintf(text, sizeof(text), "%u %u 1", id, id);
  if (!launcher_write(file, text))
    launcher_fail(errno, "sandbox strict cannot write %s", file);
}

// The directory is in memory: it counts as the worker's and has a limit.
static void mount_scratch(uint64_t bytes)
{
  char options[64];
  snprintf(options, sizeof(options), "mode=0700,nr_inodes=65536,size=%" PRIu64, bytes);
  if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
    launcher_fail(errno, "sandbox strict cannot detach its mounts");
  if (mount("tmpfs", LAUNCHER_SCRATCH, "tmpfs", MS_NOSUID | MS_NODEV, options) != 0)
    launcher_fail(errno, "sandbox strict cannot mount a temporary directory at %s",
                  LAUNCHER_SCRATCH);
}

void launcher_enter_namespaces(const launcher_options *options)
{
  unsigned user = geteuid(), group = getegid();
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC) != 0)
    launcher_fail(errno, "sandbox strict needs namespaces of users, mounts, network and IPC, which "
                         "this host does not permit");
  if (!launcher_write("/proc/self/setgroups", "deny"))
    launcher_fail(errno, "sandbox strict cannot write /proc/self/setgroups");
  map_user("/proc/self/uid_map", user);
  map_user("/proc/self/gid_map", group);
  mount_scratch(options->scratch_bytes);
  // CUDA's driver caches compiled code below HOME unless this is set
  if (setenv("TMPDIR", LAUNCHER_SCRATCH, 1) != 0 || setenv("HOME", LAUNCHER_SCRATCH, 1) != 0 ||
      setenv("CUDA_CACHE_PATH", LAUNCHER_SCRATCH "/cuda-cache", 1) != 0)
    launcher_fail(errno, "sandbox strict cannot set TMPDIR");
}

// Files that root can read without any capability, and no model needs.
static const char *const PASSWORDS[] = {"/etc/shadow", "/etc/shadow-", "/etc/gshadow",
                                        "/etc/gshadow-", "/etc/security/opasswd"};

// A device file on a mount without devices can be neither read nor written.
static void cover(const char *path)
{
  const unsigned long how = MS_BIND | MS_REMOUNT | MS_NODEV | MS_NOSUID | MS_NOEXEC | MS_RDONLY;
  if (mount("/dev/null", path, NULL, MS_BIND, NULL) == 0 && mount(NULL, path, NULL, how, NULL) != 0)
    launcher_fail(errno, "cannot hide '%s'", path);
}

// Works where the host permits mounts, which a container often does not. Later mounts are seen too.
void launcher_hide_passwords(const launcher_options *options)
{
  if (options->strict || getuid() != 0 || unshare(CLONE_NEWNS) != 0 ||
      mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) != 0)
    return;
  for (size_t i = 0; i < sizeof(PASSWORDS) / sizeof(PASSWORDS[0]); i++)
    cover(PASSWORDS[i]);
}

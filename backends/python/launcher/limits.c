// SPDX-License-Identifier: Apache-2.0
// Limits a worker: resource limits, capabilities, the number of processes.
#include "launcher.h"
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OUT_OF_MEMORY_ADD 500
#define MAX_OUT_OF_MEMORY 1000

// Never exceeds the server's limit; LAUNCHER_AS_SERVER keeps that.
static void limit(__rlimit_resource_t resource, uint64_t value, const char *what)
{
  struct rlimit now;
  if (value == LAUNCHER_AS_SERVER)
    return;
  if (getrlimit(resource, &now) != 0)
    launcher_fail(errno, "cannot read the limit of %s", what);
  if (now.rlim_max > value)
    now.rlim_max = value;
  now.rlim_cur = now.rlim_max;
  if (setrlimit(resource, &now) != 0)
    launcher_fail(errno, "cannot limit %s", what);
}

// The kernel should end workers before the server. Raising the number needs no privilege. Where
// /proc is hidden the number stays unchanged, and models run all the same.
static void order_for_out_of_memory(const launcher_options *options)
{
  char text[16] = "";
  uint64_t amount;
  int file = open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC);
  if (file < 0 && !options->strict)
    return;
  ssize_t length = file < 0 ? -1 : read(file, text, sizeof(text) - 1);
  if (file >= 0)
    close(file);
  bool negative = text[0] == '-';
  if (length <= 0 || !launcher_number(text + negative, &amount) || amount > MAX_OUT_OF_MEMORY)
    launcher_fail(errno, "cannot read /proc/self/oom_score_adj");
  int value = (negative ? -(int)amount : (int)amount) + OUT_OF_MEMORY_ADD;
  snprintf(text, sizeof(text), "%d", value > MAX_OUT_OF_MEMORY ? MAX_OUT_OF_MEMORY : value);
  if (!launcher_write("/proc/self/oom_score_adj", text))
    launcher_fail(errno, "cannot write /proc/self/oom_score_adj");
}

void launcher_set_limits(const launcher_options *options)
{
  limit(RLIMIT_CORE, 0, "core files");
  limit(RLIMIT_NOFILE, options->descriptors, "descriptors");
  limit(RLIMIT_NPROC, options->processes, "processes");
  limit(RLIMIT_DATA, options->memory_bytes, "memory");
  limit(RLIMIT_FSIZE, options->file_bytes, "files");
  order_for_out_of_memory(options);
  if (options->strict)
    umask(077);
}

// Root's rights for files. Servers run as root in most containers, with models and caches of other
// owners. All of these are below 32.
static uint32_t kept_capabilities(const launcher_options *options)
{
  const uint32_t files =
      1U << CAP_CHOWN | 1U << CAP_DAC_OVERRIDE | 1U << CAP_FOWNER | 1U << CAP_FSETID;
  return options->strict || getuid() != 0 ? 0 : files;
}

// A process that may not change the bounding set cannot regain capabilities: no_new_privs is set
// already.
void launcher_drop_capabilities(const launcher_options *options)
{
  const uint32_t kept = kept_capabilities(options);
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {{0}};
  for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++)
    if ((capability >= 32 || (kept >> capability & 1) == 0) &&
        prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 && errno != EPERM)
      launcher_fail(errno, "cannot drop capability %d", capability);
  if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0)
    launcher_fail(errno, "cannot drop ambient capabilities");
  if (syscall(SYS_capget, &header, sets) != 0)
    launcher_fail(errno, "cannot read capabilities");
  const uint32_t left = sets[0].permitted & kept;
  memset(sets, 0, sizeof(sets));
  sets[0].permitted = sets[0].effective = left;
  if (syscall(SYS_capset, &header, sets) != 0)
    launcher_fail(errno, "cannot drop capabilities");
}

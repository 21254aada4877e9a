// What a worker may use: resource limits, capabilities, the number of its processes.
#include "launcher.h"

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

enum {
  DESCRIPTORS = 1024,
  OUT_OF_MEMORY_ADD = 500,
  OUT_OF_MEMORY_MOST = 1000
};

// Never above what the server has.
static void limit(__rlimit_resource_t resource, uint64_t value, const char *what)
{
  struct rlimit now;
  if (getrlimit(resource, &now) != 0)
    launcher_fail(errno, "cannot read the limit of %s", what);
  if (now.rlim_max > value)
    now.rlim_max = value;
  now.rlim_cur = now.rlim_max;
  if (setrlimit(resource, &now) != 0)
    launcher_fail(errno, "cannot limit %s", what);
}

// The kernel then ends workers before the server. A number that is raised needs no privilege.
static void order_for_out_of_memory(void)
{
  char text[16] = "";
  uint64_t amount;
  int file = open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC);
  ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
  if (file >= 0)
    close(file);
  bool negative = text[0] == '-';
  if (length <= 0 || !launcher_number(text + negative, &amount) || amount > OUT_OF_MEMORY_MOST)
    launcher_fail(errno, "cannot read oom_score_adj");
  int value = (negative ? -(int)amount : (int)amount) + OUT_OF_MEMORY_ADD;
  snprintf(text, sizeof text, "%d", value > OUT_OF_MEMORY_MOST ? OUT_OF_MEMORY_MOST : value);
  if (!launcher_write("/proc/self/oom_score_adj", text))
    launcher_fail(errno, "cannot set oom_score_adj");
}

void launcher_set_limits(const launcher_options *options)
{
  limit(RLIMIT_CORE, 0, "core files");
  limit(RLIMIT_NOFILE, DESCRIPTORS, "descriptors");
  limit(RLIMIT_NPROC, options->processes, "processes");
  limit(RLIMIT_DATA, options->memory_bytes, "memory");
  limit(RLIMIT_FSIZE, options->file_bytes, "files");
  order_for_out_of_memory();
  umask(077);
}

// Whoever may not empty the bounding set has no capability that could be had again: no_new_privs
// is set already.
void launcher_drop_capabilities(void)
{
  for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++)
    if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 && errno != EPERM)
      launcher_fail(errno, "cannot drop capability %d", capability);
  if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0)
    launcher_fail(errno, "cannot drop ambient capabilities");
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
  if (syscall(SYS_capset, &header, none) != 0)
    launcher_fail(errno, "cannot drop capabilities");
}

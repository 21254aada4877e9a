// SPDX-License-Identifier: Apache-2.0
// Restricts a worker's system calls: all are allowed except those listed below.
#include "launcher.h"
#include "util.h"

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

// Access to other processes' memory and descriptors, the kernel, file systems, keys, time.
static const char *const REFUSED[] = {"ptrace",
                                      "process_vm_readv",
                                      "process_vm_writev",
                                      "process_madvise",
                                      "pidfd_getfd",
                                      "kcmp",
                                      "mount",
                                      "umount2",
                                      "umount",
                                      "pivot_root",
                                      "chroot",
                                      "move_mount",
                                      "open_tree",
                                      "open_tree_attr",
                                      "fsopen",
                                      "fsconfig",
                                      "fsmount",
                                      "fspick",
                                      "mount_setattr",
                                      "quotactl",
                                      "quotactl_fd",
                                      "swapon",
                                      "swapoff",
                                      "acct",
                                      "setns",
                                      "bpf",
                                      "perf_event_open",
                                      "userfaultfd",
                                      "kexec_load",
                                      "kexec_file_load",
                                      "init_module",
                                      "finit_module",
                                      "delete_module",
                                      "keyctl",
                                      "add_key",
                                      "request_key",
                                      "open_by_handle_at",
                                      "name_to_handle_at",
                                      "io_uring_setup",
                                      "io_uring_enter",
                                      "io_uring_register",
                                      "reboot",
                                      "settimeofday",
                                      "clock_settime",
                                      "stime",
                                      "adjtimex",
                                      "clock_adjtime",
                                      "sethostname",
                                      "setdomainname",
                                      "iopl",
                                      "ioperm",
                                      "syslog",
                                      "vhangup",
                                      "lookup_dcookie",
                                      "fanotify_init",
                                      "nfsservctl",
                                      "uselib",
                                      "vm86",
                                      "modify_ldt"};

// A worker may start processes, but not new namespaces, in which they would have privileges.
static const int NAMESPACES = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID |
                              CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;

// Calls that act on a process, and the argument that names it. The arguments may not name the
// server or the guard.
static const struct {
  const char *call;
  unsigned argument;
} ON_PROCESS[] = {{"kill", 0},
                  {"tkill", 0},
                  {"tgkill", 0},
                  {"rt_sigqueueinfo", 0},
                  {"rt_tgsigqueueinfo", 0},
                  {"pidfd_open", 0},
                  {"prlimit64", 0},
                  {"sched_setaffinity", 0},
                  {"sched_setscheduler", 0},
                  {"sched_setparam", 0},
                  {"sched_setattr", 0},
                  {"setpriority", 1},
                  {"ioprio_set", 1},
                  {"migrate_pages", 0},
                  {"move_pages", 0}};

// Level strict: no communication except by existing descriptors and pairs of sockets.
static const char *const REFUSED_STRICT[] = {"socket", "shmget", "semget", "msgget", "mq_open"};

static void must(int result, const char *call)
{
  if (result < 0)
    launcher_fail(-result, "cannot filter the system call %s", call);
}

// Some kernels and machines lack some of the names.
static void refuse(scmp_filter_ctx filter, int number, const char *call)
{
  int known = seccomp_syscall_resolve_name(call);
  if (known != __NR_SCMP_ERROR)
    must(seccomp_rule_add(filter, SCMP_ACT_ERRNO((unsigned)number), known, 0), call);
}

static void refuse_target(scmp_filter_ctx filter, const char *call, unsigned argument, pid_t target)
{
  int known = seccomp_syscall_resolve_name(call);
  if (known != __NR_SCMP_ERROR)
    must(seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), known, 1,
                          SCMP_CMP(argument, SCMP_CMP_MASKED_EQ, UINT32_MAX, (uint32_t)target)),
         call);
}

static void refuse_process(scmp_filter_ctx filter, pid_t process)
{
  for (size_t i = 0; i < sizeof(ON_PROCESS) / sizeof(ON_PROCESS[0]); i++)
    refuse_target(filter, ON_PROCESS[i].call, ON_PROCESS[i].argument, process);
  refuse_target(filter, "kill", 0, -getpgid(process));
}

static void refuse_namespaces(scmp_filter_ctx filter)
{
  static const char *const calls[] = {"clone", "unshare"};
  for (size_t i = 0; i < 2; i++)
    for (unsigned bit = 0; bit < 32; bit++) {
      uint32_t flag = 1U << bit;
      if (((uint32_t)NAMESPACES & flag) != 0)
        must(seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), seccomp_syscall_resolve_name(calls[i]),
                              1, SCMP_CMP(0, SCMP_CMP_MASKED_EQ, flag, flag)),
             calls[i]);
    }
  refuse(filter, ENOSYS, "clone3"); // its flags cannot be seen; the C library then takes clone
}

void launcher_filter_calls(const launcher_options *options)
{
  scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
  if (filter == NULL)
    launcher_fail(0, "cannot make a filter of system calls");
  must(seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS)), "(foreign)");
  for (size_t i = 0; i < sizeof(REFUSED) / sizeof(REFUSED[0]); i++)
    refuse(filter, EPERM, REFUSED[i]);
  for (size_t i = 0; options->strict && i < sizeof(REFUSED_STRICT) / sizeof(REFUSED_STRICT[0]); i++)
    refuse(filter, EACCES, REFUSED_STRICT[i]);
  refuse_namespaces(filter);
  refuse_target(filter, "kill", 0, -1); // everybody
  refuse_target(filter, "ioctl", 1, TIOCSTI);
  refuse_process(filter, options->guard);
  if (options->parent != 0)
    refuse_process(filter, options->parent);
  must(seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2), "(order)");
  int result = seccomp_load(filter);
  seccomp_release(filter);
  if (result < 0)
    launcher_fail(-result, "cannot filter system calls (seccomp)");
}

// SPDX-License-Identifier: Apache-2.0
// Runs a command on a kernel that lacks system calls, or in a sandbox that refuses them:
//   without ENOSYS openat2,pidfd_open -- command [argument...]
// Its children lack them too. A call of the list that this machine's libseccomp does not know is an
// error.
#include <errno.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Noreturn void fail(const char *what, const char *why)
{
  fprintf(stderr, "without: %s: %s\n", what, why);
  exit(127);
}

static int reason_of(const char *name)
{
  static const int reasons[] = {ENOSYS, EPERM, EACCES};
  for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
    if (strcmp(strerrorname_np(reasons[i]), name) == 0)
      return reasons[i];
  fail(name, "expected ENOSYS, EPERM or EACCES");
}

int main(int count, char **arguments)
{
  if (count < 5 || strcmp(arguments[3], "--") != 0)
    fail("usage", "without ENOSYS call[,call...] -- command [argument...]");
  int reason = reason_of(arguments[1]);
  scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
  if (filter == NULL)
    fail("seccomp", "no memory");
  for (char *call = strtok(arguments[2], ","); call != NULL; call = strtok(NULL, ",")) {
    int number = seccomp_syscall_resolve_name(call);
    if (number == __NR_SCMP_ERROR)
      fail(call, "libseccomp knows no such system call");
    int result = seccomp_rule_add(filter, SCMP_ACT_ERRNO((unsigned)reason), number, 0);
    if (result != 0)
      fail(call, strerror(-result));
  }
  int result = seccomp_load(filter);
  if (result != 0)
    fail("seccomp", strerror(-result));
  seccomp_release(filter);
  execvp(arguments[4], arguments + 4);
  fail(arguments[4], strerror(errno));
}

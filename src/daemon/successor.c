// SPDX-License-Identifier: Apache-2.0
// posix_spawn, with signals as a new process expects them.
#include "daemon/successor.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

error *successor_init(successor *s, char **arguments)
{
  char path[PATH_MAX];
  ssize_t size = readlink("/proc/self/exe", path, sizeof(path));
  *s = (successor){.end = -1};
  s->executable = size > 0 && size < (ssize_t)sizeof(path) ? text_copy((slice){path, (size_t)size})
                                                           : text_copy(slice_of(arguments[0]));
  return s->executable == NULL ? error_no_memory() : NULL;
}

void successor_fini(successor *s)
{
  free(s->executable);
  if (s->end >= 0)
    close(s->end);
  *s = (successor){.end = -1};
}

// Descriptors of this process are not the next one's.
static int spawn(successor *s, char **arguments)
{
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  int failure = posix_spawn_file_actions_init(&actions);
  if (failure != 0)
    return failure;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  failure = posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  if (failure == 0)
    failure = posix_spawn(&s->process, s->executable, &actions, &attributes, arguments, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return failure;
}

error *successor_start(successor *s, int argument_count, char **arguments)
{
  static char upgrade[] = "--upgrade";
  if (s->process > 0)
    return error_new(ERROR_UNAVAILABLE, "process %d is to take over, and has not ended",
                     (int)s->process);
  AUTO_FREE char **words = calloc((size_t)argument_count + 2, sizeof(*words));
  if (words == NULL)
    return error_no_memory();
  words[0] = arguments[0];
  words[1] = upgrade; // before a command, and before "--"
  memcpy(words + 2, arguments + 1, (size_t)(argument_count - 1) * sizeof(*words));
  int failure = spawn(s, words);
  if (failure == 0) {
    s->end = (int)syscall(SYS_pidfd_open, s->process, 0); // else its end is seen later
    return NULL;
  }
  s->process = 0;
  return error_new(ERROR_UNAVAILABLE, "cannot start '%s': %s", s->executable, strerror(failure));
}

bool successor_ended(successor *s, pid_t *process, char how[SUCCESSOR_END_SIZE])
{
  int status;
  if (s->process <= 0 || waitpid(s->process, &status, WNOHANG) <= 0)
    return false;
  bool killed = WIFSIGNALED(status);
  snprintf(how, SUCCESSOR_END_SIZE, "%s %d", killed ? "signal" : "status",
           killed ? WTERMSIG(status) : WEXITSTATUS(status));
  if (s->end >= 0)
    close(s->end);
  *process = s->process;
  s->process = 0;
  s->end = -1;
  return true;
}

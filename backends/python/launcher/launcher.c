// SPDX-License-Identifier: Apache-2.0
// Reads the command line and runs the steps of launcher.h in order.
#include "launcher.h"
#include "util.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define STRICT_PROCESSES 8192 // the limit at level strict when none is given

static const char USAGE[] =
    "usage: nereid-worker-launcher [--sandbox=standard|strict] [--parent=PID] [--read=PATH]... "
    "[--device=PATH]... [--processes=N] [--descriptors=N] [--memory=BYTES] [--file=BYTES] "
    "[--scratch=BYTES] "
    "-- PROGRAM [ARGUMENT]...";

// ---- the command line

static uint64_t number(const char *text, const char *option)
{
  uint64_t value;
  if (!launcher_number(text, &value))
    launcher_fail(0, "--%s: '%s' is not a number", option, text);
  return value;
}

static void add_path(launcher_paths *paths, const char *path)
{
  const char **items = reallocarray(paths->items, paths->count + 1, sizeof(*items));
  if (items == NULL)
    launcher_fail(ENOMEM, "cannot read the command line");
  paths->items = items;
  paths->items[paths->count++] = path;
}

static bool is_strict(const char *level)
{
  if (strcmp(level, "standard") != 0 && strcmp(level, "strict") != 0)
    launcher_fail(0, "--sandbox: '%s' is neither standard nor strict", level);
  return strcmp(level, "strict") == 0;
}

static launcher_options read_options(int count, char **arguments)
{
  static const struct option known[] = {
      {"sandbox", required_argument, NULL, 's'},   {"parent", required_argument, NULL, 'p'},
      {"read", required_argument, NULL, 'r'},      {"device", required_argument, NULL, 'd'},
      {"processes", required_argument, NULL, 'n'}, {"descriptors", required_argument, NULL, 'o'},
      {"memory", required_argument, NULL, 'm'},    {"file", required_argument, NULL, 'f'},
      {"scratch", required_argument, NULL, 't'},   {0}};
  launcher_options options = {.processes = LAUNCHER_AS_SERVER,
                              .descriptors = LAUNCHER_AS_SERVER,
                              .memory_bytes = LAUNCHER_AS_SERVER,
                              .file_bytes = LAUNCHER_AS_SERVER,
                              .scratch_bytes = UINT64_C(1) << 30};
  int option, index = 0;
  opterr = 0;
  while ((option = getopt_long(count, arguments, "+", known, &index)) != -1) {
    if (option == 's')
      options.strict = is_strict(optarg);
    else if (option == 'p')
      options.parent = (pid_t)number(optarg, "parent");
    else if (option == 'r')
      add_path(&options.read, optarg);
    else if (option == 'd')
      add_path(&options.devices, optarg);
    else if (option == 'n')
      options.processes = number(optarg, "processes");
    else if (option == 'o')
      options.descriptors = number(optarg, "descriptors");
    else if (option == 'm')
      options.memory_bytes = number(optarg, "memory");
    else if (option == 'f')
      options.file_bytes = number(optarg, "file");
    else if (option == 't')
      options.scratch_bytes = number(optarg, "scratch");
    else
      launcher_fail(0, "unknown option; %s", USAGE);
  }
  if (optind == count)
    launcher_fail(0, "no program; %s", USAGE);
  if (options.strict && options.processes == LAUNCHER_AS_SERVER)
    options.processes = STRICT_PROCESSES;
  options.command = arguments + optind;
  return options;
}

// ---- the process itself

// Without close_range (before Linux 5.9), the C library reads /proc/self/fd.
static void close_descriptors(void)
{
  closefrom(4);
}

static void reset_signals(void)
{
  sigset_t none;
  sigemptyset(&none);
  for (int number = 1; number < NSIG; number++)
    signal(number, SIG_DFL); // fails for SIGKILL, SIGSTOP and two signals of the C library
  sigprocmask(SIG_SETMASK, &none, NULL);
}

static void enter_session(void)
{
  if (setsid() < 0)
    launcher_fail(errno, "cannot start a session");
}

// Why the program cannot run, and what to do about it.
static const char *explain(const char *program, int failure)
{
  if (failure == EACCES)
    return " (the server's user must be permitted to execute it: see its rights, those of the "
           "directories above it, and whether they are mounted noexec)";
  if (failure == ENOEXEC)
    return " (it is no program of this machine)";
  if (failure != ENOENT)
    return "";
  if (access(program, F_OK) == 0)
    return " (it is there, but what it needs to run is not: its loader, or the program behind #!)";
  if (readlink(program, (char[1]){0}, 1) >= 0)
    return " (it is a link to what is not there)";
  return " (EXECUTION_ENV_PATH of a model, or --backend-config=python,python-executable, names "
         "another Python)";
}

int main(int count, char **arguments)
{
  launcher_options options = read_options(count, arguments);
  close_descriptors();
  reset_signals();
  launcher_stay_as_guard(&options);
  enter_session();
  launcher_enter_group(&options);
  launcher_set_limits(&options);
  if (options.strict)
    launcher_enter_namespaces(&options);
  launcher_hide_passwords(&options);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    launcher_fail(errno, "cannot give up new privileges");
  launcher_restrict_files(&options);
  launcher_drop_capabilities(&options);
  launcher_end_with(options.guard, SIGKILL); // here, because a change of credentials may clear it
  launcher_filter_calls(&options);
  execv(options.command[0], options.command); // never a shell, which execvp would try
  int failure = errno;
  dprintf(STDERR_FILENO, "nereid-worker-launcher: cannot run '%s': %s%s\n", options.command[0],
          strerror(failure), explain(options.command[0], failure));
  return failure == ENOENT ? LAUNCHER_NOT_FOUND : LAUNCHER_NOT_EXECUTABLE;
}

// SPDX-License-Identifier: Apache-2.0
// The launcher stays beside the program as its guard. All processes that the program leaves behind,
// also in sessions of their own, become the guard's children and end with the program. The guard
// ends the way the program did. When the server ends, the kernel sends PROTOCOL_KILL_SIGNAL, and
// the guard ends everything. The program cannot signal the guard: filter.c. The guard ignores
// SIGTERM: when a service manager signals every process, the server must finish its requests first.
#include "launcher.h"

#include "codec/protocol.h"
#include "util.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_SWEEPS                                                                                 \
  5000 // a program that starts processes faster than they are killed wins after 5 s
#define SWEEP_PAUSE_NS 1000000
#define EXITING        0x4 // the kernel's PF_EXITING

static sigset_t heard_signals(void)
{
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigaddset(&set, PROTOCOL_KILL_SIGNAL);
  return set;
}

typedef struct process_facts {
  pid_t parent;
  bool exiting;
} process_facts;

// Reads a number of /proc/PID/stat, counted after the name.
static bool read_field(const char *behind_name, int index, uint64_t *value)
{
  const char *at = behind_name;
  for (int i = 0; i < index && at != NULL; i++)
    at = strchr(at + 1, ' ');
  char text[24];
  return at != NULL &&
         snprintf(text, sizeof(text), "%.*s", (int)strcspn(at + 1, " "), at + 1) <
             (int)sizeof(text) &&
         launcher_number(text, value);
}

static bool read_facts(const char *process, process_facts *facts)
{
  char path[64], text[512] = "";
  uint64_t parent, flags;
  snprintf(path, sizeof(path), "/proc/%.20s/stat", process);
  FILE *file = fopen(path, "re");
  size_t length = file == NULL ? 0 : fread(text, 1, sizeof(text) - 1, file);
  if (file != NULL)
    fclose(file);
  text[length] = '\0';
  const char *behind_name = strrchr(text, ')');
  if (behind_name == NULL || !read_field(behind_name, 2, &parent) ||
      !read_field(behind_name, 7, &flags))
    return false;
  *facts = (process_facts){.parent = (pid_t)parent, .exiting = (flags & EXITING) != 0};
  return true;
}

// An orphan is the guard's child, and keeps its number until the guard reaps it.
static void kill_children(void)
{
  pid_t self = getpid();
  DIR *dir = opendir("/proc");
  struct dirent *entry;
  process_facts facts;
  uint64_t number;
  while (dir != NULL && (entry = readdir(dir)) != NULL)
    if (launcher_number(entry->d_name, &number) && read_facts(entry->d_name, &facts) &&
        facts.parent == self)
      kill((pid_t)number, SIGKILL);
  if (dir != NULL)
    closedir(dir);
}

// Each sweep makes the children of the killed processes the guard's.
static void end_family(void)
{
  const struct timespec pause = {.tv_nsec = SWEEP_PAUSE_NS};
  for (int i = 0; i < MAX_SWEEPS; i++) {
    pid_t ended;
    while ((ended = waitpid(-1, NULL, WNOHANG | __WALL)) > 0)
      ;
    if (ended < 0)
      return; // no children are left
    kill_children();
    nanosleep(&pause, NULL);
  }
}

// Reaps orphans. True: the program has ended; its number and its group stay reserved.
static bool has_ended(pid_t program, siginfo_t *end)
{
  for (;;) {
    *end = (siginfo_t){0};
    if (waitid(P_ALL, 0, end, WEXITED | WNOHANG | WNOWAIT | __WALL) != 0 || end->si_pid == 0)
      return false;
    if (end->si_pid == program)
      return true;
    waitpid(end->si_pid, NULL, __WALL);
  }
}

// Ends the way the program did, or by PROTOCOL_KILL_SIGNAL if the guard was told to kill it.
static _Noreturn void end_like(const siginfo_t *end, bool kill_sent)
{
  if (end->si_code == CLD_EXITED)
    _exit(end->si_status);
  int number = kill_sent && end->si_status == SIGKILL ? PROTOCOL_KILL_SIGNAL : end->si_status;
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, number);
  setrlimit(RLIMIT_CORE, &(struct rlimit){0});
  signal(number, SIG_DFL);
  sigprocmask(SIG_UNBLOCK, &only, NULL);
  kill(getpid(), number);
  _exit(128 + number);
}

static _Noreturn void guard(const launcher_options *options, pid_t program)
{
  sigset_t heard = heard_signals();
  siginfo_t end;
  bool kill_sent = false;
  char name[32];
  snprintf(name, sizeof(name), "%d", (int)program);
  signal(SIGTERM, SIG_IGN);
  closefrom(0); // only the program may hold the connection and the pipes
  while (!has_ended(program, &end)) {
    process_facts facts;
    if (sigwaitinfo(&heard, NULL) != PROTOCOL_KILL_SIGNAL)
      continue;
    kill_sent = kill_sent || !read_facts(name, &facts) || !facts.exiting;
    kill(-program, SIGKILL);
    kill(program, SIGKILL);
  }
  kill(-program, SIGKILL);
  end_family();
  launcher_remove_group(options);
  end_like(&end, kill_sent);
}

void launcher_end_with(pid_t parent, int number)
{
  if (prctl(PR_SET_PDEATHSIG, number, 0, 0, 0) != 0)
    launcher_fail(errno, "cannot set the signal for the parent's end");
  if (parent != 0 && getppid() != parent)
    launcher_fail(0, "the server has ended");
}

void launcher_stay_as_guard(launcher_options *options)
{
  sigset_t heard = heard_signals(), before;
  sigprocmask(SIG_BLOCK, &heard, &before);
  if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
    launcher_fail(errno, "cannot become the parent of orphans");
  launcher_end_with(options->parent, PROTOCOL_KILL_SIGNAL);
  options->guard = getpid();
  pid_t program = fork();
  if (program < 0)
    launcher_fail(errno, "cannot start a process");
  if (program > 0) {
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); // no process may read its memory
    guard(options, program);
  }
  sigprocmask(SIG_SETMASK, &before, NULL);
}

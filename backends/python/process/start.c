// Starts the launcher by posix_spawn, ends it, and tells how it ended.
#include "process/start.h"

#include "backend_config.h"
#include "backend_error.h"
#include "codec/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// What is to be done about it.
static const char *advice(int number)
{
  switch (number) {
  case ENOENT:
    return " (it belongs beside the backend's library)";
  case EACCES:
    return " (the server's user must be permitted to execute it: see its rights, those of the "
           "directories above it, and whether they are mounted noexec)";
  case EAGAIN:
    return " (no more processes are permitted: see 'ulimit -u' and the control group's pids.max)";
  case EMFILE:
    return " (the server has as many descriptors as it may: see 'ulimit -n')";
  }
  return "";
}

static TRITONSERVER_Error *failed(const char *path, int number)
{
  return backend_error(TRITONSERVER_ERROR_UNAVAILABLE, "cannot start a Python worker by '%s': %s%s",
                       path, strerror(number), advice(number));
}

// stdout and stderr are the writing ends; 4 and more are closed. Descriptors that are moved to
// 0..3 come from above 3: see above_standard.
static int add_descriptors(posix_spawn_file_actions_t *actions, const int *sources)
{
  int failure = 0;
  for (int i = 0; i <= PROTOCOL_SOCKET && failure == 0; i++)
    failure = posix_spawn_file_actions_adddup2(actions, sources[i], i);
  if (failure == 0)
    failure = posix_spawn_file_actions_addclosefrom_np(actions, PROTOCOL_SOCKET + 1);
  return failure;
}

// Signals as a new process has them, whatever the server blocks or ignores.
static int add_attributes(posix_spawnattr_t *attributes)
{
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  int failure = posix_spawnattr_setsigdefault(attributes, &all);
  if (failure == 0)
    failure = posix_spawnattr_setsigmask(attributes, &none);
  if (failure == 0)
    failure = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF |
                                                       POSIX_SPAWN_SETSIGMASK);
  return failure;
}

// From where it is to be: it is there from its first moment on.
static int spawn_in_place(const worker_command *command, const posix_spawn_file_actions_t *actions,
                          const posix_spawnattr_t *attributes, pid_t *id)
{
  worker_placement before;
  worker_placement_get(&before);
  int failure = worker_placement_enter(command->placement);
  if (failure == 0)
    failure = posix_spawn(id, command->arguments[0], actions, attributes, command->arguments,
                          command->environment);
  worker_placement_enter(&before);
  return failure;
}

static int spawn(const worker_command *command, const int *sources, pid_t *id)
{
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  int failure = posix_spawn_file_actions_init(&actions);
  if (failure != 0)
    return failure;
  failure = posix_spawnattr_init(&attributes);
  if (failure == 0) {
    failure = add_descriptors(&actions, sources);
    if (failure == 0)
      failure = add_attributes(&attributes);
    if (failure == 0)
      failure = spawn_in_place(command, &actions, &attributes, id);
    posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_destroy(&actions);
  return failure;
}

// A pipe whose ends are above the descriptors that the worker gets, the reading end non-blocking.
static bool open_pipe(int ends[2])
{
  int raw[2];
  ends[0] = ends[1] = -1;
  if (pipe2(raw, O_CLOEXEC) != 0)
    return false;
  for (int i = 0; i < 2; i++) {
    ends[i] = fcntl(raw[i], F_DUPFD_CLOEXEC, PROTOCOL_SOCKET + 1);
    close(raw[i]);
  }
  if (ends[0] >= 0 && ends[1] >= 0 && fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0)
    return true;
  for (int i = 0; i < 2; i++)
    if (ends[i] >= 0)
      close(ends[i]);
  return false;
}

static int above_standard(int descriptor)
{
  if (descriptor < 0)
    return -1;
  int moved = fcntl(descriptor, F_DUPFD_CLOEXEC, PROTOCOL_SOCKET + 1);
  close(descriptor);
  return moved;
}

// What a worker reads as its input: nothing. Not every system has a /dev.
static int open_nothing(void)
{
  int ends[2], file = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (file >= 0 || pipe2(ends, O_CLOEXEC) != 0)
    return file;
  close(ends[1]);
  return ends[0];
}

static void close_if_open(int descriptor)
{
  if (descriptor >= 0)
    close(descriptor);
}

// Spawns with the writing ends of both pipes; gives an errno.
static int spawn_with_pipes(worker_process *self, const worker_command *command,
                            const int writing[2])
{
  int sources[PROTOCOL_SOCKET + 1] = {above_standard(open_nothing()), writing[0], writing[1],
                                      fcntl(command->socket, F_DUPFD_CLOEXEC, PROTOCOL_SOCKET + 1)};
  int failure =
      sources[0] < 0 || sources[PROTOCOL_SOCKET] < 0 ? errno : spawn(command, sources, &self->id);
  close_if_open(sources[0]);
  close_if_open(sources[PROTOCOL_SOCKET]);
  if (failure != 0)
    return failure;
  self->handle = (int)syscall(SYS_pidfd_open, self->id, 0);
  if (self->handle >= 0)
    return 0;
  failure = errno;
  kill(self->id, PROTOCOL_KILL_SIGNAL);
  waitpid(self->id, NULL, 0);
  return failure;
}

// How often the kernel has killed for lack of memory, in any control group; -1 when it does not
// say.
static int64_t out_of_memory_kills(void)
{
  char text[16384];
  int file = open("/proc/vmstat", O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return -1;
  size_t length = 0;
  ssize_t got;
  while ((got = read(file, text + length, sizeof text - 1 - length)) > 0)
    length += (size_t)got;
  close(file);
  text[length] = '\0';
  const char *key = "\noom_kill ", *at = strstr(text, key), *rest;
  int64_t count;
  return at != NULL && backend_integer(at + strlen(key), &count, &rest) ? count : -1;
}

TRITONSERVER_Error *worker_process_start(worker_process *self, const worker_command *command)
{
  *self = (worker_process){.handle = -1, .output = {{.descriptor = -1}, {.descriptor = -1}}};
  self->out_of_memory_kills = out_of_memory_kills();
  int writing[2] = {-1, -1};
  int failure = 0;
  for (int i = 0; i < 2 && failure == 0; i++) {
    int ends[2];
    if (!open_pipe(ends)) {
      failure = errno;
    } else {
      writing[i] = ends[1];
      if (!worker_output_init(&self->output[i], ends[0], command->take_line, command->user)) {
        close(ends[0]);
        failure = ENOMEM;
      }
    }
  }
  if (failure == 0)
    failure = spawn_with_pipes(self, command, writing);
  close_if_open(writing[0]);
  close_if_open(writing[1]);
  if (failure == 0)
    return NULL;
  worker_output_fini(&self->output[0]);
  worker_output_fini(&self->output[1]);
  return failed(command->arguments[0], failure);
}

void worker_process_kill(worker_process *self)
{
  self->kill_sent = true;
  syscall(SYS_pidfd_send_signal, self->handle, PROTOCOL_KILL_SIGNAL, NULL, 0);
  syscall(SYS_pidfd_send_signal, self->handle, SIGCONT, NULL, 0); // should somebody have stopped it
}

// Who sent a SIGKILL cannot be known, but whether it can have been the kernel.
static const char *describe_kill(const worker_process *self)
{
  int64_t now = out_of_memory_kills();
  if (now < 0 || self->out_of_memory_kills < 0)
    return "";
  return now == self->out_of_memory_kills
             ? ", not by the kernel for lack of memory"
             : ", and the kernel has killed for lack of memory meanwhile";
}

static void describe_signal(const worker_process *self, int number, char *text, size_t room)
{
  const char *name = sigabbrev_np(number);
  const char *more = number == SIGKILL ? describe_kill(self) : "";
  if (name != NULL)
    snprintf(text, room, "it was ended by signal SIG%s%s", name, more);
  else
    snprintf(text, room, "it was ended by signal %d", number);
}

static char *describe(const worker_process *self, const siginfo_t *end)
{
  char how[128] = "it ended, it is not known how";
  const char *last_line = self->output[1].last;
  if (end->si_code == CLD_EXITED)
    snprintf(how, sizeof how, "it exited with status %d", end->si_status);
  else if (end->si_status == PROTOCOL_KILL_SIGNAL && self->cut_off)
    snprintf(how, sizeof how,
             "it let go of its connection to the server, as by os.exec, and was ended");
  else if (end->si_status == PROTOCOL_KILL_SIGNAL && self->kill_sent)
    snprintf(how, sizeof how, "it was ended by the server");
  else if (end->si_code == CLD_KILLED || end->si_code == CLD_DUMPED)
    describe_signal(self, end->si_status, how, sizeof how);
  char *cause;
  int length = *last_line == '\0' ? asprintf(&cause, "%s", how)
                                  : asprintf(&cause, "%s; it last printed: %s", how, last_line);
  return length < 0 ? NULL : cause;
}

char *worker_process_reap(worker_process *self)
{
  siginfo_t end = {0};
  int found;
  do
    found = waitid(P_PIDFD, (id_t)self->handle, &end, WEXITED | WNOHANG);
  while (found != 0 && errno == EINTR);
  if (found == 0 && end.si_pid == 0)
    return NULL;
  for (int i = 0; i < 2; i++)
    worker_output_drain(&self->output[i]);
  char *cause = describe(self, &end);
  close(self->handle);
  self->handle = -1;
  worker_output_fini(&self->output[0]);
  worker_output_fini(&self->output[1]);
  return cause != NULL ? cause : strdup("it ended");
}

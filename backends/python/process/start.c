// Starts the launcher by posix_spawn, ends it, and tells how it ended.
#include "process/start.h"

#include "backend_error.h"
#include "base/cleanup.h"
#include "base/files.h"
#include "base/state.h"
#include "base/text.h"
#include "codec/protocol.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static void set_state(worker_process *self, process_state state)
{
  static const unsigned allowed[] = {
      [PROCESS_NONE] = STATE_BIT(PROCESS_RUNNING),
      [PROCESS_RUNNING] =
          STATE_BIT(PROCESS_KILLED) | STATE_BIT(PROCESS_CUT_OFF) | STATE_BIT(PROCESS_ENDED),
      [PROCESS_KILLED] = STATE_BIT(PROCESS_ENDED),
      [PROCESS_CUT_OFF] = STATE_BIT(PROCESS_ENDED),
      [PROCESS_ENDED] = 0,
  };
  state_assert(allowed, self->state, state);
  self->state = state;
}

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

// Signals as a new process has them, whatever the server blocks or ignores. None of these can fail.
static void set_attributes(posix_spawnattr_t *attributes)
{
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  posix_spawnattr_init(attributes);
  posix_spawnattr_setsigdefault(attributes, &all);
  posix_spawnattr_setsigmask(attributes, &none);
  posix_spawnattr_setflags(attributes,
                           POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
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
  set_attributes(&attributes);
  failure = add_descriptors(&actions, sources);
  if (failure == 0)
    failure = spawn_in_place(command, &actions, &attributes, id);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return failure;
}

// A copy of `descriptor`, which is closed, above those that the worker gets. -1 with errno.
static int above_standard(int descriptor)
{
  int moved = descriptor < 0 ? -1 : fcntl(descriptor, F_DUPFD_CLOEXEC, PROTOCOL_SOCKET + 1);
  cleanup_close(&descriptor);
  return moved;
}

// Makes the pipe whose reading end is `output` and whose writing end the worker gets. Gives 0 or an
// errno; *writing is closed by the caller in any case.
static int open_output(worker_output *output, const worker_command *command, int *writing)
{
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return errno;
  int reading = above_standard(ends[0]);
  *writing = above_standard(ends[1]);
  if (reading >= 0 && *writing >= 0 && fcntl(reading, F_SETFL, O_NONBLOCK) == 0 &&
      worker_output_init(output, reading, command->take_line, command->user))
    return 0;
  int failure = errno;
  cleanup_close(&reading);
  return failure;
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

// Spawns with the writing ends of both pipes; gives 0 or an errno.
static int spawn_with_pipes(worker_process *self, const worker_command *command, int out, int error)
{
  AUTO_CLOSE int input = above_standard(open_nothing());
  AUTO_CLOSE int socket = fcntl(command->socket, F_DUPFD_CLOEXEC, PROTOCOL_SOCKET + 1);
  if (input < 0 || socket < 0)
    return errno;
  int failure = spawn(command, (const int[]){input, out, error, socket}, &self->id);
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
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  AUTO_ERROR error *e = files_read_path("/proc/vmstat", 1 << 20, &text);
  buffer_append_char(&text, '\0');
  if (e != NULL || text.failed)
    return -1;
  const char *key = "\noom_kill ", *at = strstr(text.data, key), *rest;
  int64_t count;
  return at != NULL && text_begins_int64(at + strlen(key), &count, &rest) ? count : -1;
}

TRITONSERVER_Error *worker_process_start(worker_process *self, const worker_command *command)
{
  *self = (worker_process){.handle = -1, .output = {{.descriptor = -1}, {.descriptor = -1}}};
  self->out_of_memory_kills = out_of_memory_kills();
  AUTO_CLOSE int out = -1, error = -1;
  int failure = open_output(&self->output[0], command, &out);
  if (failure == 0)
    failure = open_output(&self->output[1], command, &error);
  if (failure == 0)
    failure = spawn_with_pipes(self, command, out, error);
  if (failure == 0) {
    set_state(self, PROCESS_RUNNING);
    return NULL;
  }
  worker_output_fini(&self->output[0]);
  worker_output_fini(&self->output[1]);
  return backend_error(TRITONSERVER_ERROR_UNAVAILABLE, "cannot start a Python worker by '%s': %s%s",
                       command->arguments[0], strerror(failure), advice(failure));
}

void worker_process_kill(worker_process *self, process_state why)
{
  assert(self->state != PROCESS_NONE && self->state != PROCESS_ENDED);
  if (self->state == PROCESS_RUNNING)
    set_state(self, why);
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

static void describe(const worker_process *self, const siginfo_t *end, char *how, size_t room)
{
  int number = end->si_status;
  const char *name = sigabbrev_np(number);
  if (end->si_code == CLD_EXITED)
    snprintf(how, room, "it exited with status %d", number);
  else if (number == PROTOCOL_KILL_SIGNAL && self->state == PROCESS_CUT_OFF)
    snprintf(how, room, "it let go of its connection to the server, as by os.exec, and was ended");
  else if (number == PROTOCOL_KILL_SIGNAL && self->state == PROCESS_KILLED)
    snprintf(how, room, "it was ended by the server");
  else if (end->si_code != CLD_KILLED && end->si_code != CLD_DUMPED)
    snprintf(how, room, "it ended, it is not known how");
  else if (name != NULL)
    snprintf(how, room, "it was ended by signal SIG%s%s", name,
             number == SIGKILL ? describe_kill(self) : "");
  else
    snprintf(how, room, "it was ended by signal %d", number);
}

char *worker_process_reap(worker_process *self)
{
  siginfo_t end = {0};
  char how[128], *cause;
  const char *last_line = self->output[1].last;
  int found;
  do
    found = waitid(P_PIDFD, (id_t)self->handle, &end, WEXITED | WNOHANG);
  while (found != 0 && errno == EINTR);
  if (found == 0 && end.si_pid == 0)
    return NULL;
  for (int i = 0; i < 2; i++) {
    worker_output_drain(&self->output[i]);
    worker_output_fini(&self->output[i]);
  }
  describe(self, &end, how, sizeof how);
  set_state(self, PROCESS_ENDED);
  close(self->handle);
  self->handle = -1;
  int length =
      asprintf(&cause, "%s%s%s", how, *last_line == '\0' ? "" : "; it last printed: ", last_line);
  return length >= 0 ? cause : strdup("it ended");
}

// SPDX-License-Identifier: Apache-2.0
// Starts the process by posix_spawn, watches it, and reports how it ended.
#include "process/process.h"

#include "backend_error.h"
#include "base/cleanup.h"
#include "base/files.h"
#include "base/text.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define DESCRIPTORS (PROCESS_SOCKET + 1) // of the process
#define PIECE       16384 // bytes of output read at a time, so that no pipe delays the other work
#define MAX_DRAIN   (1 << 20)
#define LOOK_MS     50 // polling interval for the process's end, where there is no pidfd

typedef enum kill_reason {
  NOT_KILLED,
  KILLED,
  CUT_OFF // it closed its connection
} kill_reason;

struct worker_process {
  worker_command command; // its arguments and environment are valid until it is started
  const process_events *events;
  void *user; // for the events
  pthread_t thread;
  pthread_barrier_t started;
  int failure; // the errno of a failed start
  pid_t id;
  int handle;                  // pidfd, which never means another process; -1 where there is none
  pthread_mutex_t lock;        // without a pidfd: guards the next
  bool reaped;                 // `id` may belong to another process by now
  int64_t out_of_memory_kills; // of the whole system, at the start; -1: unknown
  _Atomic kill_reason killed;  // the first reason
  worker_output output[2];     // stdout, stderr
};

// ---- what it prints

static void end_line(worker_output *self)
{
  size_t length = self->length;
  if (length > 0 && self->line[length - 1] == '\r')
    length--;
  for (char *nul = self->line; (nul = memchr(nul, '\0', length - (size_t)(nul - self->line)));)
    *nul = ' '; // texts for people end at a NUL
  self->take_line(self->user, self->line, length, self->cut);
  if (length > 0) {
    size_t kept = length < sizeof(self->last) ? length : sizeof(self->last) - 1;
    memcpy(self->last, self->line, kept);
    self->last[kept] = '\0';
  }
  self->length = 0;
  self->cut = false;
}

static void split(worker_output *self, const char *bytes, size_t count)
{
  for (const char *end = bytes + count; bytes < end; bytes++)
    if (*bytes == '\n')
      end_line(self);
    else if (self->length < MAX_WORKER_LINE)
      self->line[self->length++] = *bytes;
    else
      self->cut = true;
}

// Returns the bytes read, 0 when nothing is there yet, -1 at the end.
static ssize_t read_piece(worker_output *self)
{
  char piece[PIECE];
  ssize_t got;
  do
    got = read(self->descriptor, piece, sizeof(piece));
  while (got < 0 && errno == EINTR);
  if (got > 0)
    split(self, piece, (size_t)got);
  if (got == 0)
    return -1;
  return got < 0 && errno == EAGAIN ? 0 : got;
}

void worker_output_end(worker_output *self)
{
  ssize_t total = 0, got;
  if (self->descriptor < 0)
    return;
  while (total < MAX_DRAIN && (got = read_piece(self)) > 0)
    total += got;
  if (self->length > 0)
    end_line(self);
  close(self->descriptor);
  self->descriptor = -1;
}

bool worker_output_read(worker_output *self)
{
  if (self->descriptor >= 0 && read_piece(self) >= 0)
    return true;
  worker_output_end(self);
  return false;
}

// ---- its start

// Advice for the error text.
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

// stdout and stderr are the writing ends; descriptors from 4 on are closed. The sources are above 3
// (see above_standard), so that no dup2 overwrites a later source.
static int add_descriptors(posix_spawn_file_actions_t *actions, const int *sources)
{
  int failure = 0;
  for (int i = 0; i <= PROCESS_SOCKET && failure == 0; i++)
    failure = posix_spawn_file_actions_adddup2(actions, sources[i], i);
  if (failure == 0)
    failure = posix_spawn_file_actions_addclosefrom_np(actions, PROCESS_SOCKET + 1);
  return failure;
}

// Sets signals to their defaults, whatever the server blocks or ignores. None of these calls can
// fail.
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

static int spawn_with(worker_process *self, const int *theirs)
{
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  int failure = posix_spawn_file_actions_init(&actions);
  if (failure != 0)
    return failure;
  set_attributes(&attributes);
  failure = add_descriptors(&actions, theirs);
  if (failure == 0)
    failure = posix_spawn(&self->id, self->command.arguments[0], &actions, &attributes,
                          self->command.arguments, self->command.environment);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return failure;
}

// Moves `descriptor` above those that the worker gets. -1 with errno.
static int above_standard(int descriptor)
{
  int moved = descriptor < 0 ? -1 : fcntl(descriptor, F_DUPFD_CLOEXEC, PROCESS_SOCKET + 1);
  cleanup_close(&descriptor);
  return moved;
}

// An empty stdin. Not every system has a /dev.
static int open_nothing(void)
{
  int ends[2], file = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (file >= 0 || pipe2(ends, O_CLOEXEC) != 0)
    return file;
  close(ends[1]);
  return ends[0];
}

// Opens the process's descriptors 0 to 3, and the reading ends of its pipes.
static bool open_descriptors(worker_process *self, int *theirs)
{
  theirs[STDIN_FILENO] = above_standard(open_nothing());
  for (int i = 0; i < 2; i++) {
    int ends[2];
    if (theirs[i] < 0 || pipe2(ends, O_CLOEXEC) != 0)
      return false;
    self->output[i].descriptor = above_standard(ends[0]);
    theirs[STDOUT_FILENO + i] = above_standard(ends[1]);
    if (self->output[i].descriptor < 0 || fcntl(self->output[i].descriptor, F_SETFL, O_NONBLOCK))
      return false;
  }
  theirs[PROCESS_SOCKET] = fcntl(self->command.socket, F_DUPFD_CLOEXEC, DESCRIPTORS);
  return theirs[STDERR_FILENO] >= 0 && theirs[PROCESS_SOCKET] >= 0;
}

// Returns 0 or an errno.
static int spawn(worker_process *self)
{
  int theirs[DESCRIPTORS] = {-1, -1, -1, -1};
  int failure = open_descriptors(self, theirs) ? spawn_with(self, theirs) : errno;
  for (int i = 0; i < DESCRIPTORS; i++)
    cleanup_close(&theirs[i]);
  if (failure != 0)
    return failure;
  self->handle = (int)syscall(SYS_pidfd_open, self->id, 0);
  if (self->handle >= 0 || errno == ENOSYS || errno == EPERM) // before Linux 5.3, or a sandbox
    return 0;
  failure = errno;
  kill(self->id, self->command.kill_signal);
  waitpid(self->id, NULL, 0);
  return failure;
}

// How often the kernel has killed for lack of memory, in any control group; -1 when unknown.
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

// ---- its end

static void send_signal(worker_process *self, int number)
{
  if (self->handle >= 0 &&
      (syscall(SYS_pidfd_send_signal, self->handle, number, NULL, 0) == 0 || errno == ESRCH))
    return;
  LOCK_SCOPE(&self->lock);
  if (!self->reaped)
    kill(self->id, number);
}

static void end_process(worker_process *self, kill_reason why)
{
  kill_reason none = NOT_KILLED;
  atomic_compare_exchange_strong(&self->killed, &none, why);
  send_signal(self, self->command.kill_signal);
  send_signal(self, SIGCONT); // it may be stopped
}

void worker_process_kill(worker_process *self)
{
  end_process(self, KILLED);
}

int worker_process_id(const worker_process *self)
{
  return (int)self->id;
}

// The sender of a SIGKILL is unknown; this says whether it may have been the kernel.
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
  else if (number == self->command.kill_signal && self->killed == CUT_OFF)
    snprintf(how, room, "it let go of its connection to the server, as by os.exec, and was ended");
  else if (number == self->command.kill_signal && self->killed == KILLED)
    snprintf(how, room, "it was ended by the server");
  else if (end->si_code != CLD_KILLED && end->si_code != CLD_DUMPED)
    snprintf(how, room, "it ended, it is not known how");
  else if (name != NULL)
    snprintf(how, room, "it was ended by signal SIG%s%s", name,
             number == SIGKILL ? describe_kill(self) : "");
  else
    snprintf(how, room, "it was ended by signal %d", number);
}

// Waits for the end and reaps the process.
static void await_end(worker_process *self, siginfo_t *end)
{
  bool handled = self->handle >= 0;
  id_t id = handled ? (id_t)self->handle : (id_t)self->id;
  // It stays a zombie until the lock is held, so that no signal goes to a reused number.
  while (waitid(handled ? P_PIDFD : P_PID, id, end, WEXITED | WNOWAIT) != 0 && errno == EINTR)
    ;
  LOCK_SCOPE(&self->lock);
  self->reaped = true;
  waitid(handled ? P_PIDFD : P_PID, id, end, WEXITED | WNOHANG);
}

// Reads the rest of the pipes, reaps the process, and describes how it ended.
static char *reap(worker_process *self)
{
  siginfo_t end = {0};
  char how[128], *cause;
  const char *last_line = self->output[1].last;
  await_end(self, &end);
  for (int i = 0; i < 2; i++)
    worker_output_end(&self->output[i]);
  describe(self, &end, how, sizeof(how));
  int length =
      asprintf(&cause, "%s%s%s", how, *last_line == '\0' ? "" : "; it last printed: ", last_line);
  return length >= 0 ? cause : strdup("it ended");
}

// ---- its thread

// Whether it has ended, where there is no pidfd.
static bool is_over(const worker_process *self)
{
  siginfo_t end = {0};
  if (self->handle >= 0)
    return false;
  int result = waitid(P_PID, (id_t)self->id, &end, WEXITED | WNOHANG | WNOWAIT);
  return result != 0 ? errno == ECHILD : end.si_pid != 0;
}

typedef enum watched {
  WATCHED_HANDLE,
  WATCHED_CONNECTION,
  WATCHED_TIMER,
  WATCHED_OUTPUT, // and the standard errors after it
  WATCHED_COUNT = WATCHED_OUTPUT + 2
} watched;

// Runs until the process ends. A process that closes its connection has become another program or
// is ending; it is killed.
static void watch(worker_process *self)
{
  struct pollfd on[WATCHED_COUNT] = {
      [WATCHED_HANDLE] = {.fd = self->handle, .events = POLLIN},
      [WATCHED_CONNECTION] = {.fd = self->command.connection, .events = POLLRDHUP},
      [WATCHED_TIMER] = {.fd = self->command.timer, .events = POLLIN},
      [WATCHED_OUTPUT] = {.fd = self->output[0].descriptor, .events = POLLIN},
      {.fd = self->output[1].descriptor, .events = POLLIN}};
  while (on[WATCHED_HANDLE].revents == 0 && !is_over(self)) {
    if (poll(on, WATCHED_COUNT, self->handle >= 0 ? -1 : LOOK_MS) < 0)
      continue;
    for (int i = 0; i < 2; i++)
      if (on[WATCHED_OUTPUT + i].revents != 0 && !worker_output_read(&self->output[i]))
        on[WATCHED_OUTPUT + i].fd = -1;
    if (on[WATCHED_CONNECTION].revents != 0 && on[WATCHED_HANDLE].revents == 0 && !is_over(self)) {
      on[WATCHED_CONNECTION].fd = -1;
      end_process(self, CUT_OFF);
    }
    if (on[WATCHED_TIMER].revents != 0)
      self->events->timer(self->user, self->command.timer);
  }
}

static void *run(void *argument)
{
  worker_process *self = argument;
  self->out_of_memory_kills = out_of_memory_kills();
  bool started = (self->failure = spawn(self)) == 0;
  pthread_barrier_wait(&self->started);
  if (started) {
    watch(self);
    self->events->ended(self->user, reap(self));
  }
  return NULL;
}

TRITONSERVER_Error *worker_process_start(const worker_command *command,
                                         const process_events *events, void *user,
                                         worker_process **started)
{
  worker_process *self = calloc(1, sizeof(*self));
  if (self == NULL)
    return backend_error_no_memory(command->what);
  self->command = *command;
  self->events = events;
  self->user = user;
  self->handle = -1;
  for (int i = 0; i < 2; i++) {
    self->output[i].descriptor = -1;
    self->output[i].take_line = events->line;
    self->output[i].user = user;
  }
  pthread_mutex_init(&self->lock, NULL);
  pthread_barrier_init(&self->started, NULL, 2);
  int failure = thread_create(&self->thread, command->thread, run, self);
  if (failure != 0) {
    pthread_barrier_destroy(&self->started);
    pthread_mutex_destroy(&self->lock);
    free(self);
    return backend_error_unavailable("cannot start a thread: %s", strerror(failure));
  }
  pthread_barrier_wait(&self->started);
  failure = self->failure;
  if (failure == 0) {
    *started = self;
    return NULL;
  }
  worker_process_free(self);
  return backend_error_unavailable("cannot start %s by '%s': %s%s", command->what,
                                   command->arguments[0], strerror(failure), advice(failure));
}

void worker_process_free(worker_process *self)
{
  if (self == NULL)
    return;
  pthread_join(self->thread, NULL);
  pthread_barrier_destroy(&self->started);
  pthread_mutex_destroy(&self->lock);
  for (int i = 0; i < 2; i++)
    cleanup_close(&self->output[i].descriptor);
  cleanup_close(&self->handle);
  free(self);
}

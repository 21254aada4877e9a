// The life of a worker: its start, its end, the next one. See worker.h.
#include "process/worker_internal.h"

#include "backend_error.h"
#include "backend_log.h"
#include "base/clock.h"
#include "base/thread.h"
#include "codec/protocol.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
  REPLIES_RETRY_US = 1000, // while the worker's ring of replies is full
  REPLIES_LOOK_US = 20000  // while others may find it full
};

// ---- starting

// Passes the channel's memory through `socket`. A worker that is gone already is noticed by its
// end.
static void pass_channel(int socket, int descriptor)
{
  char byte = 0;
  struct iovec part = {.iov_base = &byte, .iov_len = 1};
  union {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr header;
  } control = {0};
  struct msghdr message = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = &control,
                           .msg_controllen = sizeof control.bytes};
  control.header.cmsg_level = SOL_SOCKET;
  control.header.cmsg_type = SCM_RIGHTS;
  control.header.cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(&control.header), &descriptor, sizeof descriptor);
  while (sendmsg(socket, &message, MSG_NOSIGNAL) < 0 && errno == EINTR)
    ;
}

static void process_ended(void *user, char *cause)
{
  worker *self = user;
  pthread_mutex_lock(&self->lock);
  self->ended = self->number;
  free(self->cause);
  self->cause = cause;
  if (self->start_failure != NULL) {
    free(cause);
    self->cause = self->start_failure;
    self->start_failure = NULL;
  }
  if (self->state != WORKER_STOPPED)
    worker_set_state(self, WORKER_DOWN);
  self->retry_ns = 0;
  channel_close(worker_link_channel(self->link));
  pthread_cond_broadcast(&self->changed);
  pthread_mutex_unlock(&self->lock);
}

static void process_quiet(void *user)
{
  worker_link *link = worker_current_link(user);
  if (link != NULL)
    channel_trim(worker_link_channel(link), KEPT_BYTES);
  worker_link_unref(link);
}

static void process_line(void *user, const char *text, size_t length, bool cut)
{
  const worker *self = user;
  const NEREID_LogSubject about = worker_log_subject(self);
  BACKEND_LOG_INFO_ABOUT(&about, "model '%s', instance '%s': %.*s%s", self->settings->model,
                         worker_name(self), (int)length, text, cut ? " [cut]" : "");
}

static const supervised_events EVENTS = {
    .line = process_line, .ended = process_ended, .quiet = process_quiet};

static TRITONSERVER_Error *start_process(worker *self, const int ends[2], supervised **process)
{
  const worker_command command = {.arguments = self->settings->command,
                                  .environment = self->settings->environment,
                                  .socket = ends[1],
                                  .placement = &self->placement};
  return supervisor_start(self->settings->supervisor, &command, ends[0], &EVENTS, self, process);
}

// The link is in place before the process is started, since it may end at once.
static void enter(worker *self, worker_link *link, int socket)
{
  pthread_mutex_lock(&self->lock);
  self->number++;
  self->checked = WORKER_UNCHECKED;
  self->link = link;
  self->socket = socket;
  pthread_mutex_unlock(&self->lock);
}

static void leave(worker *self)
{
  pthread_mutex_lock(&self->lock);
  self->ended = self->number;
  worker_link_unref(self->link);
  self->link = NULL;
  close(self->socket);
  self->socket = -1;
  pthread_mutex_unlock(&self->lock);
}

// Starts the process of a new worker, without talking to it.
static TRITONSERVER_Error *spawn(worker *self)
{
  worker_link *link;
  supervised *process = NULL;
  int ends[2];
  BACKEND_RETURN_IF_ERROR(worker_link_new(self->settings->shared_bytes, &link));
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    worker_link_unref(link);
    return backend_error(TRITONSERVER_ERROR_UNAVAILABLE, "cannot make a socket pair: %s",
                         strerror(errno));
  }
  enter(self, link, ends[0]);
  TRITONSERVER_Error *error = start_process(self, ends, &process);
  close(ends[1]);
  if (error != NULL) {
    leave(self);
    return error;
  }
  pass_channel(ends[0], channel_descriptor(worker_link_channel(link)));
  pthread_mutex_lock(&self->lock);
  self->process = process;
  if (self->state == WORKER_STOPPED) // meanwhile; who stopped it could not kill this one
    supervised_kill(process);
  pthread_mutex_unlock(&self->lock);
  return NULL;
}

// ---- the end of a worker

// How many of the last ends were lately, and the pause before the next start: none, 1, 2, 4 … s.
static unsigned count_death_locked(worker *self)
{
  uint64_t now = clock_monotonic_ns(), window = (uint64_t)DEATHS_WINDOW_S * NS_PER_S;
  if (self->ready_ns != 0 && now - self->ready_ns >= window)
    self->failures = 0;
  self->ready_ns = 0;
  memmove(self->deaths_ns + 1, self->deaths_ns, sizeof self->deaths_ns - sizeof *self->deaths_ns);
  self->deaths_ns[0] = now;
  self->death_count = 0;
  for (int i = 0; i < DEATHS_MANY; i++)
    self->death_count += self->deaths_ns[i] != 0 && now - self->deaths_ns[i] < window;
  unsigned pause = 0;
  if (self->failures > 0)
    pause = self->failures > 6 ? PAUSE_MOST_S : 1u << (self->failures - 1);
  self->failures++;
  pause = pause > PAUSE_MOST_S ? PAUSE_MOST_S : pause;
  self->retry_ns = now + (uint64_t)pause * NS_PER_S;
  return pause;
}

// The listener's thread alone, which no other changes the cause beside.
static void log_death(const worker *self, unsigned pause)
{
  const NEREID_LogSubject about = worker_log_subject(self);
  BACKEND_LOG_ERROR_ABOUT(
      &about,
      "model '%s', instance '%s': the Python worker ended: %s; the next one starts "
      "in %u s",
      self->settings->model, worker_name(self),
      self->cause == NULL ? "it is not known how" : self->cause, pause);
}

// After the channel was closed: waits until the process is gone, and answers what is open.
static void reap(worker *self)
{
  pthread_mutex_lock(&self->lock);
  channel_close(worker_link_channel(self->link));
  worker_kill_locked(self);
  while (self->ended < self->number)
    pthread_cond_wait(&self->changed, &self->lock);
  bool goes_on = self->arguments != NULL && self->state != WORKER_STOPPED;
  unsigned pause = goes_on ? count_death_locked(self) : 0;
  TRITONSERVER_Error *error = worker_gone_locked(self);
  pthread_cond_broadcast(&self->changed);
  pthread_mutex_unlock(&self->lock);
  if (goes_on)
    log_death(self, pause);
  self->events->gone(self->user, error);
  TRITONSERVER_ErrorDelete(error);
}

// After that, when no other thread talks to it any more.
static void let_go(worker *self)
{
  pthread_mutex_lock(&self->lock);
  worker_link *link = self->link;
  assert(self->ended >= self->number);
  self->link = NULL;
  supervised_release(self->process);
  self->process = NULL;
  close(self->socket);
  self->socket = -1;
  pthread_mutex_unlock(&self->lock);
  worker_link_unref(link);
}

// ---- the next worker

// Talks a new worker through its start. Its thread ends with that.
static void *bring_up(void *argument)
{
  worker *self = argument;
  worker_link *link = worker_current_link(self);
  TRITONSERVER_Error *error = worker_greet(self, link, worker_name(self));
  if (error == NULL)
    error = worker_ask_initialize(self, link, worker_name(self), self->arguments);
  worker_link_unref(link);
  pthread_mutex_lock(&self->lock);
  if (error == NULL && self->state == WORKER_STARTING) {
    worker_set_state(self, WORKER_READY);
    self->ready_ns = clock_monotonic_ns();
  }
  if (error != NULL && self->ended < self->number) {
    self->start_failure = strdup(TRITONSERVER_ErrorMessage(error));
    worker_kill_locked(self);
  }
  pthread_cond_broadcast(&self->changed);
  pthread_mutex_unlock(&self->lock);
  TRITONSERVER_ErrorDelete(error); // the log is told when the process has ended
  return NULL;
}

// Waits until the next start is due. False: there is none.
static bool await_restart(worker *self)
{
  pthread_mutex_lock(&self->lock);
  while (self->arguments == NULL && self->state != WORKER_STOPPED)
    pthread_cond_wait(&self->changed, &self->lock);
  while (self->state == WORKER_DOWN && clock_monotonic_ns() < self->retry_ns)
    thread_wait(&self->changed, &self->lock, self->retry_ns);
  bool wanted = self->state != WORKER_STOPPED;
  if (wanted)
    worker_set_state(self, WORKER_STARTING);
  pthread_mutex_unlock(&self->lock);
  return wanted;
}

// A start that failed is an end like others.
static void note_failed_start(worker *self, TRITONSERVER_Error *error_owned)
{
  pthread_mutex_lock(&self->lock);
  free(self->cause);
  self->cause = strdup(TRITONSERVER_ErrorMessage(error_owned));
  if (self->state != WORKER_STOPPED)
    worker_set_state(self, WORKER_DOWN);
  unsigned pause = count_death_locked(self);
  pthread_mutex_unlock(&self->lock);
  log_death(self, pause);
  TRITONSERVER_ErrorDelete(error_owned);
}

// Starts the next worker, and the thread that talks to it while this one serves its calls.
static bool revive(worker *self, pthread_t *starter)
{
  while (await_restart(self)) {
    TRITONSERVER_Error *error = spawn(self);
    if (error != NULL) {
      note_failed_start(self, error);
      continue;
    }
    if (thread_create(starter, "py starter", bring_up, self) == 0)
      return true;
    reap(self);
    let_go(self);
  }
  return false;
}

// ---- the listener

static void serve_calls(worker *self, worker_link *link)
{
  channel *channel = worker_link_channel(link);
  channel_message call;
  for (;;) {
    bool others = self->events->has_calls(self->user); // before the look at what they left
    int64_t timeout_us = worker_link_flush(link) ? REPLIES_RETRY_US : others ? REPLIES_LOOK_US : -1;
    switch (channel_receive(channel, CHANNEL_CALLS, timeout_us, &call)) {
    case CHANNEL_MESSAGE:
      self->events->call(self->user, link, &call);
      channel_done(channel, CHANNEL_CALLS);
      break;
    case CHANNEL_TIMEOUT:
      break;
    case CHANNEL_CLOSED:
    case CHANNEL_BROKEN:
      return;
    }
  }
}

// Until the channel is closed.
static void serve(worker *self)
{
  worker_link *link = worker_current_link(self);
  TRITONSERVER_Error *error = self->events->calls_begun(self->user, link);
  if (error == NULL) {
    serve_calls(self, link);
    self->events->calls_ended(self->user);
  }
  backend_error_log(error, "serve the calls of a Python worker");
  worker_link_unref(link);
}

static void *listen_for_calls(void *argument)
{
  worker *self = argument;
  pthread_t starter;
  bool has_starter = false;
  do {
    serve(self);
    reap(self);
    if (has_starter)
      pthread_join(starter, NULL);
    let_go(self);
    has_starter = revive(self, &starter);
  } while (has_starter);
  return NULL;
}

// ---- life

worker *worker_new(const worker_settings *settings, const char *name, const worker_events *events,
                   void *user)
{
  worker *self = calloc(1, sizeof *self);
  if (self == NULL || (self->own_names[0] = strdup(name)) == NULL) {
    free(self);
    return NULL;
  }
  self->settings = settings;
  self->events = events;
  self->user = user;
  self->socket = -1;
  worker_placement_get(&self->placement);
  pthread_mutex_init(&self->lock, NULL);
  pthread_cond_init(&self->changed, NULL);
  atomic_init(&self->name, self->own_names[0]);
  return self;
}

void worker_free(worker *self)
{
  if (self == NULL)
    return;
  assert(self->link == NULL && self->process == NULL && self->slot_users == 0);
  pthread_mutex_destroy(&self->lock);
  pthread_cond_destroy(&self->changed);
  free(self->start_failure);
  free(self->cause);
  free(self->arguments);
  free(self->own_names[0]);
  free(self->own_names[1]);
  free(self);
}

TRITONSERVER_Error *worker_start(worker *self)
{
  BACKEND_RETURN_IF_ERROR(spawn(self));
  int failure = thread_create(&self->listener, "py listener", listen_for_calls, self);
  if (failure != 0) {
    pthread_mutex_lock(&self->lock);
    worker_set_state(self, WORKER_STOPPED);
    pthread_mutex_unlock(&self->lock);
    reap(self);
    let_go(self);
    return backend_error(TRITONSERVER_ERROR_UNAVAILABLE, "cannot start a thread: %s",
                         strerror(failure));
  }
  worker_link *link = worker_current_link(self);
  TRITONSERVER_Error *error =
      link == NULL ? worker_why_gone(self, NULL) : worker_greet(self, link, worker_name(self));
  worker_link_unref(link);
  if (error != NULL)
    worker_stop(self);
  return error;
}

TRITONSERVER_Error *worker_initialize(worker *self, const char *name, const char *arguments)
{
  char *own_name = strdup(name), *own_arguments = strdup(arguments);
  worker_link *link = worker_current_link(self);
  TRITONSERVER_Error *error = NULL;
  if (own_name == NULL || own_arguments == NULL)
    error = backend_error_no_memory("a Python worker");
  else if (link == NULL)
    error = worker_why_gone(self, NULL);
  if (error == NULL) {
    assert(self->own_names[1] == NULL);
    self->own_names[1] = own_name;
    atomic_store(&self->name, own_name);
    own_name = NULL;
    error = worker_ask_initialize(self, link, name, arguments);
  }
  worker_link_unref(link);
  if (error == NULL) {
    pthread_mutex_lock(&self->lock);
    self->arguments = own_arguments;
    own_arguments = NULL;
    if (self->ended < self->number) {
      worker_set_state(self, WORKER_READY);
      self->ready_ns = clock_monotonic_ns();
    }
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->lock);
  }
  free(own_name);
  free(own_arguments);
  return error;
}

// Waits for the process to end by itself; else it is killed.
static void await_exit(worker *self)
{
  uint64_t deadline = clock_monotonic_ns() + (uint64_t)self->settings->timeout_s * NS_PER_S;
  pthread_mutex_lock(&self->lock);
  while (self->ended < self->number)
    if (!thread_wait(&self->changed, &self->lock, deadline))
      break;
  pthread_mutex_unlock(&self->lock);
}

void worker_stop(worker *self)
{
  pthread_mutex_lock(&self->lock);
  bool finalizes = self->state == WORKER_READY;
  worker_set_state(self, WORKER_STOPPED);
  if (!finalizes)
    worker_kill_locked(self);
  pthread_mutex_unlock(&self->lock);
  if (finalizes) {
    worker_link *link = worker_current_link(self);
    if (link != NULL) {
      worker_ask_finalize(self, link);
      await_exit(self);
    }
    worker_link_unref(link);
    pthread_mutex_lock(&self->lock);
    worker_kill_locked(self);
    pthread_mutex_unlock(&self->lock);
  }
  pthread_join(self->listener, NULL);
}

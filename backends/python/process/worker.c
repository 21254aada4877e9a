// SPDX-License-Identifier: Apache-2.0
// The life of a worker: start, end, restart. Any thread, unless said otherwise.
#include "process/worker_end.h"
#include "process/worker_parts.h"
#include "process/worker_rpc.h"

#include "backend_error.h"
#include "backend_log.h"
#include "base/cleanup.h"
#include "base/thread.h"
#include "base/wakeup.h"
#include "channel_descriptor.h"
#include "codec/protocol.h"

#include <assert.h>
#include <errno.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

#define REPLIES_RETRY_US 1000  // while the worker's ring of replies is full
#define REPLIES_LOOK_US  20000 // while other threads may find it full

// ---- processors and memory

// Uses system calls instead of libnuma. Where a container may not ask for the policy, no other
// policy can have been set.
static void worker_placement_get(worker_placement *placement)
{
  worker_placement memory = {.mode = MPOL_DEFAULT};
  *placement = memory;
  if (syscall(SYS_get_mempolicy, &memory.mode, memory.nodes, MAX_NODES, NULL, 0) == 0)
    *placement = memory;
  sched_getaffinity(0, sizeof(placement->cores), &placement->cores);
}

bool worker_is_here(const worker *self)
{
  worker_placement here;
  const worker_placement *there = &self->placement;
  worker_placement_get(&here);
  return CPU_EQUAL(&here.cores, &there->cores) && here.mode == there->mode &&
         memcmp(here.nodes, there->nodes, sizeof(here.nodes)) == 0;
}

// ---- starting

static void process_ended(void *user, char *cause_owned)
{
  worker *self = user;
  LOCK_SCOPE(&self->lock);
  self->ended = self->number;
  free(self->cause);
  self->cause = cause_owned;
  if (self->start_failure != NULL) {
    free(cause_owned);
    self->cause = self->start_failure;
    self->start_failure = NULL;
  }
  if (self->state == WORKER_STARTING || self->state == WORKER_READY)
    worker_set_state(self, WORKER_DOWN);
  self->retry_ns = 0;
  if (self->link != NULL) {
    if (self->cause != NULL && self->link->end_cause == NULL)
      self->link->end_cause = strdup(self->cause);
    channel_close(self->link->channel);
  }
  pthread_cond_broadcast(&self->changed);
}

static void set_quiet_timer(const worker *self)
{
  const struct itimerspec later = {.it_value.tv_sec = QUIET_S};
  timerfd_settime(self->quiet_timer, 0, &later, NULL);
}

void worker_touch(worker *self)
{
  if (!atomic_load_explicit(&self->touched, memory_order_relaxed) &&
      !atomic_exchange(&self->touched, true))
    set_quiet_timer(self);
}

static void process_timer(void *user, int timer)
{
  worker *self = user;
  wakeup_take(timer);
  if (atomic_exchange(&self->touched, false)) {
    set_quiet_timer(self);
    return;
  }
  worker_link *link = worker_current_link(self);
  if (link != NULL)
    channel_trim(link->channel, KEPT_BYTES);
  worker_link_unref(link);
}

static void process_line(void *user, const char *text, size_t length, bool cut)
{
  const worker *self = user;
  const NEREID_LogSubject about = worker_log_subject(self);
  BACKEND_LOG_INFO_ABOUT(&about, "model '%s', instance '%s': %.*s%s", self->settings->model,
                         worker_name(self), (int)length, text, cut ? " [cut]" : "");
}

static const process_events EVENTS = {
    .line = process_line, .timer = process_timer, .ended = process_ended};

// The link is set before the process starts, since the process may end at once.
static void enter(worker *self, worker_link *link)
{
  LOCK_SCOPE(&self->lock);
  link->number = ++self->number;
  self->checked = WORKER_UNCHECKED;
  self->ready_until_ns = 0;
  self->link = link;
}

// Starts the process of a new worker, without sending it messages. After an error process_ended and
// let_go follow.
static TRITONSERVER_Error *spawn(worker *self)
{
  worker_link *link;
  worker_process *process;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return backend_error_unavailable("cannot make a socket pair: %s", strerror(errno));
  TRITONSERVER_Error *error = worker_link_new(self->settings->shared_bytes, ends[0], &link);
  if (error != NULL) {
    close(ends[0]);
    close(ends[1]);
    return error;
  }
  enter(self, link);
  const worker_command command = {.what = "a Python worker",
                                  .thread = "py process",
                                  .kill_signal = PROTOCOL_KILL_SIGNAL,
                                  .arguments = self->settings->command,
                                  .environment = self->settings->environment,
                                  .socket = ends[1],
                                  .connection = ends[0],
                                  .timer = self->quiet_timer};
  error = worker_process_start(&command, &EVENTS, self, &process);
  close(ends[1]);
  BACKEND_RETURN_IF_ERROR(error);
  int failure = channel_send_descriptor(ends[0], channel_descriptor(link->channel));
  if (failure != 0)
    BACKEND_LOG_WARN("a Python worker cannot be given its channel: %s", strerror(failure));
  LOCK_SCOPE(&self->lock);
  self->process = process;
  // worker_stop may have run meanwhile, without a process to kill
  if (failure != 0 || self->state == WORKER_STOPPED)
    worker_process_kill(process);
  return NULL;
}

// ---- the end of a worker

// Only the listener's thread calls it; no other thread changes the cause then.
static void log_death(const worker *self, unsigned pause)
{
  const NEREID_LogSubject about = worker_log_subject(self);
  BACKEND_LOG_ERROR_ABOUT(
      &about, "model '%s', instance '%s': the Python worker ended: %s; the next one starts in %u s",
      self->settings->model, worker_name(self),
      self->cause == NULL ? "it is not known how" : self->cause, pause);
}

// Closes the channel, waits until the process is gone, and answers open requests.
static void reap(worker *self)
{
  pthread_mutex_lock(&self->lock);
  if (self->link != NULL)
    channel_close(self->link->channel);
  worker_kill_locked(self);
  while (self->ended < self->number)
    pthread_cond_wait(&self->changed, &self->lock);
  bool goes_on = self->arguments != NULL && self->state != WORKER_STOPPED;
  unsigned pause = goes_on ? worker_count_death_locked(self, clock_monotonic_ns()) : 0;
  TRITONSERVER_Error *error = worker_gone_locked(self, self->link);
  if (self->link != NULL)
    self->link->is_over = true;
  pthread_cond_broadcast(&self->changed);
  pthread_mutex_unlock(&self->lock);
  if (goes_on)
    log_death(self, pause);
  self->events->gone(self->user, error);
  TRITONSERVER_ErrorDelete(error);
}

// Call it after reap, when no other thread talks to the worker.
static void let_go(worker *self)
{
  pthread_mutex_lock(&self->lock);
  assert(self->ended >= self->number);
  worker_link *link = self->link;
  worker_process *process = self->process;
  self->link = NULL;
  self->process = NULL;
  pthread_mutex_unlock(&self->lock);
  worker_process_free(process);
  worker_link_unref(link);
}

// ---- the next worker

static void become_ready_locked(worker *self)
{
  if (self->state != WORKER_STARTING)
    return; // it has ended, or was stopped
  worker_set_state(self, WORKER_READY);
  self->ready_ns = clock_monotonic_ns();
}

// Initializes a new worker, then ends its thread.
static void *bring_up(void *argument)
{
  worker *self = argument;
  TRITONSERVER_Error *error = worker_greet(self);
  if (error == NULL)
    error = worker_ask_initialize(self, self->arguments);
  pthread_mutex_lock(&self->lock);
  if (error == NULL) {
    become_ready_locked(self);
  } else if (self->ended < self->number) {
    self->start_failure = strdup(TRITONSERVER_ErrorMessage(error));
    worker_kill_locked(self);
  }
  pthread_mutex_unlock(&self->lock);
  TRITONSERVER_ErrorDelete(error); // logged when the process has ended
  return NULL;
}

// Waits until the next start is due. False: there will be none.
static bool await_restart(worker *self)
{
  LOCK_SCOPE(&self->lock);
  while (self->arguments == NULL && self->state != WORKER_STOPPED)
    pthread_cond_wait(&self->changed, &self->lock);
  while (self->state == WORKER_DOWN && clock_monotonic_ns() < self->retry_ns)
    thread_wait(&self->changed, &self->lock, self->retry_ns);
  if (self->state == WORKER_STOPPED)
    return false;
  worker_set_state(self, WORKER_STARTING);
  return true;
}

// Starts the next worker, and the thread that initializes it while this thread serves its calls. A
// start that fails counts as an end.
static bool revive(worker *self, pthread_t *starter)
{
  while (await_restart(self)) {
    TRITONSERVER_Error *error = spawn(self);
    if (error == NULL && thread_create(starter, "py starter", bring_up, self) == 0)
      return true;
    if (error != NULL)
      process_ended(self, strdup(TRITONSERVER_ErrorMessage(error)));
    TRITONSERVER_ErrorDelete(error);
    reap(self);
    let_go(self);
  }
  return false;
}

// ---- the listener

static void serve_calls(worker *self, worker_link *link)
{
  channel_message call;
  for (;;) {
    bool others = self->events->has_calls(self->user); // before flushing what they left
    int64_t timeout_us = worker_link_flush(link) ? REPLIES_RETRY_US : others ? REPLIES_LOOK_US : -1;
    switch (channel_receive(link->channel, CHANNEL_CALLS, timeout_us, &call)) {
    case CHANNEL_MESSAGE:
      self->events->call(self->user, link, &call);
      channel_done(link->channel, CHANNEL_CALLS);
      break;
    case CHANNEL_TIMEOUT:
      break;
    case CHANNEL_CLOSED:
    case CHANNEL_BROKEN:
      return;
    }
  }
}

// Runs until the channel is closed.
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
  worker *self = calloc(1, sizeof(*self));
  if (self == NULL || (self->own_names[0] = strdup(name)) == NULL) {
    free(self);
    return NULL;
  }
  self->settings = settings;
  self->events = events;
  self->user = user;
  self->quiet_timer = -1;
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
  cleanup_close(&self->quiet_timer);
  free(self->start_failure);
  free(self->cause);
  free(self->arguments);
  free(self->own_names[0]);
  free(self->own_names[1]);
  free(self);
}

// Starts the process and the listener, which inherit this thread's processors and memory policy.
static TRITONSERVER_Error *start(worker *self)
{
  self->quiet_timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  if (self->quiet_timer < 0)
    return backend_error_unavailable("cannot make a timer: %s", strerror(errno));
  BACKEND_RETURN_IF_ERROR(spawn(self));
  int failure = thread_create(&self->listener, "py listener", listen_for_calls, self);
  if (failure == 0)
    return NULL;
  reap(self);
  return backend_error_unavailable("cannot start a thread: %s", strerror(failure));
}

TRITONSERVER_Error *worker_start(worker *self)
{
  TRITONSERVER_Error *error = start(self);
  if (error != NULL) {
    process_ended(self, NULL);
    let_go(self);
    return error;
  }
  error = worker_greet(self);
  if (error != NULL)
    worker_stop(self);
  return error;
}

TRITONSERVER_Error *worker_initialize(worker *self, const char *name, const char *arguments)
{
  assert(self->own_names[1] == NULL);
  AUTO_FREE char *own_arguments = strdup(arguments);
  self->own_names[1] = strdup(name);
  if (own_arguments == NULL || self->own_names[1] == NULL)
    return backend_error_no_memory("a Python worker");
  atomic_store(&self->name, self->own_names[1]);
  BACKEND_RETURN_IF_ERROR(worker_ask_initialize(self, arguments));
  LOCK_SCOPE(&self->lock);
  self->arguments = own_arguments;
  own_arguments = NULL;
  become_ready_locked(self);
  pthread_cond_broadcast(&self->changed);
  return NULL;
}

void worker_stop(worker *self)
{
  pthread_mutex_lock(&self->lock);
  bool finalizes = self->state == WORKER_READY;
  worker_set_state(self, WORKER_STOPPED);
  pthread_mutex_unlock(&self->lock);
  bool ends = finalizes && worker_ask_finalize(self);
  uint64_t deadline = worker_deadline(self->settings->timeout_s);
  pthread_mutex_lock(&self->lock);
  while (ends && self->ended < self->number && thread_wait(&self->changed, &self->lock, deadline))
    ;
  worker_kill_locked(self); // if it has not ended by itself
  pthread_mutex_unlock(&self->lock);
  pthread_join(self->listener, NULL);
}

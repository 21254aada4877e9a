// The life of a worker: its start, its end, the next one. See worker.h.
#include "process/worker_internal.h"

#include "backend_batch.h"
#include "backend_error.h"
#include "backend_log.h"
#include "base/thread.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
  REPLIES_RETRY_US = 1000, // while the worker's ring of replies is full
  REPLIES_LOOK_US = 20000  // while others may find it full
};

// ---- parts

bool worker_is_here(const worker *self)
{
  worker_placement here;
  worker_placement_get(&here);
  return worker_placement_equal(&self->placement, &here);
}

const char *worker_name(const worker *self)
{
  return atomic_load(&self->name);
}

NEREID_LogSubject worker_log_subject(const worker *self)
{
  return (NEREID_LogSubject){.model = self->settings->model,
                             .version = (int64_t)self->settings->version,
                             .instance = worker_name(self)};
}

void worker_set_state(worker *self, worker_state state)
{
  static const unsigned before[] = {
      // each state's, as bits
      [WORKER_STARTING] = 1 << WORKER_DOWN,
      [WORKER_READY] = 1 << WORKER_STARTING,
      [WORKER_DOWN] = 1 << WORKER_STARTING | 1 << WORKER_READY,
      [WORKER_STOPPED] = 1 << WORKER_STARTING | 1 << WORKER_READY | 1 << WORKER_DOWN};
  assert((before[state] & 1u << self->state) != 0);
  self->state = state;
  pthread_cond_broadcast(&self->changed);
}

worker_link *worker_current_link(worker *self)
{
  pthread_mutex_lock(&self->lock);
  worker_link *link = self->link == NULL ? NULL : worker_link_ref(self->link);
  pthread_mutex_unlock(&self->lock);
  return link;
}

// ---- the end of a worker; the lock is held where a function's name ends in _locked

static void kill_locked(worker *self)
{
  if (self->process != NULL)
    supervised_kill(self->process);
}

static TRITONSERVER_Error *gone_locked(const worker *self)
{
  bool often = self->death_count >= DEATHS_MANY;
  return backend_error(
      often ? TRITONSERVER_ERROR_UNAVAILABLE : TRITONSERVER_ERROR_INTERNAL,
      "Stub process '%s' is not healthy. The Python worker of model '%s' ended: %s",
      worker_name(self), self->settings->model,
      self->cause == NULL ? "it is not known how" : self->cause);
}

static bool has_ended_locked(const worker *self, const worker_link *link)
{
  return link == NULL || self->link != link || self->ended >= self->number;
}

TRITONSERVER_Error *worker_why_gone(worker *self, worker_link *link)
{
  uint64_t deadline = backend_now_ns() + (uint64_t)START_WAIT_S * NS_PER_S;
  pthread_mutex_lock(&self->lock);
  if (!has_ended_locked(self, link))
    kill_locked(self); // who breaks the rings cannot be talked to any more
  while (!has_ended_locked(self, link))
    if (!thread_wait(&self->changed, &self->lock, deadline))
      break;
  TRITONSERVER_Error *error = gone_locked(self);
  pthread_mutex_unlock(&self->lock);
  return error;
}

TRITONSERVER_Error *worker_gone_already(worker *self, worker_link *link)
{
  TRITONSERVER_Error *error = NULL;
  pthread_mutex_lock(&self->lock);
  if (has_ended_locked(self, link))
    error = gone_locked(self);
  else
    kill_locked(self);
  pthread_mutex_unlock(&self->lock);
  return error;
}

// How many of the last ends were lately, and the pause before the next start: none, 1, 2, 4 … s.
static unsigned count_death_locked(worker *self)
{
  uint64_t now = backend_now_ns(), window = (uint64_t)DEATHS_WINDOW_S * NS_PER_S;
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
  kill_locked(self);
  while (self->ended < self->number)
    pthread_cond_wait(&self->changed, &self->lock);
  bool goes_on = self->arguments != NULL && self->state != WORKER_STOPPED;
  unsigned pause = goes_on ? count_death_locked(self) : 0;
  TRITONSERVER_Error *error = gone_locked(self);
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
    self->ready_ns = backend_now_ns();
  }
  if (error != NULL && self->ended < self->number) {
    self->start_failure = strdup(TRITONSERVER_ErrorMessage(error));
    kill_locked(self);
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
  while (self->state == WORKER_DOWN && backend_now_ns() < self->retry_ns)
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
    TRITONSERVER_Error *error = worker_spawn(self);
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
  BACKEND_RETURN_IF_ERROR(worker_spawn(self));
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
      self->ready_ns = backend_now_ns();
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
  uint64_t deadline = backend_now_ns() + (uint64_t)self->settings->timeout_s * NS_PER_S;
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
    kill_locked(self);
  pthread_mutex_unlock(&self->lock);
  if (finalizes) {
    worker_link *link = worker_current_link(self);
    if (link != NULL) {
      worker_ask_finalize(self, link);
      await_exit(self);
    }
    worker_link_unref(link);
    pthread_mutex_lock(&self->lock);
    kill_locked(self);
    pthread_mutex_unlock(&self->lock);
  }
  pthread_join(self->listener, NULL);
}

// ---- the slot

bool worker_acquire_slot_locked(worker *self, uint64_t deadline_ns)
{
  self->waiting++;
  while (self->slot_users > 0 && thread_wait(&self->changed, &self->lock, deadline_ns))
    ;
  self->waiting--;
  if (self->slot_users > 0)
    return false;
  self->slot_users = 1;
  return true;
}

void worker_release_slot_locked(worker *self)
{
  assert(self->slot_users > 0);
  self->slot_users--;
  if (self->waiting > 0 && self->slot_users == 0)
    pthread_cond_broadcast(&self->changed);
}

void worker_note_call(worker *self, bool is_of_model)
{
  pthread_mutex_lock(&self->lock);
  self->calls_models = self->calls_models || is_of_model;
  if (self->waiting > 0)
    pthread_cond_broadcast(&self->changed);
  pthread_mutex_unlock(&self->lock);
}

static void await_ready_locked(worker *self)
{
  uint64_t deadline = backend_now_ns() + (uint64_t)START_WAIT_S * NS_PER_S;
  while (self->state == WORKER_STARTING ||
         (self->state == WORKER_DOWN && self->retry_ns <= backend_now_ns()))
    if (self->death_count >= DEATHS_MANY || !thread_wait(&self->changed, &self->lock, deadline))
      return;
}

TRITONSERVER_Error *worker_acquire_slot(worker *self, worker_link **link)
{
  TRITONSERVER_Error *error = NULL;
  pthread_mutex_lock(&self->lock);
  while (!worker_acquire_slot_locked(self, backend_now_ns() + (uint64_t)PAUSE_MOST_S * NS_PER_S))
    ;
  await_ready_locked(self);
  if (self->state == WORKER_READY) {
    *link = worker_link_ref(self->link);
  } else {
    error = gone_locked(self);
    worker_release_slot_locked(self);
  }
  pthread_mutex_unlock(&self->lock);
  return error;
}

bool worker_try_acquire_slot(worker *self, worker_link **link)
{
  pthread_mutex_lock(&self->lock);
  bool acquired = self->state == WORKER_READY && self->slot_users == 0 && self->waiting == 0;
  if (acquired) {
    self->slot_users = 1;
    *link = worker_link_ref(self->link);
  }
  pthread_mutex_unlock(&self->lock);
  return acquired;
}

static bool may_share_locked(const worker *self, const worker_link *link)
{
  return self->link == link && self->state == WORKER_READY && self->slot_users > 0 &&
         self->waiting == 0 && !self->calls_models;
}

bool worker_may_share_slot(worker *self, const worker_link *link)
{
  pthread_mutex_lock(&self->lock);
  bool may = may_share_locked(self, link);
  pthread_mutex_unlock(&self->lock);
  return may;
}

bool worker_share_slot(worker *self, worker_link *link)
{
  pthread_mutex_lock(&self->lock);
  bool shared = may_share_locked(self, link);
  if (shared) {
    self->slot_users++;
    worker_link_ref(link);
  }
  pthread_mutex_unlock(&self->lock);
  return shared;
}

void worker_release_slot(worker *self, worker_link *link)
{
  worker_link_unref(link);
  pthread_mutex_lock(&self->lock);
  worker_release_slot_locked(self);
  pthread_mutex_unlock(&self->lock);
}

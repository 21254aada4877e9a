// The life of a worker: its start, its end, the next one. See worker_keeper.h.
#include "process/keeper_internal.h"

#include "backend_batch.h"
#include "backend_error.h"
#include "backend_log.h"
#include "base/thread.h"
#include "instance/worker_calls.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
  REPLIES_RETRY_US = 1000, // while the worker's ring of replies is full
  REPLIES_LOOK_US = 20000  // while others may find it full
};

// ---- parts

bool worker_keeper_is_here(const worker_keeper *self)
{
  worker_placement here;
  worker_placement_get(&here);
  return worker_placement_equal(&self->place, &here);
}

const char *worker_keeper_name(const worker_keeper *self)
{
  return atomic_load(&self->name);
}

const python_model *worker_keeper_model(const worker_keeper *self)
{
  return self->model;
}

TRITONBACKEND_ModelInstance *worker_keeper_instance(const worker_keeper *self)
{
  return self->instance;
}

const char *worker_keeper_host_policy(const worker_keeper *self)
{
  return self->host_policy;
}

NEREID_LogSubject worker_keeper_log_subject(const worker_keeper *self)
{
  return (NEREID_LogSubject){.model = self->model->name,
                             .version = (int64_t)self->model->version,
                             .instance = worker_keeper_name(self)};
}

request_table *worker_keeper_requests(worker_keeper *self)
{
  return &self->requests;
}

circle_member *worker_keeper_member(worker_keeper *self)
{
  return &self->member;
}

aside_list *worker_keeper_aside(worker_keeper *self)
{
  return &self->aside;
}

worker_link *keeper_link(worker_keeper *self)
{
  pthread_mutex_lock(&self->lock);
  worker_link *link = self->link == NULL ? NULL : worker_link_ref(self->link);
  pthread_mutex_unlock(&self->lock);
  return link;
}

// ---- the end of a worker; the lock is held where a function's name ends in _locked

static void kill_locked(worker_keeper *self)
{
  if (self->process != NULL)
    supervised_kill(self->process);
}

static TRITONSERVER_Error *gone_locked(const worker_keeper *self)
{
  bool often = self->death_count >= DEATHS_MANY;
  return backend_error(
      often ? TRITONSERVER_ERROR_UNAVAILABLE : TRITONSERVER_ERROR_INTERNAL,
      "Stub process '%s' is not healthy. The Python worker of model '%s' ended: %s",
      worker_keeper_name(self), self->model->name,
      self->cause == NULL ? "it is not known how" : self->cause);
}

static bool has_ended_locked(const worker_keeper *self, const worker_link *link)
{
  return link == NULL || self->link != link || self->ended >= self->number;
}

TRITONSERVER_Error *worker_keeper_why_gone(worker_keeper *self, worker_link *link)
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

TRITONSERVER_Error *keeper_gone_already(worker_keeper *self, worker_link *link)
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
static unsigned count_death_locked(worker_keeper *self)
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
static void tell_of_death(const worker_keeper *self, unsigned pause)
{
  const NEREID_LogSubject about = worker_keeper_log_subject(self);
  BACKEND_LOG_ERROR_ABOUT(
      &about,
      "model '%s', instance '%s': the Python worker ended: %s; the next one starts "
      "in %u s",
      self->model->name, worker_keeper_name(self),
      self->cause == NULL ? "it is not known how" : self->cause, pause);
}

static void fail_open_requests(worker_keeper *self, TRITONSERVER_Error *error)
{
  uint32_t from = 0;
  uint64_t handle;
  open_request request;
  while (request_table_begin_next(&self->requests, &from, &handle, &request)) {
    request_table_end(&self->requests, handle, true);
    worker_call_fail(self, &request, error);
  }
}

// After the channel was closed: waits until the process is gone, and answers what is open.
static void bury(worker_keeper *self)
{
  pthread_mutex_lock(&self->lock);
  channel_close(worker_link_channel(self->link));
  kill_locked(self);
  while (self->ended < self->number)
    pthread_cond_wait(&self->changed, &self->lock);
  bool goes_on = self->arguments != NULL && self->state != KEEPER_STOPPED;
  unsigned pause = goes_on ? count_death_locked(self) : 0;
  TRITONSERVER_Error *error = gone_locked(self);
  pthread_cond_broadcast(&self->changed);
  pthread_mutex_unlock(&self->lock);
  if (goes_on)
    tell_of_death(self, pause);
  error = worker_call_explain(self, error);
  aside_fail_all(self, error);
  fail_open_requests(self, error);
  TRITONSERVER_ErrorDelete(error);
}

// After that, when no other thread talks to it any more.
static void let_go(worker_keeper *self)
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
  worker_keeper *self = argument;
  worker_link *link = keeper_link(self);
  TRITONSERVER_Error *error = keeper_greet(self, link, worker_keeper_name(self));
  if (error == NULL)
    error = keeper_initialize(self, link, worker_keeper_name(self), self->arguments);
  worker_link_unref(link);
  pthread_mutex_lock(&self->lock);
  assert(self->state != KEEPER_READY); // nobody else makes it so
  if (error == NULL && self->state == KEEPER_STARTING) {
    self->state = KEEPER_READY;
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
static bool await_turn(worker_keeper *self)
{
  pthread_mutex_lock(&self->lock);
  while (self->arguments == NULL && self->state != KEEPER_STOPPED)
    pthread_cond_wait(&self->changed, &self->lock);
  while (self->state == KEEPER_DOWN && backend_now_ns() < self->retry_ns)
    thread_wait(&self->changed, &self->lock, self->retry_ns);
  bool wanted = self->state != KEEPER_STOPPED;
  if (wanted)
    self->state = KEEPER_STARTING;
  pthread_mutex_unlock(&self->lock);
  return wanted;
}

// A start that failed is an end like others.
static void note_failed_start(worker_keeper *self, TRITONSERVER_Error *error_owned)
{
  pthread_mutex_lock(&self->lock);
  free(self->cause);
  self->cause = strdup(TRITONSERVER_ErrorMessage(error_owned));
  if (self->state != KEEPER_STOPPED)
    self->state = KEEPER_DOWN;
  unsigned pause = count_death_locked(self);
  pthread_cond_broadcast(&self->changed);
  pthread_mutex_unlock(&self->lock);
  tell_of_death(self, pause);
  TRITONSERVER_ErrorDelete(error_owned);
}

// Starts the next worker, and the thread that talks to it while this one serves its calls.
static bool revive(worker_keeper *self, pthread_t *starter)
{
  while (await_turn(self)) {
    TRITONSERVER_Error *error = keeper_spawn(self);
    if (error != NULL) {
      note_failed_start(self, error);
      continue;
    }
    if (thread_create(starter, "py starter", bring_up, self) == 0)
      return true;
    bury(self);
    let_go(self);
  }
  return false;
}

// ---- the listener

static void serve_calls(worker_keeper *self, calls *of_model, worker_link *link)
{
  channel *channel = worker_link_channel(link);
  channel_message call;
  for (;;) {
    bool others = calls_are_under_way(of_model); // before the look at what they left
    int64_t timeout_us = worker_link_flush(link) ? REPLIES_RETRY_US : others ? REPLIES_LOOK_US : -1;
    switch (channel_receive(channel, CHANNEL_CALLS, timeout_us, &call)) {
    case CHANNEL_MESSAGE:
      worker_call_take(self, of_model, link, &call);
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
static void serve(worker_keeper *self)
{
  worker_link *link = keeper_link(self);
  calls *of_model;
  TRITONSERVER_Error *error = calls_new(self->model->server, &self->model->backend->calls,
                                        worker_keeper_name(self), link, &self->member, &of_model);
  if (error == NULL) {
    aside_open(&self->aside, link);
    serve_calls(self, of_model, link);
    calls_end(of_model);
  }
  backend_error_log(error, "serve the calls of a Python worker");
  worker_link_unref(link);
}

static void *listen_for_calls(void *argument)
{
  worker_keeper *self = argument;
  pthread_t starter;
  bool has_starter = false;
  do {
    serve(self);
    bury(self);
    if (has_starter)
      pthread_join(starter, NULL);
    let_go(self);
    has_starter = revive(self, &starter);
  } while (has_starter);
  return NULL;
}

// ---- life

static void free_keeper(worker_keeper *self)
{
  circle_part(&self->member);
  aside_fini(&self->aside);
  request_table_fini(&self->requests);
  pthread_mutex_destroy(&self->lock);
  pthread_cond_destroy(&self->changed);
  free(self->start_failure);
  free(self->cause);
  free(self->arguments);
  free(self->host_policy);
  free(self->own_names[0]);
  free(self->own_names[1]);
  free(self);
}

static worker_keeper *new_keeper(const python_model *model, const char *name)
{
  worker_keeper *self = calloc(1, sizeof *self);
  if (self == NULL)
    return NULL;
  self->model = model;
  self->socket = -1;
  worker_placement_get(&self->place);
  request_table_init(&self->requests);
  aside_init(&self->aside);
  pthread_mutex_init(&self->lock, NULL);
  pthread_cond_init(&self->changed, NULL);
  self->own_names[0] = strdup(name);
  if (self->own_names[0] != NULL) {
    atomic_init(&self->name, self->own_names[0]);
    return self;
  }
  free_keeper(self);
  return NULL;
}

TRITONSERVER_Error *worker_keeper_start(const python_model *model, const char *name,
                                        worker_keeper **made)
{
  worker_keeper *self = new_keeper(model, name);
  if (self == NULL)
    return backend_error_no_memory("a Python worker");
  TRITONSERVER_Error *error = keeper_spawn(self);
  if (error != NULL) {
    free_keeper(self);
    return error;
  }
  int failure = thread_create(&self->listener, "py listener", listen_for_calls, self);
  if (failure != 0) {
    pthread_mutex_lock(&self->lock);
    self->state = KEEPER_STOPPED;
    pthread_mutex_unlock(&self->lock);
    bury(self);
    let_go(self);
    free_keeper(self);
    return backend_error(TRITONSERVER_ERROR_UNAVAILABLE, "cannot start a thread: %s",
                         strerror(failure));
  }
  worker_link *link = keeper_link(self);
  error = link == NULL ? worker_keeper_why_gone(self, NULL) : keeper_greet(self, link, name);
  worker_link_unref(link);
  if (error != NULL)
    worker_keeper_stop(self);
  else
    *made = self;
  return error;
}

// A passive instance gets no requests: nobody waits for it.
static TRITONSERVER_Error *join_circle(worker_keeper *self)
{
  bool passive;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceIsPassive(self->instance, &passive));
  if (!passive)
    circle_join(&self->member, self->model);
  return NULL;
}

TRITONSERVER_Error *worker_keeper_initialize(worker_keeper *self,
                                             TRITONBACKEND_ModelInstance *instance,
                                             const char *name, const char *arguments)
{
  char *own_name = strdup(name), *own_arguments = strdup(arguments);
  worker_link *link = keeper_link(self);
  TRITONSERVER_Error *error = NULL;
  if (own_name == NULL || own_arguments == NULL)
    error = backend_error_no_memory("a Python worker");
  else if (link == NULL)
    error = worker_keeper_why_gone(self, NULL);
  if (error == NULL)
    error = backend_host_policy(instance, &self->host_policy);
  if (error == NULL) {
    self->own_names[1] = own_name;
    self->instance = instance;
    atomic_store(&self->name, own_name);
    own_name = NULL;
    error = keeper_initialize(self, link, name, arguments);
  }
  worker_link_unref(link);
  if (error == NULL)
    error = join_circle(self);
  if (error == NULL) {
    pthread_mutex_lock(&self->lock);
    self->arguments = own_arguments;
    own_arguments = NULL;
    if (self->ended < self->number) {
      self->state = KEEPER_READY;
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
static void await_exit(worker_keeper *self)
{
  uint64_t deadline = backend_now_ns() + (uint64_t)self->model->backend->timeout_s * NS_PER_S;
  pthread_mutex_lock(&self->lock);
  while (self->ended < self->number)
    if (!thread_wait(&self->changed, &self->lock, deadline))
      break;
  pthread_mutex_unlock(&self->lock);
}

void worker_keeper_stop(worker_keeper *self)
{
  if (self == NULL)
    return;
  pthread_mutex_lock(&self->lock);
  bool finalizes = self->state == KEEPER_READY;
  self->state = KEEPER_STOPPED;
  pthread_cond_broadcast(&self->changed);
  if (!finalizes)
    kill_locked(self);
  pthread_mutex_unlock(&self->lock);
  if (finalizes) {
    worker_link *link = keeper_link(self);
    if (link != NULL) {
      keeper_finalize(self, link);
      await_exit(self);
    }
    worker_link_unref(link);
    pthread_mutex_lock(&self->lock);
    kill_locked(self);
    pthread_mutex_unlock(&self->lock);
  }
  pthread_join(self->listener, NULL);
  free_keeper(self);
}

// ---- work

bool keeper_take_turn_locked(worker_keeper *self, uint64_t deadline_ns)
{
  self->waiting++;
  while (self->working > 0 && thread_wait(&self->changed, &self->lock, deadline_ns))
    ;
  self->waiting--;
  if (self->working > 0)
    return false;
  self->working = 1;
  return true;
}

void keeper_end_turn_locked(worker_keeper *self)
{
  assert(self->working > 0);
  self->working--;
  if (self->waiting > 0 && self->working == 0)
    pthread_cond_broadcast(&self->changed);
}

void worker_keeper_note_wait(worker_keeper *self, bool calls_model)
{
  pthread_mutex_lock(&self->lock);
  self->calls_models = self->calls_models || calls_model;
  if (self->waiting > 0)
    pthread_cond_broadcast(&self->changed);
  pthread_mutex_unlock(&self->lock);
}

static void await_ready_locked(worker_keeper *self)
{
  uint64_t deadline = backend_now_ns() + (uint64_t)START_WAIT_S * NS_PER_S;
  while (self->state == KEEPER_STARTING ||
         (self->state == KEEPER_DOWN && self->retry_ns <= backend_now_ns()))
    if (self->death_count >= DEATHS_MANY || !thread_wait(&self->changed, &self->lock, deadline))
      return;
}

TRITONSERVER_Error *worker_keeper_begin_work(worker_keeper *self, worker_link **link)
{
  TRITONSERVER_Error *error = NULL;
  pthread_mutex_lock(&self->lock);
  while (!keeper_take_turn_locked(self, backend_now_ns() + (uint64_t)PAUSE_MOST_S * NS_PER_S))
    ;
  await_ready_locked(self);
  if (self->state == KEEPER_READY) {
    *link = worker_link_ref(self->link);
  } else {
    error = gone_locked(self);
    keeper_end_turn_locked(self);
  }
  pthread_mutex_unlock(&self->lock);
  return error;
}

bool worker_keeper_try_begin_work(worker_keeper *self, worker_link **link)
{
  pthread_mutex_lock(&self->lock);
  bool begun = self->state == KEEPER_READY && self->working == 0 && self->waiting == 0;
  if (begun) {
    self->working = 1;
    *link = worker_link_ref(self->link);
  }
  pthread_mutex_unlock(&self->lock);
  return begun;
}

static bool may_join_locked(const worker_keeper *self, const worker_link *link)
{
  return self->link == link && self->state == KEEPER_READY && self->working > 0 &&
         self->waiting == 0 && !self->calls_models;
}

bool worker_keeper_may_join(worker_keeper *self, const worker_link *link)
{
  pthread_mutex_lock(&self->lock);
  bool may = may_join_locked(self, link);
  pthread_mutex_unlock(&self->lock);
  return may;
}

bool worker_keeper_join_work(worker_keeper *self, worker_link *link)
{
  pthread_mutex_lock(&self->lock);
  bool joined = may_join_locked(self, link);
  if (joined) {
    self->working++;
    worker_link_ref(link);
  }
  pthread_mutex_unlock(&self->lock);
  return joined;
}

execution_queue *worker_keeper_begun(worker_keeper *self)
{
  return &self->begun;
}

_Atomic uint64_t *worker_keeper_ewma_ns(worker_keeper *self)
{
  return &self->ewma_ns;
}

void worker_keeper_end_work(worker_keeper *self, worker_link *link)
{
  worker_link_unref(link);
  pthread_mutex_lock(&self->lock);
  keeper_end_turn_locked(self);
  pthread_mutex_unlock(&self->lock);
}

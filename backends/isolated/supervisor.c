// SPDX-License-Identifier: Apache-2.0
// The life of a model's processes, one after another.
#include "supervisor.h"

#include "backend_error.h"
#include "backend_log.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/state.h"
#include "base/thread.h"
#include "events.h"
#include "process_memory.h"

#include "nereid/nereid.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>

#define START_WAIT_S   30         // of an execution, for a starting process
#define REPLACE_WAIT_S 30         // of a process to be replaced, for its requests
#define STEADY_S       60         // a process that lived this long resets the count of failures
#define PAUSE_MOST_S   30         // between a failure and the next start
#define QUIET_MS       2000       // without executions, before idle memory is given back
#define WATCH_MS       200        // between two checks of a limited process's memory
#define KEPT_BYTES     (16 << 20) // of idle memory

#define NS_PER_S UINT64_C(1000000000)

typedef enum supervisor_state {
  SUPERVISOR_STARTING,
  SUPERVISOR_READY,
  SUPERVISOR_REPLACING, // its last executions run
  SUPERVISOR_DOWN,      // until the next start
  SUPERVISOR_STOPPED
} supervisor_state;

typedef struct known_instance {
  char *name;                            // owned
  TRITONBACKEND_ModelInstance *instance; // NULL: gone, because the model is being unloaded
} known_instance;

struct supervisor {
  child_settings settings;
  uint64_t memory_limit;
  TRITONSERVER_Message *description;
  TRITONSERVER_Message *config;
  char *arguments[3];
  char *completed; // the first process's configuration
  int timer;
  pthread_t thread;
  _Atomic bool touched; // executed since the timer expired
  pthread_mutex_t lock; // guards all below
  pthread_cond_t changed;
  supervisor_state state;
  isolated_child *child; // NULL: none
  uint64_t lives;        // number of this process, or of the last one
  known_instance *instances;
  uint32_t instance_count;
  char *failure;     // why the last one ended
  unsigned failures; // in a row
  uint64_t started_ns, retry_ns, replace_ns;
};

static void set_state(supervisor *self, supervisor_state to)
{
  static const unsigned allowed[] = {
      [SUPERVISOR_STARTING] =
          STATE_BIT(SUPERVISOR_READY) | STATE_BIT(SUPERVISOR_DOWN) | STATE_BIT(SUPERVISOR_STOPPED),
      [SUPERVISOR_READY] = STATE_BIT(SUPERVISOR_REPLACING) | STATE_BIT(SUPERVISOR_DOWN) |
                           STATE_BIT(SUPERVISOR_STOPPED),
      [SUPERVISOR_REPLACING] = STATE_BIT(SUPERVISOR_STARTING) | STATE_BIT(SUPERVISOR_DOWN) |
                               STATE_BIT(SUPERVISOR_STOPPED),
      [SUPERVISOR_DOWN] = STATE_BIT(SUPERVISOR_STARTING) | STATE_BIT(SUPERVISOR_STOPPED),
      [SUPERVISOR_STOPPED] = 0,
  };
  assert(lock_is_held(&self->lock));
  state_assert(allowed, self->state, to);
  self->state = to;
  pthread_cond_broadcast(&self->changed);
}

// ---- memory, on the process's thread

static void set_timer(const supervisor *self)
{
  const unsigned ms = self->memory_limit > 0 ? WATCH_MS : QUIET_MS;
  const struct itimerspec later = {
      .it_value = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000}};
  timerfd_settime(self->timer, 0, &later, NULL);
}

static void touch(supervisor *self)
{
  if (!atomic_load_explicit(&self->touched, memory_order_relaxed) &&
      !atomic_exchange(&self->touched, true) && self->memory_limit == 0)
    set_timer(self);
}

static isolated_child *current_child(supervisor *self)
{
  LOCK_SCOPE(&self->lock);
  return self->child != NULL ? child_ref(self->child) : NULL;
}

// Whether the process has no executions and no open requests left.
static bool is_idle(isolated_child *child)
{
  return atomic_load(&child->executing) == 0 && open_requests_count(&child->requests) == 0;
}

static void watch_replacement(supervisor *self, isolated_child *child)
{
  pthread_mutex_lock(&self->lock);
  bool replacing = self->child == child && self->state == SUPERVISOR_REPLACING;
  bool late = replacing && clock_monotonic_ns() >= self->replace_ns;
  pthread_mutex_unlock(&self->lock);
  if (replacing && is_idle(child))
    child_close(child);
  else if (late)
    supervisor_end_child(self, child, "it is to be replaced, and its requests do not end");
}

static void begin_replacement(supervisor *self, isolated_child *child, uint64_t bytes)
{
  pthread_mutex_lock(&self->lock);
  bool begins = self->child == child && self->state == SUPERVISOR_READY;
  if (begins) {
    set_state(self, SUPERVISOR_REPLACING);
    self->replace_ns = clock_monotonic_ns() + REPLACE_WAIT_S * NS_PER_S;
  }
  pthread_mutex_unlock(&self->lock);
  if (begins)
    BACKEND_LOG(TRITONSERVER_LOG_WARN, NULL,
                "model '%s': its process uses %llu MiB, and isolate_memory_limit is %llu MiB: it "
                "is replaced after its requests",
                self->settings.model, (unsigned long long)(bytes >> 20),
                (unsigned long long)(self->memory_limit >> 20));
}

// A process that exceeds the limit by more than a quarter is not waited for.
static void watch_memory(supervisor *self, isolated_child *child)
{
  uint64_t bytes = child_memory(child);
  if (bytes > self->memory_limit + self->memory_limit / 4)
    supervisor_end_child(self, child, "it used more than isolate_memory_limit and a quarter of it");
  else if (bytes > self->memory_limit)
    begin_replacement(self, child, bytes);
  watch_replacement(self, child);
}

static void tick(void *user)
{
  supervisor *self = user;
  bool touched = atomic_exchange(&self->touched, false);
  isolated_child *child = current_child(self);
  if (child != NULL && self->memory_limit > 0)
    watch_memory(self, child);
  else if (child != NULL && !touched)
    channel_trim(child->channel, KEPT_BYTES);
  child_unref(child);
  if (touched || self->memory_limit > 0)
    set_timer(self);
}

// ---- the end of a process

void supervisor_end_child(supervisor *self, isolated_child *child, const char *why)
{
  BACKEND_LOG_ERROR("model '%s': its process is ended: %s", self->settings.model, why);
  child_kill(child);
}

static void fail_requests(isolated_child *child)
{
  TRITONSERVER_Error *error = child_why_gone(child, TRITONSERVER_ERROR_INTERNAL);
  open_request *r;
  open_requests_close(&child->requests);
  while ((r = open_requests_take_any(&child->requests)) != NULL) {
    events_fail_request(child, r, error);
    open_requests_give_back(&child->requests, r);
  }
  TRITONSERVER_ErrorDelete(error);
}

// A process has ended by itself, or the next one failed to start.
static void count_failure(supervisor *self, const char *why)
{
  uint64_t now = clock_monotonic_ns();
  pthread_mutex_lock(&self->lock);
  if (self->started_ns != 0 && now - self->started_ns >= STEADY_S * NS_PER_S)
    self->failures = 0;
  unsigned failures = self->failures++;
  unsigned pause = failures == 0 ? 0 : failures > 5 ? PAUSE_MOST_S : 1u << (failures - 1);
  self->retry_ns = now + pause * NS_PER_S;
  free(self->failure);
  self->failure = strdup(why);
  bool goes_on = self->state != SUPERVISOR_STOPPED;
  if (goes_on)
    set_state(self, SUPERVISOR_DOWN);
  pthread_mutex_unlock(&self->lock);
  if (goes_on)
    BACKEND_LOG_ERROR("%s; the next one starts in %u s", why, pause);
}

// Runs after the channel was closed: the process has ended, is to be replaced, or is stopped.
static void let_go(supervisor *self)
{
  pthread_mutex_lock(&self->lock);
  isolated_child *child = self->child;
  bool failed =
      self->state == SUPERVISOR_READY || (self->state == SUPERVISOR_REPLACING && !is_idle(child));
  self->child = NULL;
  pthread_mutex_unlock(&self->lock);
  child_kill(child);
  child_await_end(child);
  fail_requests(child);
  if (failed) {
    TRITONSERVER_Error *why = child_why_gone(child, TRITONSERVER_ERROR_INTERNAL);
    count_failure(self, TRITONSERVER_ErrorMessage(why));
    TRITONSERVER_ErrorDelete(why);
  }
  child_unref(child);
}

// ---- the next process

// False: no more instances. The load may still add some while a process ends.
static bool instance_at(supervisor *self, uint32_t index, known_instance *known)
{
  LOCK_SCOPE(&self->lock);
  if (index == self->instance_count)
    return false;
  *known = self->instances[index];
  return true;
}

// The configuration must still be the loaded one, because the server has that.
static TRITONSERVER_Error *start_child(supervisor *self, isolated_child **child)
{
  AUTO_FREE char *completed = NULL;
  BACKEND_RETURN_IF_ERROR(child_start(&self->settings, self->timer, child, &completed));
  TRITONSERVER_Error *error =
      strcmp(completed, self->completed) == 0
          ? NULL
          : backend_error_internal("model '%s' is not the one on the disk any more: it must be "
                                   "loaded again before it can have another process",
                                   self->settings.model);
  known_instance known;
  for (uint32_t i = 0; error == NULL && instance_at(self, i, &known); i++)
    error = child_attach(*child, known.name, known.instance);
  if (error == NULL)
    return NULL;
  child_kill(*child);
  child_await_end(*child);
  child_unref(*child);
  return error;
}

static bool await_start(supervisor *self)
{
  LOCK_SCOPE(&self->lock);
  while (self->state == SUPERVISOR_DOWN && clock_monotonic_ns() < self->retry_ns)
    thread_wait(&self->changed, &self->lock, self->retry_ns);
  if (self->state == SUPERVISOR_STOPPED)
    return false;
  set_state(self, SUPERVISOR_STARTING);
  return true;
}

static bool revive(supervisor *self)
{
  while (await_start(self)) {
    isolated_child *child;
    TRITONSERVER_Error *error = start_child(self, &child);
    if (error != NULL) {
      count_failure(self, TRITONSERVER_ErrorMessage(error));
      TRITONSERVER_ErrorDelete(error);
      continue;
    }
    LOCK_SCOPE(&self->lock);
    self->child = child;
    child->life = ++self->lives;
    self->started_ns = clock_monotonic_ns();
    for (uint32_t i = 0; i < self->instance_count; i++)
      if (self->instances[i].instance == NULL)
        child_forget_instance(child, i);
    if (self->state == SUPERVISOR_STARTING)
      set_state(self, SUPERVISOR_READY);
    else
      child_close(child);
    return true;
  }
  return false;
}

// ---- its thread

// Runs until the channel is closed.
static void serve_calls(supervisor *self, isolated_child *child)
{
  channel_message call;
  channel_result result;
  events_copy copy = {0};
  while ((result = channel_receive(child->channel, CHANNEL_CALLS, -1, &call)) == CHANNEL_MESSAGE) {
    if (call.kind != ISOLATED_EVENTS || !events_copy_take(&copy, child, &call) ||
        !events_apply(child, &copy.reader))
      supervisor_end_child(self, child, "it said what makes no sense");
    channel_done(child->channel, CHANNEL_CALLS);
  }
  events_copy_fini(&copy);
}

static void *run(void *argument)
{
  supervisor *self = argument;
  do {
    assert(self->child != NULL);
    serve_calls(self, self->child); // only this thread changes self->child
    let_go(self);
  } while (revive(self));
  return NULL;
}

// ---- life

static void supervisor_free(supervisor *self)
{
  TRITONSERVER_MessageDelete(self->description);
  TRITONSERVER_MessageDelete(self->config);
  cleanup_close(&self->timer);
  pthread_mutex_destroy(&self->lock);
  pthread_cond_destroy(&self->changed);
  free(self->arguments[0]);
  free(self->arguments[1]);
  free(self->completed);
  for (uint32_t i = 0; i < self->instance_count; i++)
    free(self->instances[i].name);
  free(self->instances);
  free(self->failure);
  free(self);
}

static TRITONSERVER_Error *message_text(TRITONSERVER_Message *message, const char **text)
{
  size_t size;
  return TRITONSERVER_MessageSerializeToJson(message, text, &size);
}

static TRITONSERVER_Error *init(supervisor *self, const supervisor_settings *settings)
{
  child_settings *own = &self->settings;
  self->memory_limit = settings->memory_limit;
  own->keeps_sequences = settings->keeps_sequences;
  own->tick = tick;
  own->user = self;
  own->arguments = self->arguments;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelName(settings->model, &own->model));
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelVersion(settings->model, &own->version));
  BACKEND_RETURN_IF_ERROR(NEREID_ModelDescribe(settings->model, &self->description));
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelConfig(settings->model, 1, &self->config));
  BACKEND_RETURN_IF_ERROR(message_text(self->description, &own->description));
  BACKEND_RETURN_IF_ERROR(message_text(self->config, &own->config));
  self->arguments[0] = strdup(settings->program);
  self->arguments[1] = strdup(settings->library);
  if (self->arguments[0] == NULL || self->arguments[1] == NULL)
    return backend_error_no_memory("a model's process");
  self->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  if (self->timer < 0)
    return backend_error_unavailable("cannot make a timer for a model's process");
  return NULL;
}

static TRITONSERVER_Error *start(supervisor *self)
{
  BACKEND_RETURN_IF_ERROR(
      child_start(&self->settings, self->timer, &self->child, &self->completed));
  self->started_ns = clock_monotonic_ns();
  self->child->life = self->lives = 1;
  self->state = SUPERVISOR_READY;
  if (self->memory_limit > 0)
    set_timer(self);
  int failure = thread_create(&self->thread, "model calls", run, self);
  if (failure == 0)
    return NULL;
  child_kill(self->child);
  child_await_end(self->child);
  child_unref(self->child);
  return backend_error_unavailable("cannot start a thread: %s", strerror(failure));
}

TRITONSERVER_Error *supervisor_start(const supervisor_settings *settings, supervisor **started,
                                     char **completed)
{
  supervisor *self = calloc(1, sizeof(*self));
  if (self == NULL)
    return backend_error_no_memory("a model's process");
  self->timer = -1;
  pthread_mutex_init(&self->lock, NULL);
  pthread_cond_init(&self->changed, NULL);
  TRITONSERVER_Error *error = init(self, settings);
  if (error == NULL)
    error = start(self);
  if (error != NULL) {
    supervisor_free(self);
    return error;
  }
  *started = self;
  *completed = strdup(self->completed);
  if (*completed != NULL)
    return NULL;
  supervisor_stop(self);
  return backend_error_no_memory("a model's configuration");
}

void supervisor_stop(supervisor *self)
{
  if (self == NULL)
    return;
  pthread_mutex_lock(&self->lock);
  bool finalizes = self->state == SUPERVISOR_READY || self->state == SUPERVISOR_REPLACING;
  isolated_child *child = self->child != NULL ? child_ref(self->child) : NULL;
  set_state(self, SUPERVISOR_STOPPED);
  pthread_mutex_unlock(&self->lock);
  if (child != NULL && finalizes)
    child_finalize(child);
  assert(child == NULL || atomic_load(&child->executing) == 0);
  if (child != NULL)
    child_close(child);
  pthread_join(self->thread, NULL);
  child_unref(child);
  supervisor_free(self);
}

TRITONSERVER_Error *supervisor_add_instance(supervisor *self, const char *name,
                                            TRITONBACKEND_ModelInstance *instance, uint32_t *index)
{
  isolated_child *child = NULL;
  char *own_name = strdup(name);
  if (own_name == NULL)
    return backend_error_no_memory("a model instance");
  pthread_mutex_lock(&self->lock);
  known_instance *grown =
      reallocarray(self->instances, self->instance_count + 1, sizeof(*self->instances));
  if (grown != NULL) {
    self->instances = grown;
    *index = self->instance_count;
    self->instances[self->instance_count++] = (known_instance){own_name, instance};
    child = self->child != NULL ? child_ref(self->child) : NULL;
  }
  pthread_mutex_unlock(&self->lock);
  if (grown == NULL) {
    free(own_name);
    return backend_error_no_memory("a model instance");
  }
  TRITONSERVER_Error *error =
      child == NULL
          ? backend_error_internal("the process of model '%s' has ended", self->settings.model)
          : child_attach(child, name, instance);
  if (error != NULL)
    supervisor_remove_instance(self, *index);
  child_unref(child);
  return error;
}

void supervisor_remove_instance(supervisor *self, uint32_t index)
{
  pthread_mutex_lock(&self->lock);
  self->instances[index].instance = NULL;
  isolated_child *child = self->child != NULL ? child_ref(self->child) : NULL;
  pthread_mutex_unlock(&self->lock);
  if (child != NULL)
    child_forget_instance(child, index);
  child_unref(child);
}

// ---- executions

static TRITONSERVER_Error *why_not_locked(supervisor *self)
{
  assert(lock_is_held(&self->lock));
  return backend_error_unavailable("model '%s' is not ready: %s", self->settings.model,
                                   self->failure != NULL ? self->failure
                                                         : "its process is not started yet");
}

bool supervisor_enter(supervisor *self, isolated_child **child, TRITONSERVER_Error **error)
{
  uint64_t deadline = clock_monotonic_ns() + START_WAIT_S * NS_PER_S;
  LOCK_SCOPE(&self->lock);
  while (error != NULL &&
         (self->state == SUPERVISOR_STARTING || self->state == SUPERVISOR_REPLACING ||
          (self->state == SUPERVISOR_READY && self->child == NULL) || // its end is being handled
          (self->state == SUPERVISOR_DOWN && clock_monotonic_ns() >= self->retry_ns)) &&
         thread_wait(&self->changed, &self->lock, deadline))
    ;
  if (self->state != SUPERVISOR_READY || self->child == NULL) {
    if (error != NULL)
      *error = why_not_locked(self);
    return false;
  }
  *child = child_ref(self->child);
  atomic_fetch_add(&(*child)->executing, 1);
  touch(self);
  return true;
}

uint64_t supervisor_life(supervisor *self)
{
  LOCK_SCOPE(&self->lock);
  return self->state == SUPERVISOR_READY && self->child != NULL ? self->lives : self->lives + 1;
}

void supervisor_leave(isolated_child *child)
{
  uint32_t before = atomic_fetch_sub(&child->executing, 1);
  assert(before > 0);
  (void)before;
  child_unref(child);
}

// ---- questions

TRITONSERVER_Error *supervisor_check_ready(supervisor *self, uint32_t index)
{
  pthread_mutex_lock(&self->lock);
  isolated_child *child =
      self->child != NULL && self->state <= SUPERVISOR_REPLACING ? child_ref(self->child) : NULL;
  TRITONSERVER_Error *error = child == NULL ? why_not_locked(self) : NULL;
  pthread_mutex_unlock(&self->lock);
  if (error == NULL)
    error = child_check_ready(child, index);
  child_unref(child);
  return error;
}

bool supervisor_has_fault(supervisor *self, char *text, size_t size)
{
  LOCK_SCOPE(&self->lock);
  if (self->state == SUPERVISOR_READY || self->state == SUPERVISOR_REPLACING)
    return false;
  snprintf(text, size, "%s",
           self->failure != NULL ? self->failure : "the model's process is not started yet");
  return true;
}

void supervisor_forward_cancels(supervisor *self)
{
  isolated_child *child = current_child(self);
  if (child != NULL)
    child_forward_cancels(child);
  child_unref(child);
}

uint64_t supervisor_memory(supervisor *self, uint32_t index)
{
  isolated_child *child = index == 0 ? current_child(self) : NULL;
  uint64_t bytes = child == NULL ? 0 : process_memory(worker_process_id(child->process));
  child_unref(child);
  return bytes;
}

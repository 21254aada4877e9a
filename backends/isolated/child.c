// SPDX-License-Identifier: Apache-2.0
// Starts a model's process, talks to it, and notices its end.
#include "child.h"

#include "backend_config.h"
#include "backend_error.h"
#include "backend_log.h"
#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/wakeup.h"
#include "channel_descriptor.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#define READY_WAIT_US    5000000
#define FINALIZE_WAIT_US 30000000 // backends finalize for seconds
#define EXIT_WAIT_S      5

extern char **environ;

// This is only address space, so the size of the machine's memory always suffices.
static size_t region_size(void)
{
  const size_t most = (size_t)64 << 30;
  const size_t all = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
  return all < most ? all : most;
}

static TRITONSERVER_Error *new_channel(size_t size, channel **made)
{
  int failure = channel_new(size, made);
  return failure == 0 ? NULL
                      : backend_error_unavailable("cannot make a channel to a model's process: %s",
                                                  strerror(failure));
}

// ---- events on the process's thread

// The process's log lines begin with a severity like ours; other libraries' output has none.
static TRITONSERVER_LogLevel level_of(const char *text, size_t length)
{
  bool is_log = length > 6 && text[1] >= '0' && text[1] <= '9' && text[5] == ' ';
  return is_log && text[0] == 'E'   ? TRITONSERVER_LOG_ERROR
         : is_log && text[0] == 'W' ? TRITONSERVER_LOG_WARN
                                    : TRITONSERVER_LOG_INFO;
}

static void process_line(void *user, const char *text, size_t length, bool cut)
{
  const isolated_child *self = user;
  const NEREID_LogSubject about = {.model = self->settings->model,
                                   .version = (int64_t)self->settings->version};
  const char *place = memchr(text, ']', length);
  TRITONSERVER_LogLevel level = level_of(text, length);
  bool is_log = place != NULL && (size_t)(place - text) + 2 < length && length > 6 &&
                text[5] == ' ' && (text[0] == 'I' || text[0] == 'E' || text[0] == 'W');
  size_t skipped = is_log ? (size_t)(place - text) + 2 : 0;
  BACKEND_LOG(level, &about, "model '%s', its process: %.*s%s", self->settings->model,
              (int)(length - skipped), text + skipped, cut ? " [cut]" : "");
}

static void process_timer(void *user, int timer)
{
  const isolated_child *self = user;
  wakeup_take(timer);
  self->settings->tick(self->settings->user);
}

static void close_locked(isolated_child *self)
{
  assert(lock_is_held(&self->lock));
  channel_close(self->channel);
  for (uint32_t i = 0; i < self->instance_count; i++)
    channel_close(self->instances[i].ring);
}

void child_close(isolated_child *self)
{
  LOCK_SCOPE(&self->lock);
  close_locked(self);
}

static void process_ended(void *user, char *cause_owned)
{
  isolated_child *self = user;
  LOCK_SCOPE(&self->lock);
  self->ended = true;
  self->cause = cause_owned;
  close_locked(self);
  pthread_cond_broadcast(&self->changed);
}

static const process_events EVENTS = {
    .line = process_line, .timer = process_timer, .ended = process_ended};

// ---- life

static TRITONSERVER_Error *make(const child_settings *settings, int timer, isolated_child **made)
{
  isolated_child *self = calloc(1, sizeof(*self));
  if (self == NULL)
    return backend_error_no_memory("a model's process");
  TRITONSERVER_Error *error = new_channel(region_size(), &self->channel);
  if (error != NULL) {
    free(self);
    return error;
  }
  refcount_init(&self->references);
  self->settings = settings;
  self->socket = -1;
  self->timer = timer;
  open_requests_init(&self->requests);
  pthread_mutex_init(&self->question, NULL);
  pthread_mutex_init(&self->lock, NULL);
  pthread_cond_init(&self->changed, NULL);
  *made = self;
  return NULL;
}

isolated_child *child_ref(isolated_child *self)
{
  refcount_take(&self->references);
  return self;
}

void child_unref(isolated_child *self)
{
  if (self == NULL || !refcount_drop(&self->references))
    return;
  worker_process_free(self->process);
  open_requests_fini(&self->requests);
  for (uint32_t i = 0; i < self->instance_count; i++)
    channel_free(self->instances[i].ring);
  free(self->instances);
  channel_free(self->channel);
  cleanup_close(&self->socket);
  pthread_mutex_destroy(&self->question);
  pthread_mutex_destroy(&self->lock);
  pthread_cond_destroy(&self->changed);
  free(self->cause);
  free(self);
}

// If sending fails the process is killed, because it would wait for ever.
static void give_channel(const isolated_child *self, const channel *of)
{
  int failure = channel_send_descriptor(self->socket, channel_descriptor(of));
  if (failure == 0)
    return;
  BACKEND_LOG_WARN("the process of model '%s' cannot be given a channel: %s", self->settings->model,
                   strerror(failure));
  worker_process_kill(self->process);
}

static TRITONSERVER_Error *spawn(isolated_child *self)
{
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return backend_error_unavailable("cannot make a socket pair: %s", strerror(errno));
  self->socket = ends[0];
  const worker_command command = {.what = "a model's process",
                                  .thread = "model process",
                                  .kill_signal = SIGKILL,
                                  .arguments = self->settings->arguments,
                                  .environment = environ,
                                  .socket = ends[1],
                                  .connection = -1, // the process's end is noticed anyway
                                  .timer = self->timer};
  TRITONSERVER_Error *error = worker_process_start(&command, &EVENTS, self, &self->process);
  close(ends[1]);
  if (error == NULL)
    give_channel(self, self->channel);
  return error;
}

void child_kill(isolated_child *self)
{
  worker_process_kill(self->process);
}

void child_await_end(isolated_child *self)
{
  LOCK_SCOPE(&self->lock);
  while (!self->ended)
    pthread_cond_wait(&self->changed, &self->lock);
}

static bool await_end_until(isolated_child *self, uint64_t deadline)
{
  LOCK_SCOPE(&self->lock);
  while (!self->ended && thread_wait(&self->changed, &self->lock, deadline))
    ;
  return self->ended;
}

TRITONSERVER_Error *child_why_gone(isolated_child *self, TRITONSERVER_Error_Code code)
{
  LOCK_SCOPE(&self->lock);
  return backend_error(code, "the process of model '%s' ended: %s%s", self->settings->model,
                       self->cause != NULL ? self->cause
                       : self->ended       ? "it is not known how"
                                           : "it is not answering",
                       self->settings->keeps_sequences ? BACKEND_SEQUENCES_LOST : "");
}

// ---- questions

// Reads an answer's code and text, and the rest as a text, for free() unless NULL.
static TRITONSERVER_Error *read_answer(const isolated_child *self, const channel_message *message,
                                       char **rest)
{
  if (message->size > MAX_ISOLATED_CONTROL)
    return backend_error_internal("the process of model '%s' answers too much",
                                  self->settings->model);
  const void *theirs = channel_other(self->channel, message->offset, message->size);
  AUTO_FREE uint8_t *own = theirs == NULL ? NULL : malloc(message->size + 1);
  if (own == NULL)
    return backend_error_internal("the answer of the process of model '%s' cannot be read",
                                  self->settings->model);
  memcpy(own, theirs, message->size);
  wire_reader reader = {.at = own, .end = own + message->size};
  uint32_t code = wire_get_u32(&reader);
  size_t length;
  const char *text = wire_get_text(&reader, &length);
  if (reader.bad)
    return backend_error_internal("the answer of the process of model '%s' cannot be read",
                                  self->settings->model);
  if (code != 0)
    return backend_error((TRITONSERVER_Error_Code)(code - 1), "%.*s", (int)length, text);
  text = wire_get_text(&reader, &length);
  if (rest != NULL && text != NULL && (*rest = strndup(text, length)) == NULL)
    return backend_error_no_memory("a model's configuration");
  return NULL;
}

// Only the asking thread receives from the ring. Late answers to earlier questions are skipped.
static TRITONSERVER_Error *await_answer(isolated_child *self, uint64_t id, int64_t timeout_us,
                                        char **rest)
{
  assert(lock_is_held(&self->question));
  for (;;) {
    channel_message answer;
    switch (channel_receive(self->channel, CHANNEL_ANSWERS, timeout_us, &answer)) {
    case CHANNEL_MESSAGE:
      if (answer.id == id) {
        TRITONSERVER_Error *error = read_answer(self, &answer, rest);
        channel_done(self->channel, CHANNEL_ANSWERS);
        return error;
      }
      channel_done(self->channel, CHANNEL_ANSWERS);
      break;
    case CHANNEL_TIMEOUT:
      return backend_error_unavailable("the process of model '%s' does not answer",
                                       self->settings->model);
    case CHANNEL_BROKEN:
      child_kill(self);
      child_await_end(self);
      return child_why_gone(self, TRITONSERVER_ERROR_INTERNAL);
    case CHANNEL_CLOSED:
      await_end_until(self, clock_monotonic_ns() + UINT64_C(1000000000));
      return child_why_gone(self, TRITONSERVER_ERROR_INTERNAL);
    }
  }
}

static void put_text(buffer *to, const char *text)
{
  uint32_t size = (uint32_t)strlen(text) + 1;
  buffer_append(to, &size, sizeof(size));
  buffer_append(to, text, size);
}

// `texts` ends with NULL.
static TRITONSERVER_Error *ask(isolated_child *self, isolated_kind kind, uint64_t value,
                               const char *const *texts, int64_t timeout_us, char **rest)
{
  AUTO_BUFFER buffer control = BUFFER_EMPTY;
  for (; *texts != NULL; texts++)
    put_text(&control, *texts);
  channel_message message = {.kind = kind, .value = value, .size = control.size};
  LOCK_SCOPE(&self->question);
  message.id = ++self->questions;
  if (control.failed ||
      (control.size > 0 && !channel_allocate(self->channel, control.size, &message.offset)))
    return backend_error_no_memory("a question to a model's process");
  if (control.size > 0)
    memcpy(channel_own(self->channel, message.offset), control.data, control.size);
  TRITONSERVER_Error *error = channel_send(self->channel, CHANNEL_WORK, &message)
                                  ? await_answer(self, message.id, timeout_us, rest)
                                  : child_why_gone(self, TRITONSERVER_ERROR_UNAVAILABLE);
  if (control.size > 0)
    channel_release(self->channel, message.offset);
  return error;
}

static TRITONSERVER_Error *load(isolated_child *self, char **completed)
{
  const char *const texts[] = {self->settings->description, self->settings->config, NULL};
  char *answer = NULL;
  BACKEND_RETURN_IF_ERROR(ask(self, ISOLATED_LOAD, 0, texts, -1, &answer));
  if (answer == NULL || (answer[0] != '0' && answer[0] != '1')) {
    free(answer);
    return backend_error_internal("the process of model '%s' gave no configuration",
                                  self->settings->model);
  }
  self->asks_ready = answer[0] == '1';
  memmove(answer, answer + 1, strlen(answer));
  *completed = answer;
  return NULL;
}

TRITONSERVER_Error *child_start(const child_settings *settings, int timer, isolated_child **started,
                                char **completed)
{
  isolated_child *self = NULL;
  BACKEND_RETURN_IF_ERROR(make(settings, timer, &self));
  TRITONSERVER_Error *error = spawn(self);
  if (error == NULL) {
    error = load(self, completed);
    if (error != NULL) {
      child_kill(self);
      child_await_end(self);
    }
  }
  if (error != NULL)
    child_unref(self);
  else
    *started = self;
  return error;
}

TRITONSERVER_Error *child_attach(isolated_child *self, const char *name,
                                 TRITONBACKEND_ModelInstance *instance)
{
  const char *const texts[] = {name, NULL};
  channel *ring;
  BACKEND_RETURN_IF_ERROR(new_channel(1, &ring));
  pthread_mutex_lock(&self->lock);
  child_instance *grown =
      reallocarray(self->instances, self->instance_count + 1, sizeof(*self->instances));
  if (grown != NULL) {
    self->instances = grown;
    self->instances[self->instance_count++] = (child_instance){instance, ring};
    if (self->ended)
      channel_close(ring);
  }
  pthread_mutex_unlock(&self->lock);
  if (grown == NULL) {
    channel_free(ring);
    return backend_error_no_memory("an instance's channel");
  }
  give_channel(self, ring);
  return ask(self, ISOLATED_ATTACH, 0, texts, -1, NULL);
}

void child_forget_instance(isolated_child *self, uint32_t index)
{
  LOCK_SCOPE(&self->lock);
  if (index < self->instance_count)
    self->instances[index].instance = NULL;
}

channel *child_ring(isolated_child *self, uint32_t index)
{
  LOCK_SCOPE(&self->lock);
  assert(index < self->instance_count);
  return self->instances[index].ring;
}

TRITONSERVER_Error *child_check_ready(isolated_child *self, uint32_t index)
{
  const char *const none[] = {NULL};
  return self->asks_ready ? ask(self, ISOLATED_READY, index, none, READY_WAIT_US, NULL) : NULL;
}

void child_forward_cancels(isolated_child *self)
{
  channel_message message = {.kind = ISOLATED_CANCEL};
  while ((message.id = open_requests_cancelled(&self->requests)) != 0)
    if (!channel_try_send(self->channel, CHANNEL_WORK, &message)) {
      open_requests_untell(&self->requests, message.id);
      return;
    }
}

void child_give_back(isolated_child *self, open_request *r)
{
  if (open_requests_give_back(&self->requests, r))
    child_forward_cancels(self);
}

void child_finalize(isolated_child *self)
{
  const char *const none[] = {NULL};
  TRITONSERVER_Error *error = ask(self, ISOLATED_FINALIZE, 0, none, FINALIZE_WAIT_US, NULL);
  if (error != NULL)
    BACKEND_LOG_ERROR("model '%s': its process was not finalized: %s", self->settings->model,
                      TRITONSERVER_ErrorMessage(error));
  TRITONSERVER_ErrorDelete(error);
  if (!await_end_until(self, clock_monotonic_ns() + EXIT_WAIT_S * UINT64_C(1000000000)))
    child_kill(self);
  child_await_end(self);
}

uint64_t child_memory(isolated_child *self)
{
  char path[64];
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  int64_t kib;
  const char *rest;
  snprintf(path, sizeof(path), "/proc/%d/status", worker_process_id(self->process));
  AUTO_ERROR error *e = files_read_path(path, 1 << 16, &text);
  buffer_append_char(&text, '\0');
  const char *key = "\nRssAnon:", *at = e == NULL && !text.failed ? strstr(text.data, key) : NULL;
  if (at == NULL)
    return 0;
  at += strlen(key);
  at += strspn(at, " \t");
  return text_begins_int64(at, &kib, &rest) && kib > 0 ? (uint64_t)kib << 10 : 0;
}

// SPDX-License-Identifier: Apache-2.0
// Messages to a worker besides inference. Load threads, the starter, and server threads that ask
// for readiness.
#include "process/worker_rpc.h"

#include "process/worker_end.h"
#include "process/worker_parts.h"
#include "process/worker_slot.h"

#include "backend_error.h"
#include "backend_log.h"
#include "base/cleanup.h"
#include "base/string_list.h"
#include "base/thread.h"
#include "codec/protocol.h"

#include <stdio.h>
#include <string.h>

// ---- asking

uint64_t worker_next_number(worker *self)
{
  return atomic_fetch_add(&self->next_number, 1) + 1;
}

// CHANNEL_CLOSED stands for CHANNEL_BROKEN too. Skips answers that came after their timeout.
static channel_result receive_answer(worker_link *link, uint64_t id, int64_t timeout_us,
                                     channel_message *answer)
{
  uint64_t end_ns = timeout_us < 0 ? 0 : clock_monotonic_ns() + (uint64_t)timeout_us * 1000;
  int64_t left_us = timeout_us;
  for (;;) {
    channel_result result = channel_receive(link->channel, CHANNEL_ANSWERS, left_us, answer);
    if (result != CHANNEL_MESSAGE)
      return result == CHANNEL_BROKEN ? CHANNEL_CLOSED : result;
    if (answer->id == link->question)
      link->question = 0;
    if (answer->id == id)
      return result;
    channel_done(link->channel, CHANNEL_ANSWERS);
    uint64_t now = timeout_us < 0 ? 0 : clock_monotonic_ns();
    left_us = timeout_us < 0 ? -1 : now < end_ns ? (int64_t)((end_ns - now) / 1000) : 0;
  }
}

bool worker_await(worker *self, worker_link *link, uint64_t id, int64_t timeout_us,
                  channel_message *answer, TRITONSERVER_Error **error)
{
  channel_result result = receive_answer(link, id, timeout_us, answer);
  *error = result == CHANNEL_CLOSED ? worker_why_gone(self, link, timeout_us < 0) : NULL;
  return result == CHANNEL_MESSAGE || *error != NULL;
}

static TRITONSERVER_Error *unreadable(const worker *self)
{
  return backend_error_internal(
      "the Python worker of model '%s' gave an answer that cannot be read", self->settings->model);
}

// Handles an answer that refuses: the reason becomes the error, the traceback is logged.
static TRITONSERVER_Error *refusal(worker *self, wire_reader *reader)
{
  size_t reason_length, trace_length;
  const char *reason = wire_get_text(reader, &reason_length);
  const char *trace = wire_get_text(reader, &trace_length);
  if (reader->bad)
    return unreadable(self);
  if (trace_length > 0)
    BACKEND_LOG_ERROR("model '%s': %.*s", self->settings->model, (int)trace_length, trace);
  return backend_error_internal("%.*s", (int)reason_length, reason);
}

// Copies the answer and reads its first byte; the rest is left in `answer`.
static TRITONSERVER_Error *take_answer(worker *self, worker_link *link,
                                       const channel_message *message, control_part *answer)
{
  bool copied = control_part_copy(answer, link, message);
  channel_done(link->channel, CHANNEL_ANSWERS);
  if (!copied)
    return backend_error_no_memory("a Python worker's answer");
  if (wire_get_u8(&answer->reader) != 0)
    return NULL;
  TRITONSERVER_Error *error = refusal(self, &answer->reader);
  control_part_fini(answer);
  return error;
}

// Waits for the answer and copies it to `answer`; call control_part_fini() after success. `seconds`
// is the whole time limit, for texts; `timeout_us` (negative: for ever) is left of it.
static TRITONSERVER_Error *await_answer(worker *self, worker_link *link, uint64_t id,
                                        int64_t timeout_us, int64_t seconds, control_part *answer)
{
  channel_message message;
  switch (receive_answer(link, id, timeout_us, &message)) {
  case CHANNEL_MESSAGE:
    return take_answer(self, link, &message, answer);
  case CHANNEL_TIMEOUT:
    return backend_error_unavailable(
        "the Python worker of model '%s' did not answer within %lld seconds", self->settings->model,
        (long long)seconds);
  default:
    return worker_why_gone(self, link, true);
  }
}

static void put_texts(wire_writer *writer, const void *texts)
{
  for (const char *const *text = texts; *text != NULL; text++)
    wire_put_string(writer, *text);
}

// Sends `kind` with the texts (NULL: none), and waits `seconds` (0: for ever) for the answer.
// WORK_HELLO is not sent: the worker sends its answer unasked. Call control_part_fini after
// success.
static TRITONSERVER_Error *ask(worker *self, uint32_t kind, const char *const *texts,
                               int64_t seconds, control_part *answer)
{
  channel_message work = {.kind = kind, .id = kind == WORK_HELLO ? 0 : worker_next_number(self)};
  TRITONSERVER_Error *error;
  worker_link *link = worker_current_link(self);
  if (link == NULL) // it has ended
    return worker_why_gone(self, NULL, true);
  if (texts != NULL && !control_part_make(link, put_texts, texts, &work)) {
    error = backend_error_no_memory("a message to a Python worker");
  } else {
    channel *channel = link->channel;
    error = kind == WORK_HELLO || channel_send(channel, CHANNEL_WORK, &work)
                ? await_answer(self, link, work.id, seconds == 0 ? -1 : seconds * 1000000, seconds,
                               answer)
                : worker_why_gone(self, link, true);
    if (texts != NULL)
      channel_release(channel, work.offset);
  }
  worker_link_unref(link);
  return error;
}

// ---- messages

// Whether the log has not yet named this Python. Each is logged once, for all models.
static bool is_named_first(const char *path)
{
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  static string_list named;
  LOCK_SCOPE(&mutex);
  if (string_list_contains(&named, path))
    return false;
  string_list_add(&named, path);
  return true;
}

static void name_python(const worker_settings *s, const char *version, size_t length)
{
  if (is_named_first(s->interpreter))
    BACKEND_LOG_INFO("Python models run on Python %.*s at '%s'", (int)length, version,
                     s->interpreter);
  BACKEND_LOG_VERBOSE("model '%s': Python %.*s runs at '%s'", s->model, (int)length, version,
                      s->interpreter);
}

static TRITONSERVER_Error *await_hello(worker *self)
{
  control_part hello;
  int64_t seconds = self->settings->timeout_s;
  TRITONSERVER_Error *error = ask(self, WORK_HELLO, NULL, seconds, &hello);
  if (error != NULL && TRITONSERVER_ErrorCode(error) == TRITONSERVER_ERROR_UNAVAILABLE) {
    TRITONSERVER_ErrorDelete(error);
    return backend_error_unavailable("Python '%s' did not start within %lld seconds "
                                     "(--backend-config=python,stub-timeout-seconds)",
                                     self->settings->interpreter, (long long)seconds);
  }
  BACKEND_RETURN_IF_ERROR(error);
  uint32_t version = wire_get_u32(&hello.reader);
  size_t length;
  const char *python = wire_get_text(&hello.reader, &length);
  if (version != PROTOCOL_VERSION)
    error = backend_error_internal("the Python worker is of another version (%u, expected %d)",
                                   version, PROTOCOL_VERSION);
  else
    name_python(self->settings, python, length);
  control_part_fini(&hello);
  return error;
}

TRITONSERVER_Error *worker_greet(worker *self)
{
  control_part answer;
  BACKEND_RETURN_IF_ERROR(await_hello(self));
  AUTO_FREE char *load = self->settings->load_text(self->settings->load_user, worker_name(self));
  if (load == NULL)
    return backend_error_no_memory("a Python worker");
  BACKEND_RETURN_IF_ERROR(ask(self, WORK_LOAD, (const char *[]){load, NULL}, 0, &answer));
  bool has_complete = wire_get_u8(&answer.reader) != 0;
  wire_get_u8(&answer.reader); // whether execute is a coroutine function: only the worker needs it
  bool has_is_ready = wire_get_u8(&answer.reader) != 0;
  control_part_fini(&answer);
  LOCK_SCOPE(&self->lock);
  self->has_complete = has_complete;
  self->has_is_ready = has_is_ready;
  return NULL;
}

TRITONSERVER_Error *worker_complete(worker *self, const char *config, char **completed)
{
  control_part answer;
  *completed = NULL;
  if (!self->has_complete)
    return NULL;
  BACKEND_RETURN_IF_ERROR(
      ask(self, WORK_AUTO_COMPLETE, (const char *[]){config, NULL}, 0, &answer));
  size_t length;
  TRITONSERVER_Error *error = NULL;
  const char *text = wire_get_text(&answer.reader, &length);
  if (answer.reader.bad)
    error = unreadable(self);
  else if ((*completed = strndup(text, length)) == NULL)
    error = backend_error_no_memory("the completed configuration");
  control_part_fini(&answer);
  return error;
}

TRITONSERVER_Error *worker_ask_initialize(worker *self, const char *arguments)
{
  control_part answer;
  const char *const texts[] = {arguments, worker_name(self), NULL};
  BACKEND_RETURN_IF_ERROR(ask(self, WORK_INITIALIZE, texts, 0, &answer));
  control_part_fini(&answer);
  return NULL;
}

bool worker_ask_finalize(worker *self)
{
  control_part answer = {0};
  TRITONSERVER_Error *error = ask(self, WORK_FINALIZE, NULL, self->settings->timeout_s, &answer);
  bool ends = error == NULL || TRITONSERVER_ErrorCode(error) != TRITONSERVER_ERROR_UNAVAILABLE;
  backend_error_log(error, "finalize a Python model");
  control_part_fini(&answer);
  return ends;
}

// ---- readiness

// Asks nothing while the last question is unanswered, because questions would pile up in a hanging
// worker. The answer to that question serves this caller, too.
static bool send_question(worker *self, worker_link *link)
{
  channel_message work = {.kind = WORK_IS_READY, .id = worker_next_number(self)};
  if (link->question == 0 && channel_send(link->channel, CHANNEL_WORK, &work))
    link->question = work.id;
  return link->question != 0;
}

static TRITONSERVER_Error *ask_is_ready(worker *self, worker_link *link, uint64_t deadline_ns)
{
  uint64_t now = clock_monotonic_ns();
  int64_t left_us = deadline_ns > now ? (int64_t)((deadline_ns - now) / 1000) : 0;
  control_part answer;
  if (!send_question(self, link))
    return worker_why_gone(self, link, true);
  BACKEND_RETURN_IF_ERROR(await_answer(self, link, link->question, left_us, READY_WAIT_S, &answer));
  bool ready = wire_get_u8(&answer.reader) != 0;
  control_part_fini(&answer);
  if (ready)
    return NULL;
  return backend_error_unavailable("Model '%s' is not ready (user-defined check failed).",
                                   worker_name(self));
}

static TRITONSERVER_Error *unhealthy_locked(const worker *self)
{
  return backend_error_internal(
      "Stub process '%s' is not healthy.%s%s", worker_name(self),
      self->cause == NULL ? "" : " It ended: ", self->cause == NULL ? "" : self->cause);
}

static TRITONSERVER_Error *not_in_time(void)
{
  return backend_error_unavailable("Timed out waiting for in-flight is_ready() response");
}

// Whether the worker need not be asked. While one thread asks, others get the previous result, so
// that a hanging model blocks one server thread and not all of them.
static bool is_known_locked(const worker *self, TRITONSERVER_Error **error)
{
  *error = NULL;
  if (self->state != WORKER_READY)
    *error = unhealthy_locked(self);
  else if (self->has_is_ready && (self->checks == 0 || self->checked == WORKER_UNCHECKED))
    return false;
  else if (self->has_is_ready && self->checked == WORKER_CHECKED_BAD)
    *error = not_in_time();
  return true;
}

// Takes the slot. *link: the link to ask, or NULL.
static TRITONSERVER_Error *begin_check_locked(worker *self, uint64_t deadline, worker_link **link)
{
  *link = NULL;
  self->waiting++;
  while (self->slot_users > 0 && !self->events->waits(self->user) &&
         thread_wait(&self->changed, &self->lock, deadline))
    ;
  self->waiting--;
  if (self->slot_users > 0 && self->events->waits(self->user))
    return NULL; // it waits for another model's reply: it cannot be asked, but it works
  if (!worker_acquire_slot_locked(self, deadline))
    return not_in_time();
  if (self->state == WORKER_READY) {
    *link = worker_link_ref(self->link);
    return NULL;
  }
  worker_release_slot_locked(self);
  return unhealthy_locked(self);
}

void worker_ask_ready(worker *self)
{
  worker_link *link;
  pthread_mutex_lock(&self->lock);
  bool wanted = self->state == WORKER_READY && self->has_is_ready && self->checks == 0;
  if (wanted)
    self->ready_until_ns = worker_deadline(READY_WAIT_S);
  pthread_mutex_unlock(&self->lock);
  if (!wanted || !worker_try_acquire_slot(self, &link))
    return;
  send_question(self, link); // the wait for the answer reports errors
  worker_release_slot(self, link);
}

TRITONSERVER_Error *worker_check_ready(worker *self)
{
  worker_link *link = NULL;
  TRITONSERVER_Error *error;
  uint64_t deadline = worker_deadline(READY_WAIT_S);
  pthread_mutex_lock(&self->lock);
  bool known = is_known_locked(self, &error);
  if (!known) {
    self->checks++;
    deadline = self->ready_until_ns != 0 ? self->ready_until_ns : deadline;
    self->ready_until_ns = 0;
    error = begin_check_locked(self, deadline, &link);
  }
  pthread_mutex_unlock(&self->lock);
  if (known)
    return error;
  if (link != NULL) {
    error = ask_is_ready(self, link, deadline);
    worker_release_slot(self, link);
  }
  pthread_mutex_lock(&self->lock);
  self->checks--;
  self->checked = error == NULL ? WORKER_CHECKED_GOOD : WORKER_CHECKED_BAD;
  pthread_mutex_unlock(&self->lock);
  return error;
}

bool worker_has_fault(worker *self, char *text, size_t size)
{
  pthread_mutex_lock(&self->lock);
  TRITONSERVER_Error *error = self->state == WORKER_READY ? NULL : unhealthy_locked(self);
  pthread_mutex_unlock(&self->lock);
  if (error == NULL)
    return false;
  snprintf(text, size, "%s", TRITONSERVER_ErrorMessage(error));
  TRITONSERVER_ErrorDelete(error);
  return true;
}

// SPDX-License-Identifier: Apache-2.0
// A model's calls for model control. Loading, unloading and a worker's readiness may take long, so
// each call runs on a thread of its own, which replies at the end.
#include "calls/calls.h"

#include "backend_config.h"
#include "backend_error.h"
#include "base/text.h"
#include "base/thread.h"

#include <stdlib.h>
#include <string.h>

#define MAX_FILES 4096
#define MAX_CALLS 64 // per worker at a time

typedef struct model_call {
  calls *calls; // a reference
  channel_message message;
  char *model;
  char *text; // load: configuration or ""; is ready: version or ""
  TRITONSERVER_Parameter **parameters;
  uint32_t parameter_count;
  uint8_t *contents; // contents of the files, used by the parameters
} model_call;

static void model_call_free(model_call *self)
{
  for (uint32_t i = 0; i < self->parameter_count; i++)
    TRITONSERVER_ParameterDelete(self->parameters[i]);
  free(self->parameters);
  free(self->contents);
  free(self->model);
  free(self->text);
  calls_unref(self->calls);
  free(self);
}

static bool add_parameter(model_call *self, TRITONSERVER_Parameter *parameter)
{
  self->parameters[self->parameter_count] = parameter;
  self->parameter_count += parameter != NULL;
  return parameter != NULL;
}

// Copies the rest of the control part for the call's lifetime.
static bool read_load(model_call *self, wire_reader *control)
{
  const uint32_t count = wire_get_count(control, 2 * sizeof(uint32_t));
  const size_t size = (size_t)(control->end - control->at);
  if (control->bad || count > MAX_FILES)
    return false;
  self->parameters = calloc((size_t)count + 1, sizeof(*self->parameters));
  self->contents = malloc(size + 1);
  if (self->parameters == NULL || self->contents == NULL)
    return false;
  wire_reader files = {.at = memcpy(self->contents, control->at, size),
                       .end = self->contents + size};
  bool good = self->text[0] == '\0' ||
              add_parameter(self, TRITONSERVER_ParameterNew("config", TRITONSERVER_PARAMETER_STRING,
                                                            self->text));
  for (uint32_t i = 0; i < count && good; i++) {
    size_t length;
    char *path = calls_text(&files);
    const char *bytes = wire_get_text(&files, &length);
    good = !files.bad && add_parameter(self, TRITONSERVER_ParameterBytesNew(path, bytes, length));
    free(path);
  }
  return good;
}

static bool read_call(model_call *self, wire_reader *control)
{
  self->model = calls_text(control);
  if (self->message.kind != CALL_MODEL_UNLOAD)
    self->text = calls_text(control);
  return !control->bad && (self->message.kind != CALL_MODEL_LOAD || read_load(self, control));
}

static TRITONSERVER_Error *ask_readiness(const model_call *self, bool *ready)
{
  int64_t version = -1;
  const char *rest = "";
  if (self->text[0] != '\0' &&
      (!text_begins_int64(self->text, &version, &rest) || rest[0] != '\0' || version < 0))
    return backend_error_invalid("failed to get model version from specified version string '%s', "
                                 "version should be an integral value > 0",
                                 self->text);
  return TRITONSERVER_ServerModelIsReady(self->calls->server, self->model, version, ready);
}

static TRITONSERVER_Error *perform(const model_call *self, bool *ready)
{
  TRITONSERVER_Server *server = self->calls->server;
  if (self->message.kind == CALL_MODEL_IS_READY)
    return ask_readiness(self, ready);
  if (self->message.kind == CALL_MODEL_LOAD)
    return TRITONSERVER_ServerLoadModelWithParameters(
        server, self->model, (const TRITONSERVER_Parameter **)self->parameters,
        self->parameter_count);
  if ((self->message.flags & UNLOAD_DEPENDENTS) != 0)
    return TRITONSERVER_ServerUnloadModelAndDependents(server, self->model);
  return TRITONSERVER_ServerUnloadModel(server, self->model);
}

static void count_out(calls *calls)
{
  LOCK_SCOPE(&calls->lock);
  calls->model_calls--;
}

static void *run(void *argument)
{
  model_call *self = argument;
  bool ready = false;
  TRITONSERVER_Error *error = perform(self, &ready);
  if (error != NULL)
    calls_reply_error(self->calls, &self->message, error);
  else
    calls_reply(self->calls, &self->message, ready);
  count_out(self->calls);
  model_call_free(self);
  return NULL;
}

// The thread is detached; the backend's end waits for its reference.
static TRITONSERVER_Error *start_thread(model_call *self)
{
  pthread_t thread;
  calls *calls = self->calls;
  pthread_mutex_lock(&calls->lock);
  const bool room = calls->model_calls < MAX_CALLS;
  calls->model_calls += room;
  pthread_mutex_unlock(&calls->lock);
  if (!room)
    return backend_error_unavailable(
        "a model instance can have at most %d calls for model control under way", MAX_CALLS);
  int failure = thread_create(&thread, "py model call", run, self);
  if (failure == 0) {
    pthread_detach(thread);
    return NULL;
  }
  count_out(calls);
  return backend_error_unavailable("no thread for a call for model control: %s", strerror(failure));
}

void model_control_start(calls *self, const channel_message *message, wire_reader *control)
{
  model_call *call = calloc(1, sizeof(*call));
  if (call == NULL) {
    calls_reply_error(self, message, backend_error_no_memory("a call for model control"));
    return;
  }
  call->calls = calls_ref(self);
  call->message = *message;
  TRITONSERVER_Error *error =
      read_call(call, control) ? start_thread(call)
                               : backend_error_invalid("a call for model control cannot be read");
  if (error == NULL)
    return; // the thread replies
  model_call_free(call);
  calls_reply_error(self, message, error);
}

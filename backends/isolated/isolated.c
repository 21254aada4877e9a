// SPDX-License-Identifier: Apache-2.0
// The entry points of the backend that serves models in processes of their own. The server calls
// them on load threads (models, instances), on instance threads, and, for executions in two parts,
// on its loops.
#include "backend_config.h"
#include "backend_entry.h"
#include "backend_error.h"
#include "backend_extension.h"
#include "backend_log.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "batch.h"
#include "events.h"
#include "process_memory.h"
#include "supervisor.h"

#include <assert.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct isolated_backend {
  char *program; // nereid-model-host
  char *library; // libtritonserver.so
} isolated_backend;

// The instance's current execution.
typedef enum execution_stage {
  EXECUTION_NONE,
  EXECUTION_KEPT, // there is no process now: it must be waited for
  EXECUTION_SENT
} execution_stage;

typedef struct isolated_instance {
  TRITONBACKEND_ModelInstance *instance;
  supervisor *supervisor;
  uint32_t index;
  bool attached;
  char *host_policy;
  batch_writer writer;
  events_copy answer;
  execution_stage stage; // the rest belongs to the executing thread
  TRITONBACKEND_Request **requests;
  uint32_t count;
  isolated_child *child;
  uint64_t *numbers; // the requests'
  uint32_t capacity;
  uint64_t work; // batches sent so far
  uint64_t life; // the process that the batch must go to; 0: any
} isolated_instance;

// ---- the backend

static void backend_free(void *state)
{
  isolated_backend *self = state;
  if (self == NULL)
    return;
  free(self->program);
  free(self->library);
  free(self);
}

// The process runs the library that serves us.
static char *own_library(void)
{
  Dl_info server;
  void *address;
  TRITONSERVER_Error *(*function)(uint32_t *, uint32_t *) = TRITONSERVER_ApiVersion;
  memcpy(&address, &function, sizeof(address));
  return dladdr(address, &server) != 0 ? realpath(server.dli_fname, NULL) : NULL;
}

static TRITONSERVER_Error *backend_new(TRITONBACKEND_Backend *backend, void **state)
{
  TRITONBACKEND_ArtifactType type;
  const char *dir;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_BackendArtifacts(backend, &type, &dir));
  isolated_backend *self = calloc(1, sizeof(*self));
  if (self == NULL)
    return backend_error_no_memory("a backend");
  *state = self;
  self->library = own_library();
  if (asprintf(&self->program, "%s/nereid-model-host", dir) < 0)
    self->program = NULL;
  if (self->program != NULL && self->library != NULL)
    return NULL;
  backend_free(self);
  return backend_error_unavailable("cannot find out where libtritonserver.so is");
}

// ---- the model

static TRITONSERVER_Error *read_limit(const json_t *config, const char *model, uint64_t *limit)
{
  const char *text = backend_parameter(config, "isolate_memory_limit");
  if (text == NULL || (text_to_bytes(slice_of(text), limit) && *limit > 0))
    return NULL;
  return backend_error_invalid(
      "model '%s': parameter isolate_memory_limit: invalid value '%s', expected a number of "
      "bytes above 0, which K, M, G or T may follow",
      model, text);
}

static void model_free(void *state)
{
  supervisor_stop(state);
}

static TRITONSERVER_Error *take_completed(TRITONBACKEND_Model *model, const char *text)
{
  json_auto_t *completed = json_loadb(text, strlen(text), 0, NULL);
  return completed == NULL ? backend_error_internal("a model's process gave no configuration")
                           : backend_model_set_config(model, completed);
}

static TRITONSERVER_Error *model_new(TRITONBACKEND_Model *model, void *state, void **result)
{
  const isolated_backend *backend = state;
  supervisor *self;
  json_auto_t *config = NULL;
  const char *name;
  AUTO_FREE char *completed = NULL;
  supervisor_settings settings = {
      .model = model, .program = backend->program, .library = backend->library};
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelName(model, &name));
  BACKEND_RETURN_IF_ERROR(backend_model_config(model, &config));
  BACKEND_RETURN_IF_ERROR(read_limit(config, name, &settings.memory_limit));
  settings.keeps_sequences = backend_keeps_sequences(config);
  BACKEND_RETURN_IF_ERROR(supervisor_start(&settings, &self, &completed));
  TRITONSERVER_Error *error = take_completed(model, completed);
  if (error == NULL)
    *result = self;
  else
    supervisor_stop(self);
  return error;
}

// ---- instances

static void instance_free(void *state)
{
  isolated_instance *self = state;
  if (self == NULL)
    return;
  assert(self->stage == EXECUTION_NONE);
  if (self->attached)
    supervisor_remove_instance(self->supervisor, self->index);
  batch_writer_fini(&self->writer);
  events_copy_fini(&self->answer);
  free(self->numbers);
  free(self->host_policy);
  free(self);
}

static TRITONSERVER_Error *instance_new(TRITONBACKEND_ModelInstance *instance, void *model,
                                        void **result)
{
  const char *name;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceName(instance, &name));
  isolated_instance *self = calloc(1, sizeof(*self));
  if (self == NULL)
    return backend_error_no_memory("a model instance");
  self->instance = instance;
  self->supervisor = model;
  TRITONSERVER_Error *error = backend_host_policy(instance, &self->host_policy);
  self->writer.host_policy = self->host_policy;
  if (error == NULL)
    error = supervisor_add_instance(model, name, instance, &self->index);
  self->attached = error == NULL;
  if (error == NULL)
    *result = self;
  else
    instance_free(self);
  return error;
}

static isolated_instance *instance_of(TRITONBACKEND_ModelInstance *instance)
{
  void *state = NULL;
  TRITONSERVER_ErrorDelete(TRITONBACKEND_ModelInstanceState(instance, &state));
  return state;
}

// ---- executions

static TRITONSERVER_Error *make_numbers(isolated_instance *self)
{
  if (self->count <= self->capacity)
    return NULL;
  uint64_t *numbers = reallocarray(self->numbers, self->count, sizeof(*numbers));
  if (numbers == NULL)
    return backend_error_no_memory("a batch");
  self->numbers = numbers;
  self->capacity = self->count;
  return NULL;
}

// The requests are published before the message is sent: until then the process could name numbers
// that it does not have. If the channel is closed already, they are answered with the process's
// other requests.
static TRITONSERVER_Error *write_and_send(isolated_instance *self, input_block *block)
{
  channel_message message = {.kind = ISOLATED_EXECUTE, .id = ++self->work};
  BACKEND_RETURN_IF_ERROR(batch_write(&self->writer, self->child->channel, self->requests,
                                      self->numbers, self->count, &message));
  block->offset = message.value;
  bool cancelled = open_requests_publish(&self->child->requests, self->numbers, self->count);
  channel_send(child_ring(self->child, self->index), CHANNEL_WORK, &message);
  if (cancelled)
    child_forward_cancels(self->child);
  return NULL;
}

// After an error the server keeps the requests.
static TRITONSERVER_Error *send_batch(isolated_instance *self)
{
  BACKEND_RETURN_IF_ERROR(make_numbers(self));
  input_block *block = calloc(1, sizeof(*block));
  if (block == NULL)
    return backend_error_no_memory("a batch");
  TRITONSERVER_Error *error = open_requests_add(&self->child->requests, self->instance,
                                                self->requests, self->count, block, self->numbers);
  if (error == NULL) {
    error = write_and_send(self, block);
    if (error != NULL)
      open_requests_withdraw(&self->child->requests, self->numbers, self->count);
  }
  if (error != NULL)
    free(block);
  return error;
}

// The backend refused the batch and released none of it.
static void fail_batch(isolated_instance *self, wire_reader *reader)
{
  uint32_t code = wire_get_u32(reader);
  size_t length;
  const char *text = wire_get_text(reader, &length);
  bool known = code > 0 && code - 1 <= TRITONSERVER_ERROR_CANCELLED;
  TRITONSERVER_Error *error =
      backend_error(known ? (TRITONSERVER_Error_Code)(code - 1) : TRITONSERVER_ERROR_INTERNAL,
                    "%.*s", (int)length, text != NULL ? text : "");
  open_requests *table = &self->child->requests;
  events_apply(self->child, reader);
  for (uint32_t i = 0; i < self->count; i++) {
    open_request *r = open_requests_take(table, self->numbers[i]);
    if (r == NULL)
      continue;
    events_fail_request(self->child, r, error);
    child_give_back(self->child, r);
  }
  TRITONSERVER_ErrorDelete(error);
}

static void take_answer(isolated_instance *self, const channel_message *answer)
{
  events_copy *copy = &self->answer;
  bool good = answer->kind == ISOLATED_EXECUTE && answer->id == self->work &&
              events_copy_take(copy, self->child, answer);
  if (good && answer->value == 0)
    fail_batch(self, &copy->reader);
  else if (good)
    good = events_apply(self->child, &copy->reader);
  if (!good)
    supervisor_end_child(self->supervisor, self->child, "it answered what makes no sense");
}

// False: no answer yet. When the process has ended, the thread that ends it answers the requests.
static bool await_answer(isolated_instance *self, int64_t timeout_us)
{
  channel_message answer;
  channel *ring = child_ring(self->child, self->index);
  switch (channel_receive(ring, CHANNEL_ANSWERS, timeout_us, &answer)) {
  case CHANNEL_MESSAGE:
    take_answer(self, &answer);
    channel_done(ring, CHANNEL_ANSWERS);
    return true;
  case CHANNEL_TIMEOUT:
    return false;
  case CHANNEL_BROKEN:
    supervisor_end_child(self->supervisor, self->child, "it broke its channel");
    return true;
  case CHANNEL_CLOSED:
    return true;
  }
  return true;
}

static void end_execution(isolated_instance *self)
{
  supervisor_leave(self->child);
  self->child = NULL;
  self->stage = EXECUTION_NONE;
}

// Another process than the one that the batch must go to does not know its sequences.
static TRITONSERVER_Error *begin_sent(isolated_instance *self)
{
  TRITONSERVER_Error *error =
      self->life != 0 && self->life != self->child->life
          ? backend_error_internal("the process that the request was for ended before it had "
                                   "it" BACKEND_SEQUENCES_LOST)
          : send_batch(self);
  if (error != NULL)
    end_execution(self);
  else
    self->stage = EXECUTION_SENT;
  return error;
}

TRITONSERVER_Error *NEREID_ModelInstanceExecuteBegin(TRITONBACKEND_ModelInstance *instance,
                                                     TRITONBACKEND_Request **requests,
                                                     uint32_t count, bool *pending)
{
  isolated_instance *self = instance_of(instance);
  assert(self->stage == EXECUTION_NONE);
  self->requests = requests;
  self->count = count;
  self->stage = EXECUTION_KEPT;
  *pending = true;
  if (supervisor_enter(self->supervisor, &self->child, NULL)) {
    TRITONSERVER_Error *error = begin_sent(self);
    *pending = error == NULL;
    return error;
  }
  return NULL;
}

// The requests are ours already, so the error answers each of them.
static void fail_kept(isolated_instance *self, TRITONSERVER_Error *error)
{
  for (uint32_t i = 0; i < self->count; i++) {
    TRITONBACKEND_Request *request = self->requests[i];
    TRITONBACKEND_Response *response;
    TRITONSERVER_Error *failure = TRITONBACKEND_ResponseNew(&response, request);
    if (failure == NULL)
      failure = TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, error);
    backend_error_log(failure, "send an error");
    uint64_t now = clock_monotonic_ns();
    TRITONSERVER_ErrorDelete(TRITONBACKEND_ModelInstanceReportStatistics(
        self->instance, request, false, now, now, now, now));
    backend_error_log(TRITONBACKEND_RequestRelease(request, TRITONSERVER_REQUEST_RELEASE_ALL),
                      "release a request");
  }
  TRITONSERVER_ErrorDelete(error);
}

// Waits for a process. False: the batch is over.
static bool send_kept(isolated_instance *self)
{
  TRITONSERVER_Error *error = NULL;
  if (supervisor_enter(self->supervisor, &self->child, &error))
    error = begin_sent(self);
  self->stage = error == NULL ? EXECUTION_SENT : EXECUTION_NONE;
  if (error != NULL)
    fail_kept(self, error);
  return error == NULL;
}

void NEREID_ModelInstanceExecuteEnd(TRITONBACKEND_ModelInstance *instance, int64_t timeout_us,
                                    bool *pending)
{
  isolated_instance *self = instance_of(instance);
  *pending = false;
  if (self->stage == EXECUTION_KEPT) {
    if (timeout_us >= 0) {
      *pending = true; // only the instance's thread waits for a process
      return;
    }
    if (!send_kept(self))
      return;
  }
  assert(self->stage == EXECUTION_SENT);
  if (await_answer(self, timeout_us))
    end_execution(self);
  else
    *pending = true;
}

static TRITONSERVER_Error *execute(void *state, TRITONBACKEND_ModelInstance *instance,
                                   TRITONBACKEND_Request **requests, uint32_t count)
{
  bool pending;
  (void)state;
  BACKEND_RETURN_IF_ERROR(NEREID_ModelInstanceExecuteBegin(instance, requests, count, &pending));
  while (pending)
    NEREID_ModelInstanceExecuteEnd(instance, -1, &pending);
  return NULL;
}

// The process's backend cannot be asked.
static bool prefers_gpu(const void *state)
{
  (void)state;
  return false;
}

const backend_entry_points backend_entry = {.name = "isolated",
                                            .api_minor = 19,
                                            .prefers_cpu = true,
                                            .prefers_gpu = prefers_gpu,
                                            .backend_new = backend_new,
                                            .backend_free = backend_free,
                                            .model_new = model_new,
                                            .model_free = model_free,
                                            .instance_new = instance_new,
                                            .instance_free = instance_free,
                                            .execute = execute};

// ---- further entry points

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReady(TRITONBACKEND_ModelInstance *instance)
{
  const isolated_instance *self = instance_of(instance);
  return supervisor_check_ready(self->supervisor, self->index);
}

bool NEREID_ModelInstanceFault(TRITONBACKEND_ModelInstance *instance, char *text, size_t size)
{
  const isolated_instance *self = instance_of(instance);
  return supervisor_has_fault(self->supervisor, text, size);
}

uint64_t NEREID_ModelInstanceLife(TRITONBACKEND_ModelInstance *instance)
{
  isolated_instance *self = instance_of(instance);
  return self->life = supervisor_life(self->supervisor);
}

void NEREID_ModelInstanceMeasureMemory(TRITONBACKEND_ModelInstance *instance)
{
  const isolated_instance *self = instance_of(instance);
  process_memory_report(instance, supervisor_memory(self->supervisor, self->index));
}

void NEREID_ModelCancelled(TRITONBACKEND_Model *model)
{
  void *state = NULL;
  TRITONSERVER_ErrorDelete(TRITONBACKEND_ModelState(model, &state));
  if (state != NULL)
    supervisor_forward_cancels(state);
}

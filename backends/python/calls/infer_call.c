// An inference that a model asks for (CALL_INFER): a request to the server on the way out, replies
// to the worker on the way back. Outputs are allocated in the host's region of the channel, so that
// the model that answers writes them where the worker reads them.
#include "calls/calls_internal.h"

#include "backend_error.h"
#include "backend_log.h"
#include "base/refcount.h"
#include "codec/parameter_json.h"

#include "nereid/nereid.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

extern __typeof__(NEREID_InferenceRequestModel) NEREID_InferenceRequestModel __attribute__((weak));

// One call under way. It ends when the server has given back the request and the final response has
// come, in whatever order, on whatever threads.
typedef struct infer_call {
  struct infer_call *next; // calls->lock
  struct infer_call **from;
  calls *calls; // a reference
  wait_call wait;
  char *model; // its name
  uint64_t id;
  bool decoupled;
  refcount parts;                         // the request, the responses, a function
  TRITONSERVER_InferenceRequest *request; // calls->lock; NULL when it has been given back
  uint8_t *data; // the inputs, copied: the worker cannot change them any more
} infer_call;

// One output's buffer, until its response is deleted.
typedef struct output_buffer {
  calls *calls; // alive as long as the call
  uint64_t offset;
  bool given; // the worker releases the block
} output_buffer;

// --- Output buffers

static TRITONSERVER_Error *
allocate_output(TRITONSERVER_ResponseAllocator *allocator, const char *tensor_name,
                size_t byte_size, TRITONSERVER_MemoryType memory_type, int64_t memory_type_id,
                void *userp, void **buffer, void **buffer_userp,
                TRITONSERVER_MemoryType *actual_memory_type, int64_t *actual_memory_type_id)
{
  (void)allocator, (void)memory_type, (void)memory_type_id;
  calls *calls = userp;
  channel *channel = worker_link_channel(calls->link);
  *buffer = *buffer_userp = NULL;
  *actual_memory_type = TRITONSERVER_MEMORY_CPU;
  *actual_memory_type_id = 0;
  if (byte_size == 0)
    return NULL;
  output_buffer *made = malloc(sizeof *made);
  if (made == NULL || !channel_allocate(channel, byte_size, &made->offset)) {
    free(made);
    return backend_error(
        TRITONSERVER_ERROR_UNAVAILABLE,
        "no room for output '%s' of %zu bytes in the memory that is shared with the "
        "Python worker (--backend-config=python,worker-shared-bytes)",
        tensor_name, byte_size);
  }
  made->calls = calls;
  made->given = false;
  *buffer = channel_own(channel, made->offset);
  *buffer_userp = made;
  return NULL;
}

static TRITONSERVER_Error *release_output(TRITONSERVER_ResponseAllocator *allocator, void *buffer,
                                          void *buffer_userp, size_t byte_size,
                                          TRITONSERVER_MemoryType memory_type,
                                          int64_t memory_type_id)
{
  (void)allocator, (void)buffer, (void)byte_size, (void)memory_type, (void)memory_type_id;
  output_buffer *self = buffer_userp;
  if (self != NULL && !self->given)
    channel_release(worker_link_channel(self->calls->link), self->offset);
  free(self);
  return NULL;
}

// Whatever the model would like, it gets CPU memory.
static TRITONSERVER_Error *query_output(TRITONSERVER_ResponseAllocator *allocator, void *userp,
                                        const char *tensor_name, size_t *byte_size,
                                        TRITONSERVER_MemoryType *memory_type,
                                        int64_t *memory_type_id)
{
  (void)allocator, (void)userp, (void)tensor_name, (void)byte_size;
  *memory_type = TRITONSERVER_MEMORY_CPU;
  *memory_type_id = 0;
  return NULL;
}

TRITONSERVER_Error *infer_allocator_new(TRITONSERVER_ResponseAllocator **made)
{
  BACKEND_RETURN_IF_ERROR(
      TRITONSERVER_ResponseAllocatorNew(made, allocate_output, release_output, NULL));
  return TRITONSERVER_ResponseAllocatorSetQueryFunction(*made, query_output);
}

// --- The way back

// What a reply is made from: a response, or an error.
typedef struct reply_content {
  TRITONSERVER_InferenceResponse *response;
  uint32_t output_count;
  char *parameters; // JSON
  const channel *channel;
} reply_content;

// Adds parameter `index` to `object`.
static TRITONSERVER_Error *add_parameter(TRITONSERVER_InferenceResponse *response, uint32_t index,
                                         json_t *object)
{
  const char *name;
  TRITONSERVER_ParameterType type;
  const void *value;
  BACKEND_RETURN_IF_ERROR(
      TRITONSERVER_InferenceResponseParameter(response, index, &name, &type, &value));
  if (json_object_set_new(object, name, parameter_to_json(type, value)) == 0)
    return NULL;
  return backend_error(TRITONSERVER_ERROR_UNSUPPORTED,
                       "parameter '%s' of a response has no form in JSON", name);
}

static TRITONSERVER_Error *print_parameters(TRITONSERVER_InferenceResponse *response, char **text)
{
  uint32_t count;
  BACKEND_RETURN_IF_ERROR(TRITONSERVER_InferenceResponseParameterCount(response, &count));
  if (count == 0)
    return NULL;
  json_t *object = json_object();
  TRITONSERVER_Error *error = NULL;
  for (uint32_t i = 0; i < count && error == NULL; i++)
    error = add_parameter(response, i, object);
  if (error == NULL && (*text = json_dumps(object, JSON_COMPACT)) == NULL)
    error = backend_error_no_memory("the parameters of a response");
  json_decref(object);
  return error;
}

static TRITONSERVER_Error *write_output(const reply_content *content, uint32_t index,
                                        wire_writer *writer)
{
  const char *name;
  TRITONSERVER_DataType datatype;
  const int64_t *dims;
  uint64_t rank, offset = 0;
  const void *base;
  size_t byte_size;
  TRITONSERVER_MemoryType memory_type;
  int64_t memory_type_id;
  void *userp;
  BACKEND_RETURN_IF_ERROR(TRITONSERVER_InferenceResponseOutput(
      content->response, index, &name, &datatype, &dims, &rank, &base, &byte_size, &memory_type,
      &memory_type_id, &userp));
  if (byte_size > 0 && !channel_is_own(content->channel, base, &offset))
    return backend_error(TRITONSERVER_ERROR_INTERNAL, "output '%s' is not where it was to be",
                         name);
  wire_tensor_write(writer, name, datatype, dims, rank, offset, byte_size);
  if (userp != NULL && writer->to != NULL)
    ((output_buffer *)userp)->given = true;
  return NULL;
}

static void write_tensors(wire_writer *writer, const void *what)
{
  const reply_content *content = what;
  const char *parameters = content->parameters == NULL ? "" : content->parameters;
  wire_put_u8(writer, RESPONSE_TENSORS);
  wire_put_string(writer, parameters);
  wire_put_u32(writer, content->output_count);
  for (uint32_t i = 0; i < content->output_count; i++)
    TRITONSERVER_ErrorDelete(write_output(content, i, writer)); // looked at before by check_outputs
}

// Everything that could fail in write_tensors.
static TRITONSERVER_Error *check_outputs(const reply_content *content)
{
  wire_writer counter = {0};
  for (uint32_t i = 0; i < content->output_count; i++)
    BACKEND_RETURN_IF_ERROR(write_output(content, i, &counter));
  return NULL;
}

// NULL: `reply` names the control part.
static TRITONSERVER_Error *make_tensors(infer_call *self, TRITONSERVER_InferenceResponse *response,
                                        channel_message *reply)
{
  BACKEND_RETURN_IF_ERROR(TRITONSERVER_InferenceResponseError(response));
  reply_content content = {.response = response, .channel = worker_link_channel(self->calls->link)};
  BACKEND_RETURN_IF_ERROR(
      TRITONSERVER_InferenceResponseOutputCount(response, &content.output_count));
  TRITONSERVER_Error *error = check_outputs(&content);
  if (error == NULL)
    error = print_parameters(response, &content.parameters);
  if (error == NULL && !control_part_make(self->calls->link, write_tensors, &content, reply))
    error = backend_error_no_memory("a response");
  free(content.parameters);
  return error;
}

static void write_error(wire_writer *writer, const void *what)
{
  wire_error_response_write(writer, (TRITONSERVER_Error *)what);
}

static void reply_error(calls *self, channel_message *reply, TRITONSERVER_Error *error_owned)
{
  if (!control_part_make(self->link, write_error, error_owned, reply))
    BACKEND_LOG_ERROR("%s: no memory for an error: %s", self->where,
                      TRITONSERVER_ErrorMessage(error_owned));
  TRITONSERVER_ErrorDelete(error_owned);
  worker_link_reply(self->link, reply);
}

// The final reply of a call that failed on this side. `error_owned` is put into Triton's words.
static void reply_failure(calls *self, uint64_t id, const char *model,
                          TRITONSERVER_Error *error_owned)
{
  channel_message reply = {.kind = CALL_INFER, .id = id, .flags = REPLY_FINAL};
  reply_error(self, &reply,
              backend_error(TRITONSERVER_ErrorCode(error_owned),
                            "Model %s - Error when running inference: %s",
                            model == NULL ? "" : model, TRITONSERVER_ErrorMessage(error_owned)));
  TRITONSERVER_ErrorDelete(error_owned);
}

static void unlink_call(infer_call *self)
{
  pthread_mutex_lock(&self->calls->lock);
  if (self->from != NULL) {
    *self->from = self->next;
    if (self->next != NULL)
      self->next->from = self->from;
  }
  self->from = NULL;
  pthread_mutex_unlock(&self->calls->lock);
}

static void end_part(infer_call *self)
{
  if (!refcount_drop(&self->parts))
    return;
  unlink_call(self);
  calls_unref(self->calls);
  free(self->model);
  free(self->data);
  free(self);
}

// The server gives the request back.
static void request_released(TRITONSERVER_InferenceRequest *request, uint32_t flags, void *userp)
{
  infer_call *self = userp;
  if ((flags & TRITONSERVER_REQUEST_RELEASE_ALL) == 0)
    return;
  wait_graph_released(&self->wait);
  pthread_mutex_lock(&self->calls->lock);
  self->request = NULL;
  pthread_mutex_unlock(&self->calls->lock);
  backend_error_log(TRITONSERVER_InferenceRequestDelete(request), "delete an inference request");
  end_part(self);
}

static void response_completed(TRITONSERVER_InferenceResponse *response, uint32_t flags,
                               void *userp)
{
  infer_call *self = userp;
  bool final = (flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) != 0;
  bool wanted = (response != NULL || final) && wait_graph_reply(&self->wait, final);
  channel_message reply = {.kind = CALL_INFER, .id = self->id, .flags = final ? REPLY_FINAL : 0};
  if (!wanted || calls_have_ended(self->calls)) {
    // nobody waits for it
  } else if (response != NULL) {
    TRITONSERVER_Error *error = make_tensors(self, response, &reply);
    if (error == NULL)
      worker_link_reply(self->calls->link, &reply);
    else
      reply_error(self->calls, &reply, error);
  } else if (final && !self->decoupled) {
    reply_error(self->calls, &reply,
                backend_error(TRITONSERVER_ERROR_INTERNAL, "Unexpected empty response."));
  } else if (final) {
    worker_link_reply(self->calls->link, &reply);
  }
  if (response != NULL)
    backend_error_log(TRITONSERVER_InferenceResponseDelete(response), "delete a response");
  if (final)
    end_part(self);
}

// --- The way out

// What a CALL_INFER's control part says, but for its tensors, which are read into the request.
typedef struct infer_content {
  char *model;
  int64_t version;
  char *id;
  uint64_t correlation;
  char *correlation_text; // NULL: `correlation`
  uint32_t flags;
  uint64_t timeout_us;
  uint64_t priority;
  char *parameters;
  TRITONSERVER_InferenceTrace *trace; // a child of its parent's; NULL: none
} infer_content;

static void infer_content_fini(infer_content *self)
{
  free(self->model);
  free(self->id);
  free(self->correlation_text);
  free(self->parameters);
  if (self->trace != NULL)
    backend_error_log(TRITONSERVER_InferenceTraceDelete(self->trace), "delete a trace");
}

// The trace continues that of an open request. NULL: that is not traced, or has been released.
static TRITONSERVER_InferenceTrace *child_of(request_table *requests, uint64_t handle)
{
  TRITONSERVER_InferenceTrace *child = NULL;
  open_request parent;
  if (handle == 0 || !request_table_begin(requests, handle, &parent))
    return NULL;
  if (parent.trace != NULL)
    backend_error_log(TRITONSERVER_InferenceTraceSpawnChildTrace(parent.trace, &child),
                      "continue a trace");
  request_table_end(requests, handle, false);
  return child;
}

static void read_content(request_table *requests, wire_reader *control, infer_content *content)
{
  content->model = calls_text(control);
  content->version = wire_get_i64(control);
  content->id = calls_text(control);
  if (wire_get_u8(control) == 0)
    content->correlation = wire_get_u64(control);
  else
    content->correlation_text = calls_text(control);
  content->flags = wire_get_u32(control);
  content->timeout_us = wire_get_u64(control);
  content->priority = wire_get_u64(control);
  content->parameters = calls_text(control);
  content->trace = child_of(requests, wire_get_u64(control));
}

// The model is not asked for its health: a worker may take its time over that, and its inferences
// wait their turn as a client's do.
static TRITONSERVER_Error *check_model(TRITONSERVER_Server *server, const infer_content *content,
                                       bool decoupled)
{
  uint32_t properties = 0;
  TRITONSERVER_Error *unknown = TRITONSERVER_ServerModelTransactionProperties(
      server, content->model, content->version, &properties, NULL);
  if (unknown != NULL) {
    TRITONSERVER_ErrorDelete(unknown);
    return backend_error(TRITONSERVER_ERROR_INTERNAL,
                         "Failed for execute the inference request. Model '%s' is not ready.",
                         content->model);
  }
  if (decoupled || (properties & TRITONSERVER_TXN_DECOUPLED) == 0)
    return NULL;
  return backend_error(TRITONSERVER_ERROR_INTERNAL,
                       "Model %s is using the decoupled. The current BLS request call doesn't "
                       "support models using the decoupled transaction policy. Please use "
                       "'decoupled=True' argument to the 'exec' or 'async_exec' calls for "
                       "decoupled models.'",
                       content->model);
}

static TRITONSERVER_Error *set_parameter(TRITONSERVER_InferenceRequest *request, const char *key,
                                         const json_t *value)
{
  if (json_is_string(value))
    return TRITONSERVER_InferenceRequestSetStringParameter(request, key, json_string_value(value));
  if (json_is_boolean(value))
    return TRITONSERVER_InferenceRequestSetBoolParameter(request, key, json_is_true(value));
  if (json_is_integer(value))
    return TRITONSERVER_InferenceRequestSetIntParameter(request, key, json_integer_value(value));
  if (json_is_real(value))
    return TRITONSERVER_InferenceRequestSetDoubleParameter(request, key, json_real_value(value));
  return backend_error(TRITONSERVER_ERROR_INVALID_ARG,
                       "parameter '%s' must be a string, a number or a bool", key);
}

static TRITONSERVER_Error *set_parameters(TRITONSERVER_InferenceRequest *request, const char *text)
{
  if (text[0] == '\0')
    return NULL;
  json_t *object = json_loads(text, 0, NULL);
  TRITONSERVER_Error *error = json_is_object(object)
                                  ? NULL
                                  : backend_error(TRITONSERVER_ERROR_INVALID_ARG,
                                                  "the parameters of a request are no JSON object");
  const char *key;
  json_t *value;
  json_object_foreach(object, key, value)
  {
    if (error == NULL)
      error = set_parameter(request, key, value);
  }
  json_decref(object);
  return error;
}

static TRITONSERVER_Error *damaged(void)
{
  return backend_error(TRITONSERVER_ERROR_INVALID_ARG, "an inference request cannot be read");
}

static TRITONSERVER_Error *add_requested_outputs(TRITONSERVER_InferenceRequest *request,
                                                 wire_reader *control)
{
  uint32_t count = wire_get_count(control, sizeof(uint32_t));
  for (uint32_t i = 0; i < count; i++) {
    char *name = calls_text(control);
    TRITONSERVER_Error *error =
        name == NULL ? damaged() : TRITONSERVER_InferenceRequestAddRequestedOutput(request, name);
    free(name);
    BACKEND_RETURN_IF_ERROR(error);
  }
  return NULL;
}

// Reads the inputs twice: once for their size, once to copy them.
static TRITONSERVER_Error *add_inputs(infer_call *self, wire_reader *control)
{
  const channel *channel = worker_link_channel(self->calls->link);
  wire_tensor tensor;
  uint32_t count = wire_get_count(control, 1);
  wire_reader again = *control;
  size_t total = 0, at = 0;
  for (uint32_t i = 0; i < count && !control->bad; i++) {
    wire_tensor_read(control, channel, &tensor);
    if (tensor.byte_size > SIZE_MAX / 2 ||
        __builtin_add_overflow(total, channel_aligned(tensor.byte_size), &total))
      control->bad = true;
  }
  if (control->bad)
    return damaged();
  if (total > 0 && (self->data = aligned_alloc(CHANNEL_ALIGNMENT, total)) == NULL)
    return backend_error_no_memory("the inputs of an inference request");
  for (uint32_t i = 0; i < count; i++) {
    wire_tensor_read(&again, channel, &tensor);
    BACKEND_RETURN_IF_ERROR(TRITONSERVER_InferenceRequestAddInput(
        self->request, tensor.name, tensor.datatype, tensor.shape.dims, tensor.shape.rank));
    if (tensor.byte_size == 0)
      continue;
    memcpy(self->data + at, tensor.data, tensor.byte_size);
    BACKEND_RETURN_IF_ERROR(TRITONSERVER_InferenceRequestAppendInputData(
        self->request, tensor.name, self->data + at, tensor.byte_size, TRITONSERVER_MEMORY_CPU, 0));
    at += channel_aligned(tensor.byte_size);
  }
  return NULL;
}

static TRITONSERVER_Error *fill_request(infer_call *self, const infer_content *content,
                                        wire_reader *control)
{
  TRITONSERVER_InferenceRequest *request = self->request;
  BACKEND_RETURN_IF_ERROR(TRITONSERVER_InferenceRequestSetId(request, content->id));
  BACKEND_RETURN_IF_ERROR(
      content->correlation_text == NULL
          ? TRITONSERVER_InferenceRequestSetCorrelationId(request, content->correlation)
          : TRITONSERVER_InferenceRequestSetCorrelationIdString(request,
                                                                content->correlation_text));
  BACKEND_RETURN_IF_ERROR(TRITONSERVER_InferenceRequestSetFlags(request, content->flags));
  BACKEND_RETURN_IF_ERROR(
      TRITONSERVER_InferenceRequestSetTimeoutMicroseconds(request, content->timeout_us));
  BACKEND_RETURN_IF_ERROR(
      TRITONSERVER_InferenceRequestSetPriorityUInt64(request, content->priority));
  BACKEND_RETURN_IF_ERROR(set_parameters(request, content->parameters));
  BACKEND_RETURN_IF_ERROR(add_requested_outputs(request, control));
  BACKEND_RETURN_IF_ERROR(add_inputs(self, control));
  BACKEND_RETURN_IF_ERROR(
      TRITONSERVER_InferenceRequestSetReleaseCallback(request, request_released, self));
  return TRITONSERVER_InferenceRequestSetResponseCallback(request, self->calls->allocator,
                                                          self->calls, response_completed, self);
}

static void link_call(infer_call *self)
{
  calls *calls = self->calls;
  pthread_mutex_lock(&calls->lock);
  self->from = &calls->inferences;
  self->next = calls->inferences;
  if (self->next != NULL)
    self->next->from = &self->next;
  calls->inferences = self;
  pthread_mutex_unlock(&calls->lock);
}

// Takes `self` when the request is on its way; else it is the caller's.
static TRITONSERVER_Error *submit(infer_call *self, infer_content *content, wire_reader *control)
{
  TRITONSERVER_Server *server = self->calls->server;
  if (control->bad)
    return damaged();
  BACKEND_RETURN_IF_ERROR(check_model(server, content, self->decoupled));
  BACKEND_RETURN_IF_ERROR(
      TRITONSERVER_InferenceRequestNew(&self->request, server, content->model, content->version));
  BACKEND_RETURN_IF_ERROR(fill_request(self, content, control));
  link_call(self); // its callbacks may run before the next calls return
  wait_graph_open(
      &self->wait, &self->calls->instance->node, self->request,
      NEREID_InferenceRequestModel == NULL ? NULL : NEREID_InferenceRequestModel(self->request));
  TRITONSERVER_InferenceTrace *trace = content->trace;
  content->trace = NULL;       // it is the server's, whatever comes
  refcount_take(&self->parts); // the request
  refcount_take(&self->parts); // the responses
  TRITONSERVER_Error *error = TRITONSERVER_ServerInferAsync(server, self->request, trace);
  if (error != NULL) {
    wait_graph_reply(&self->wait, true);
    unlink_call(self);
  }
  return error;
}

static infer_call *infer_call_new(calls *calls, const channel_message *message, const char *model)
{
  infer_call *self = calloc(1, sizeof *self);
  if (self == NULL || (self->model = strdup(model == NULL ? "" : model)) == NULL) {
    free(self);
    return NULL;
  }
  self->calls = calls_ref(calls);
  self->id = message->id;
  self->decoupled = (message->flags & INFER_DECOUPLED) != 0;
  refcount_init(&self->parts); // the function that starts it
  return self;
}

// A call that never reached the server.
static void infer_call_free(infer_call *self)
{
  if (self == NULL)
    return;
  if (self->request != NULL)
    backend_error_log(TRITONSERVER_InferenceRequestDelete(self->request),
                      "delete an inference request");
  calls_unref(self->calls);
  free(self->model);
  free(self->data);
  free(self);
}

static void cancel(infer_call *self)
{
  if (self->request != NULL)
    backend_error_log(TRITONSERVER_InferenceRequestCancel(self->request),
                      "cancel an inference request");
}

void infer_call_cancel(calls *self, uint64_t id)
{
  pthread_mutex_lock(&self->lock);
  for (infer_call *call = self->inferences; call != NULL; call = call->next)
    if (call->id == id)
      cancel(call);
  pthread_mutex_unlock(&self->lock);
}

void infer_calls_cancel_all(calls *self)
{
  for (infer_call *call = self->inferences; call != NULL; call = call->next)
    cancel(call);
}

// ---- Waiting

// The worker waits for the call's next reply. A circle is its error, and the server's answer is
// dropped.
static void begin_wait(infer_call *self, const channel_message *message, uint64_t seen)
{
  const wait_kind kind = (message->flags & INFER_WAITS) != 0 ? WAIT_THREAD : WAIT_COROUTINE;
  char *circle = wait_graph_wait(&self->wait, kind, message->value,
                                 (message->flags & INFER_SHARED) != 0, seen);
  if (circle == NULL)
    return;
  infer_call_cancel(self->calls, self->id); // before the worker is free to take it
  reply_failure(self->calls, self->id, self->model,
                backend_error(TRITONSERVER_ERROR_INTERNAL, "%s", circle));
  free(circle);
}

void infer_call_start(calls *self, const channel_message *message, wire_reader *control)
{
  infer_content content = {0};
  read_content(&self->instance->requests, control, &content);
  infer_call *call = infer_call_new(self, message, content.model);
  TRITONSERVER_Error *error = call == NULL ? backend_error_no_memory("an inference request")
                                           : submit(call, &content, control);
  if (error != NULL) {
    reply_failure(self, message->id, content.model, error);
    infer_call_free(call);
  } else {
    if ((message->flags & (INFER_WAITS | INFER_AWAITS)) != 0)
      begin_wait(call, message, 0);
    end_part(call);
  }
  infer_content_fini(&content);
}

// Call `id`, with a part in it. NULL: there is none, or it has ended but for its memory.
static infer_call *find_call(calls *self, uint64_t id)
{
  pthread_mutex_lock(&self->lock);
  infer_call *call = self->inferences;
  while (call != NULL && call->id != id)
    call = call->next;
  if (call != NULL && !refcount_try_take(&call->parts))
    call = NULL;
  pthread_mutex_unlock(&self->lock);
  return call;
}

void infer_call_wait(calls *self, const channel_message *message, wire_reader *control)
{
  const uint64_t seen = wire_get_u64(control);
  infer_call *call = control->bad ? NULL : find_call(self, message->id);
  if (call == NULL)
    return;
  begin_wait(call, message, seen);
  end_part(call);
}

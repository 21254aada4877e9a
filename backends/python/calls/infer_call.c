// SPDX-License-Identifier: Apache-2.0
// A model's inference call (CALL_INFER): turns it into a request to the server, and the responses
// into replies to the worker. Outputs are allocated in the host's region of the channel, so that
// the answering model writes them where the worker reads them.
#include "calls/calls.h"

#include "backend_error.h"
#include "backend_log.h"

#include "nereid/nereid.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

extern __typeof__(NEREID_InferenceRequestModel) NEREID_InferenceRequestModel __attribute__((weak));

// An open call. It ends when the server has given back the request and the final response has come,
// in either order, on any threads.
typedef struct infer_call {
  list_node node; // of calls->inferences
  calls *calls;   // a reference
  wait_call wait;
  char *model; // name; NULL: not readable
  uint64_t id;
  bool decoupled;
  uint32_t flags; // the places of outputs, and whether the worker keeps inputs
  refcount parts; // references: the request, the responses, a running function
  TRITONSERVER_InferenceRequest *request; // guarded by calls->lock; NULL when given back
  uint8_t *data;                          // a copy of the inputs, which the worker cannot change
} infer_call;

// One output's buffer, until its response is deleted.
typedef struct output_buffer {
  calls *calls; // lives as long as the call
  uint64_t offset;
  device_range range; // instead of a block
  bool given;         // the worker releases it
} output_buffer;

// --- Output buffers

// The place that the call wants for an output that the model would put at *type, *id.
static void choose_place(const infer_call *self, TRITONSERVER_MemoryType *type, int64_t *id)
{
  if ((self->flags & INFER_ON_DEVICE) != 0) {
    *type = TRITONSERVER_MEMORY_GPU;
    *id = (int64_t)(self->flags >> INFER_DEVICE_SHIFT);
  } else if ((self->flags & INFER_ON_CPU) != 0 || *type != TRITONSERVER_MEMORY_GPU) {
    *type = TRITONSERVER_MEMORY_CPU;
    *id = 0;
  }
}

// False: the output must be on the CPU.
static bool allocate_on_device(infer_call *self, int64_t device, size_t byte_size,
                               output_buffer *made)
{
  device_share *devices = worker_link_devices(self->calls->link);
  return devices != NULL && device >= 0 && device < INT32_MAX &&
         device_share_take(devices, (int)device, byte_size, &made->range);
}

static TRITONSERVER_Error *no_room(const char *name, size_t byte_size)
{
  return backend_error_unavailable(
      "no room for output '%s' of %zu bytes in the memory that is shared with the "
      "Python worker (--backend-config=python,worker-shared-bytes)",
      name, byte_size);
}

static TRITONSERVER_Error *
allocate_output(TRITONSERVER_ResponseAllocator *allocator, const char *tensor_name,
                size_t byte_size, TRITONSERVER_MemoryType memory_type, int64_t memory_type_id,
                void *userp, void **buffer, void **buffer_userp,
                TRITONSERVER_MemoryType *actual_memory_type, int64_t *actual_memory_type_id)
{
  (void)allocator;
  infer_call *self = userp;
  calls *calls = self->calls;
  channel *channel = calls->link->channel;
  *buffer = *buffer_userp = NULL;
  *actual_memory_type = TRITONSERVER_MEMORY_CPU;
  *actual_memory_type_id = 0;
  if (byte_size == 0)
    return NULL;
  output_buffer *made = calloc(1, sizeof(*made));
  choose_place(self, &memory_type, &memory_type_id);
  if (made != NULL && memory_type == TRITONSERVER_MEMORY_GPU &&
      allocate_on_device(self, memory_type_id, byte_size, made)) {
    made->calls = calls;
    *buffer = made->range.memory;
    *buffer_userp = made;
    *actual_memory_type = TRITONSERVER_MEMORY_GPU;
    *actual_memory_type_id = made->range.device;
    return NULL;
  }
  if (made == NULL || !channel_allocate(channel, byte_size, &made->offset)) {
    free(made);
    return no_room(tensor_name, byte_size);
  }
  made->calls = calls;
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
  if (self != NULL && !self->given && self->range.memory != NULL)
    device_share_give_back(worker_link_devices(self->calls->link), &self->range);
  else if (self != NULL && !self->given)
    channel_release(self->calls->link->channel, self->offset);
  free(self);
  return NULL;
}

// BYTES are not checked here: a model that has them on the CPU asks for CPU memory.
static TRITONSERVER_Error *query_output(TRITONSERVER_ResponseAllocator *allocator, void *userp,
                                        const char *tensor_name, size_t *byte_size,
                                        TRITONSERVER_MemoryType *memory_type,
                                        int64_t *memory_type_id)
{
  (void)allocator, (void)tensor_name, (void)byte_size;
  choose_place(userp, memory_type, memory_type_id);
  return NULL;
}

TRITONSERVER_Error *infer_allocator_new(TRITONSERVER_ResponseAllocator **made)
{
  BACKEND_RETURN_IF_ERROR(
      TRITONSERVER_ResponseAllocatorNew(made, allocate_output, release_output, NULL));
  return TRITONSERVER_ResponseAllocatorSetQueryFunction(*made, query_output);
}

// --- The way back

// The source of a reply: a response, or an error.
typedef struct reply_content {
  TRITONSERVER_InferenceResponse *response;
  uint32_t output_count;
  const char *parameters; // JSON; NULL: none
  worker_link *link;
  TRITONSERVER_Error **error; // set when writing fails
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
  json_auto_t *object = json_object();
  for (uint32_t i = 0; i < count; i++)
    BACKEND_RETURN_IF_ERROR(add_parameter(response, i, object));
  *text = json_dumps(object, JSON_COMPACT);
  return *text != NULL ? NULL : backend_error_no_memory("the parameters of a response");
}

// The worker's CPU reads texts, wherever the call wants its outputs.
static TRITONSERVER_Error *bring_to_cpu(worker_link *link, output_buffer *self, size_t byte_size,
                                        const char *name)
{
  device_share *devices = worker_link_devices(link);
  const gpu_place from = {.kind = GPU_MEMORY_DEVICE, .device = self->range.device};
  if (!channel_allocate(link->channel, byte_size, &self->offset))
    return no_room(name, byte_size);
  TRITONSERVER_Error *error = device_share_copy(
      channel_own(link->channel, self->offset), (gpu_place){.kind = GPU_MEMORY_HOST},
      self->range.memory, from, byte_size, "output", name);
  if (error != NULL) {
    channel_release(link->channel, self->offset);
    return error;
  }
  device_share_give_back(devices, &self->range);
  self->range.memory = NULL;
  return NULL;
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
  output_buffer *own = userp;
  if (own != NULL && own->range.memory != NULL && datatype == TRITONSERVER_TYPE_BYTES)
    BACKEND_RETURN_IF_ERROR(bring_to_cpu(content->link, own, byte_size, name));
  const bool on_device = own != NULL && own->range.memory != NULL;
  if (own != NULL)
    offset = on_device ? own->range.offset : own->offset;
  else if (byte_size > 0 && !channel_is_own(content->link->channel, base, &offset))
    return backend_error_internal("output '%s' is not where it was to be", name);
  wire_tensor_write(writer, name, wire_on_device(datatype, on_device ? own->range.device : -1),
                    dims, rank, offset, byte_size);
  return NULL;
}

static void write_tensors(wire_writer *writer, const void *what)
{
  const reply_content *content = what;
  wire_put_u8(writer, RESPONSE_TENSORS);
  wire_put_string(writer, content->parameters);
  wire_put_u32(writer, content->output_count);
  for (uint32_t i = 0; i < content->output_count && *content->error == NULL; i++)
    *content->error = write_output(content, i, writer);
}

static output_buffer *buffer_of(const reply_content *content, uint32_t index)
{
  const char *name;
  TRITONSERVER_DataType datatype;
  TRITONSERVER_MemoryType type;
  const int64_t *dims;
  const void *base;
  size_t byte_size;
  uint64_t rank;
  int64_t id;
  void *userp = NULL;
  TRITONSERVER_ErrorDelete(TRITONSERVER_InferenceResponseOutput(content->response, index, &name,
                                                                &datatype, &dims, &rank, &base,
                                                                &byte_size, &type, &id, &userp));
  return userp;
}

// Gives all buffers to the worker; those on devices until it gives `block` back. On an error the
// caller releases `block`, and no buffer is given.
static TRITONSERVER_Error *give_outputs(const reply_content *content, uint64_t block)
{
  for (uint32_t i = 0; i < content->output_count; i++) {
    output_buffer *own = buffer_of(content, i);
    if (own == NULL || own->range.memory == NULL)
      continue;
    own->given = device_share_lend(worker_link_devices(content->link), block, &own->range);
    if (!own->given)
      return backend_error_no_memory("a response");
  }
  for (uint32_t i = 0; i < content->output_count; i++) {
    output_buffer *own = buffer_of(content, i);
    if (own != NULL)
      own->given = true;
  }
  return NULL;
}

// NULL: `reply` is complete.
static TRITONSERVER_Error *make_reply(infer_call *self, TRITONSERVER_InferenceResponse *response,
                                      channel_message *reply)
{
  TRITONSERVER_Error *error = NULL;
  AUTO_FREE char *parameters = NULL;
  worker_link *link = self->calls->link;
  if (response == NULL && self->decoupled)
    return NULL;
  if (response == NULL)
    return backend_error_internal("Unexpected empty response.");
  BACKEND_RETURN_IF_ERROR(TRITONSERVER_InferenceResponseError(response));
  BACKEND_RETURN_IF_ERROR(print_parameters(response, &parameters));
  reply_content content = {
      .response = response, .parameters = parameters, .link = link, .error = &error};
  BACKEND_RETURN_IF_ERROR(
      TRITONSERVER_InferenceResponseOutputCount(response, &content.output_count));
  if (!control_part_make(link, write_tensors, &content, reply))
    return error != NULL ? error : backend_error_no_memory("a response");
  if (error == NULL)
    error = give_outputs(&content, reply->offset);
  if (error != NULL)
    worker_link_release(link, reply->offset);
  return error;
}

static void send_error(calls *self, uint64_t id, uint32_t flags, TRITONSERVER_Error *error_owned)
{
  const channel_message reply = {.kind = CALL_INFER, .id = id, .flags = flags};
  calls_send_error(self, reply, wire_error_response_write, error_owned);
}

// Sends the final reply of a call that failed on this side, with `error_owned` in Triton's words.
static void send_failure(infer_call *self, TRITONSERVER_Error *error_owned)
{
  send_error(self->calls, self->id, REPLY_FINAL,
             backend_error(
                 TRITONSERVER_ErrorCode(error_owned), "Model %s - Error when running inference: %s",
                 self->model == NULL ? "" : self->model, TRITONSERVER_ErrorMessage(error_owned)));
  TRITONSERVER_ErrorDelete(error_owned);
}

static void delete_request(TRITONSERVER_InferenceRequest *request)
{
  backend_error_log(TRITONSERVER_InferenceRequestDelete(request), "delete an inference request");
}

static void tell_inputs_free(calls *self, uint64_t id, uint32_t flags)
{
  if ((flags & INFER_LENDS) != 0)
    calls_send(self, &(channel_message){.kind = CALL_INFER, .id = id, .flags = REPLY_INPUTS_FREE});
}

static void infer_call_free(infer_call *self)
{
  pthread_mutex_lock(&self->calls->lock);
  if (list_is_linked(&self->node))
    list_remove(&self->node);
  pthread_mutex_unlock(&self->calls->lock);
  if (self->request != NULL) // the request never reached the server
    delete_request(self->request);
  tell_inputs_free(self->calls, self->id, self->flags);
  calls_unref(self->calls);
  free(self->model);
  free(self->data);
  free(self);
}

static void end_part(infer_call *self)
{
  if (refcount_drop(&self->parts))
    infer_call_free(self);
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
  delete_request(request);
  end_part(self);
}

static void response_completed(TRITONSERVER_InferenceResponse *response, uint32_t flags,
                               void *userp)
{
  infer_call *self = userp;
  const bool final = (flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) != 0;
  channel_message reply = {.kind = CALL_INFER, .id = self->id, .flags = final ? REPLY_FINAL : 0};
  if ((response != NULL || final) && wait_graph_reply(&self->wait, final)) {
    TRITONSERVER_Error *error = make_reply(self, response, &reply);
    if (error == NULL)
      calls_send(self->calls, &reply);
    else
      send_error(self->calls, self->id, reply.flags, error);
  }
  if (response != NULL)
    backend_error_log(TRITONSERVER_InferenceResponseDelete(response), "delete a response");
  if (final)
    end_part(self);
}

// --- The way out

// A trace that continues that of an open request. NULL: the request is not traced, or was released.
static TRITONSERVER_InferenceTrace *child_of(request_table *requests, uint64_t handle)
{
  TRITONSERVER_InferenceTrace *child = NULL;
  open_request *parent = request_table_begin(requests, handle);
  if (parent == NULL)
    return NULL;
  if (parent->trace != NULL)
    backend_error_log(TRITONSERVER_InferenceTraceSpawnChildTrace(parent->trace, &child),
                      "continue a trace");
  request_table_end(requests, parent);
  return child;
}

static TRITONSERVER_Error *read_properties(const infer_call *self, int64_t version,
                                           uint32_t *properties)
{
  return TRITONSERVER_ServerModelTransactionProperties(self->calls->server, self->model, version,
                                                       properties, NULL);
}

// Makes the request. A server that loads models on demand loads the model first, and this thread
// waits. The model then stays loaded.
static bool load_model(infer_call *self, int64_t version)
{
  TRITONSERVER_Error *error =
      TRITONSERVER_InferenceRequestNew(&self->request, self->calls->server, self->model, version);
  if (error == NULL)
    return true;
  TRITONSERVER_ErrorDelete(error);
  self->request = NULL;
  return false;
}

// The model's health is not checked: a worker may take long to answer, and the inference can wait
// in the queue like a client's.
static TRITONSERVER_Error *check_model(infer_call *self, int64_t version)
{
  uint32_t properties = 0;
  TRITONSERVER_Error *unknown = read_properties(self, version, &properties);
  if (unknown != NULL && load_model(self, version)) {
    TRITONSERVER_ErrorDelete(unknown);
    unknown = read_properties(self, version, &properties);
  }
  if (unknown != NULL) {
    TRITONSERVER_ErrorDelete(unknown);
    return backend_error_internal(
        "Failed for execute the inference request. Model '%s' is not ready.", self->model);
  }
  if (self->decoupled || (properties & TRITONSERVER_TXN_DECOUPLED) == 0)
    return NULL;
  return backend_error_internal(
      "Model %s is using the decoupled. The current BLS request call doesn't "
      "support models using the decoupled transaction policy. Please use "
      "'decoupled=True' argument to the 'exec' or 'async_exec' calls for decoupled models.'",
      self->model);
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
  return backend_error_invalid("parameter '%s' must be a string, a number or a bool", key);
}

static TRITONSERVER_Error *set_parameters(TRITONSERVER_InferenceRequest *request, const char *text)
{
  if (text[0] == '\0')
    return NULL;
  json_auto_t *object = json_loadb(text, strlen(text), 0, NULL);
  if (!json_is_object(object))
    return backend_error_invalid("the parameters of a request are no JSON object");
  const char *key;
  json_t *value;
  json_object_foreach(object, key, value)
  {
    BACKEND_RETURN_IF_ERROR(set_parameter(request, key, value));
  }
  return NULL;
}

static TRITONSERVER_Error *damaged(void)
{
  return backend_error_invalid("an inference request cannot be read");
}

typedef TRITONSERVER_Error *text_setter(TRITONSERVER_InferenceRequest *request, const char *text);

static TRITONSERVER_Error *set_text(TRITONSERVER_InferenceRequest *request, wire_reader *control,
                                    text_setter *set)
{
  AUTO_FREE char *text = calls_text(control);
  return text == NULL ? damaged() : set(request, text);
}

static TRITONSERVER_Error *set_correlation(TRITONSERVER_InferenceRequest *request,
                                           wire_reader *control)
{
  if (wire_get_u8(control) == 0)
    return TRITONSERVER_InferenceRequestSetCorrelationId(request, wire_get_u64(control));
  return set_text(request, control, TRITONSERVER_InferenceRequestSetCorrelationIdString);
}

static TRITONSERVER_Error *add_requested_outputs(TRITONSERVER_InferenceRequest *request,
                                                 wire_reader *control)
{
  uint32_t count = wire_get_count(control, sizeof(uint32_t));
  for (uint32_t i = 0; i < count; i++)
    BACKEND_RETURN_IF_ERROR(
        set_text(request, control, TRITONSERVER_InferenceRequestAddRequestedOutput));
  return NULL;
}

// The input is used in place, because the worker keeps it. If the worker changes it meanwhile, only
// this call is affected.
static TRITONSERVER_Error *add_from_device(infer_call *self, const wire_tensor *tensor)
{
  const void *data = device_share_at(atomic_load(&self->calls->link->devices), tensor->device,
                                     tensor->offset, tensor->byte_size);
  if (data == NULL)
    return damaged();
  return TRITONSERVER_InferenceRequestAppendInputData(self->request, tensor->name, data,
                                                      tensor->byte_size, TRITONSERVER_MEMORY_GPU,
                                                      tensor->device);
}

// Reads the inputs twice: for their size, then to copy them.
static TRITONSERVER_Error *add_inputs(infer_call *self, wire_reader *control)
{
  const channel *channel = self->calls->link->channel;
  wire_tensor tensor;
  uint32_t count = wire_get_count(control, 1);
  wire_reader again = *control;
  size_t total = 0, at = 0;
  for (uint32_t i = 0; i < count && !control->bad; i++) {
    wire_tensor_read(control, channel, &tensor);
    if (tensor.byte_size > SIZE_MAX / 2 ||
        (tensor.device < 0 &&
         __builtin_add_overflow(total, channel_aligned(tensor.byte_size), &total)))
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
    if (tensor.device >= 0) {
      BACKEND_RETURN_IF_ERROR(add_from_device(self, &tensor));
      continue;
    }
    memcpy(self->data + at, tensor.data, tensor.byte_size);
    BACKEND_RETURN_IF_ERROR(TRITONSERVER_InferenceRequestAppendInputData(
        self->request, tensor.name, self->data + at, tensor.byte_size, TRITONSERVER_MEMORY_CPU, 0));
    at += channel_aligned(tensor.byte_size);
  }
  return NULL;
}

// Reads in the order of CALL_INFER's control part. `*parent`: the handle whose trace it continues.
static TRITONSERVER_Error *fill_request(infer_call *self, wire_reader *control, uint64_t *parent)
{
  TRITONSERVER_InferenceRequest *request = self->request;
  BACKEND_RETURN_IF_ERROR(set_text(request, control, TRITONSERVER_InferenceRequestSetId));
  BACKEND_RETURN_IF_ERROR(set_correlation(request, control));
  BACKEND_RETURN_IF_ERROR(TRITONSERVER_InferenceRequestSetFlags(request, wire_get_u32(control)));
  BACKEND_RETURN_IF_ERROR(
      TRITONSERVER_InferenceRequestSetTimeoutMicroseconds(request, wire_get_u64(control)));
  BACKEND_RETURN_IF_ERROR(
      TRITONSERVER_InferenceRequestSetPriorityUInt64(request, wire_get_u64(control)));
  BACKEND_RETURN_IF_ERROR(set_text(request, control, set_parameters));
  *parent = wire_get_u64(control);
  BACKEND_RETURN_IF_ERROR(add_requested_outputs(request, control));
  BACKEND_RETURN_IF_ERROR(add_inputs(self, control));
  BACKEND_RETURN_IF_ERROR(
      TRITONSERVER_InferenceRequestSetReleaseCallback(request, request_released, self));
  return TRITONSERVER_InferenceRequestSetResponseCallback(request, self->calls->allocator, self,
                                                          response_completed, self);
}

// NULL: the request is submitted, and its callbacks drop parts of `self`.
static TRITONSERVER_Error *submit(infer_call *self, wire_reader *control)
{
  calls *calls = self->calls;
  const int64_t version = wire_get_i64(control);
  uint64_t parent;
  if (control->bad)
    return damaged();
  BACKEND_RETURN_IF_ERROR(check_model(self, version));
  if (self->request == NULL)
    BACKEND_RETURN_IF_ERROR(
        TRITONSERVER_InferenceRequestNew(&self->request, calls->server, self->model, version));
  BACKEND_RETURN_IF_ERROR(fill_request(self, control, &parent));
  pthread_mutex_lock(&calls->lock); // the callbacks may run before the calls below return
  list_append(&calls->inferences, &self->node);
  pthread_mutex_unlock(&calls->lock);
  wait_graph_open(
      &self->wait, &calls->instance->node, self->request,
      NEREID_InferenceRequestModel == NULL ? NULL : NEREID_InferenceRequestModel(self->request));
  refcount_take(&self->parts); // the request
  refcount_take(&self->parts); // the responses
  TRITONSERVER_Error *error = TRITONSERVER_ServerInferAsync(
      calls->server, self->request, child_of(&calls->instance->requests, parent));
  if (error != NULL)
    wait_graph_reply(&self->wait, true);
  return error;
}

static void cancel(infer_call *self)
{
  if (self->request != NULL)
    backend_error_log(TRITONSERVER_InferenceRequestCancel(self->request),
                      "cancel an inference request");
}

void infer_calls_cancel_all(calls *self)
{
  list_foreach (infer_call, call, node, &self->inferences)
    cancel(call);
}

// Finds call `id` and takes a part. NULL: not found, or it has ended.
static infer_call *find_call(calls *self, uint64_t id)
{
  LOCK_SCOPE(&self->lock);
  list_foreach (infer_call, call, node, &self->inferences) {
    if (call->id == id && refcount_try_take(&call->parts))
      return call;
  }
  return NULL;
}

void infer_call_cancel(calls *self, const channel_message *message, wire_reader *control)
{
  (void)control;
  LOCK_SCOPE(&self->lock);
  list_foreach (infer_call, call, node, &self->inferences) {
    if (call->id == message->id)
      cancel(call);
  }
}

// ---- Waiting

// The worker waits for the call's next reply. If that closes a circle, the worker gets an error and
// the server's answer is dropped.
static void begin_wait(infer_call *self, const channel_message *message, uint64_t seen)
{
  const wait_kind kind = (message->flags & INFER_WAITS) != 0 ? WAIT_THREAD : WAIT_COROUTINE;
  AUTO_FREE char *circle = wait_graph_wait(&self->wait, kind, message->value,
                                           (message->flags & INFER_SHARED) != 0, seen);
  if (circle == NULL)
    return;
  infer_call_cancel(self->calls, message, NULL); // before the worker can reuse the id
  send_failure(self, backend_error_internal("%s", circle));
}

void infer_call_start(calls *self, const channel_message *message, wire_reader *control)
{
  infer_call *call = calloc(1, sizeof(*call));
  if (call == NULL) {
    send_error(self, message->id, REPLY_FINAL, backend_error_no_memory("an inference request"));
    tell_inputs_free(self, message->id, message->flags);
    return;
  }
  *call = (infer_call){.calls = calls_ref(self),
                       .model = calls_text(control),
                       .id = message->id,
                       .decoupled = (message->flags & INFER_DECOUPLED) != 0,
                       .flags = message->flags};
  refcount_init(&call->parts); // this function
  TRITONSERVER_Error *error = submit(call, control);
  if (error != NULL) {
    send_failure(call, error);
    infer_call_free(call);
    return;
  }
  if ((message->flags & (INFER_WAITS | INFER_AWAITS)) != 0)
    begin_wait(call, message, 0);
  end_part(call);
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

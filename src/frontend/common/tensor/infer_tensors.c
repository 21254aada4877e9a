// SPDX-License-Identifier: Apache-2.0
// Adds inputs, allocates outputs, reads responses. See infer_tensors.h.
#include "frontend/common/tensor/infer_tensors.h"

#include "base/blocks.h"
#include "base/checked.h"
#include "frontend/common/json/classification.h"
#include "frontend/common/observe/abi_error.h"
#include "nereid/nereid.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_MAX_BYTES 1024 // larger outputs have a block of their own
#define UNCOUNTED_BYTES 4096 // smaller copies are in the inference's own arena, uncounted

// An output's buffer, from the allocator until the response is deleted.
typedef struct output_buffer {
  infer_tensors *tensors; // its owner is referenced; small buffers are in its arena
  const output_choice *choice;
  void *memory;    // a block; NULL when in the arena or pinned
  void *pinned;    // the server's pinned memory, instead of a block
  size_t size;     // of `memory` or `pinned`
  size_t reserved; // from the budget
} output_buffer;

// ---- inputs ----

static error *reserve(infer_tensors *t, size_t size, const char *refusal)
{
  if (size < UNCOUNTED_BYTES)
    return NULL;
  if (!budget_take_work(t->budget, size))
    return error_new_text(ERROR_UNAVAILABLE, refusal);
  t->reserved += size;
  return NULL;
}

error *infer_tensors_reserve(infer_tensors *t, size_t sum)
{
  return reserve(t, sum - t->reserved, BUDGET_REQUESTS_FULL);
}

// The client can change a tensor while a model reads it. Models read lengths, indices, counts and
// masks twice, first to check and then to use, so types that can hold these are copied. The types
// below hold pixels, samples and weights: a value that changes only gives that client another
// answer.
static bool may_change(TRITONSERVER_DataType datatype)
{
  switch (datatype) {
  case TRITONSERVER_TYPE_UINT8:
  case TRITONSERVER_TYPE_UINT16:
  case TRITONSERVER_TYPE_INT8:
  case TRITONSERVER_TYPE_INT16:
  case TRITONSERVER_TYPE_FP16:
  case TRITONSERVER_TYPE_BF16:
  case TRITONSERVER_TYPE_FP32:
  case TRITONSERVER_TYPE_FP64:
    return true;
  default:
    return false;
  }
}

static bool overlaps(const shared_span *a, const shared_span *b)
{
  const char *a_begin = a->base, *b_begin = b->base;
  return a->region == b->region && a_begin < b_begin + b->byte_size &&
         b_begin < a_begin + a->byte_size;
}

// Backends expect that an input stays unchanged while they write outputs.
static bool is_overwritten(const infer_tensors *t, const shared_span *input)
{
  for (size_t k = 0; k < t->choice_count; k++)
    if (t->choices[k].span != NULL && overlaps(t->choices[k].span, input))
      return true;
  return false;
}

static error *take_span(infer_tensors *t, const json_shared_memory *m, shared_span **span)
{
  *span = &t->spans[t->span_count];
  RETURN_IF_ERROR(shared_memory_take(t->memory, m->region, m->offset, m->byte_size, *span));
  t->span_count++;
  t->uses_gpu = t->uses_gpu || (*span)->handle != NULL;
  return NULL;
}

// Must the model get a copy on the host? Data on a GPU stays there, except BYTES, whose lengths the
// core reads.
static bool is_copied(const infer_tensors *t, TRITONSERVER_DataType datatype,
                      const shared_span *span)
{
  if (span->byte_size == 0)
    return false;
  if (span->handle != NULL)
    return datatype == TRITONSERVER_TYPE_BYTES;
  return !may_change(datatype) || is_overwritten(t, span);
}

// *span is where the data is; if its `copy` is not NULL, the model reads the copy.
static error *take_shared_data(infer_tensors *t, const infer_json_input *input, shared_span **span)
{
  RETURN_IF_ERROR(take_span(t, &input->shared_memory, span));
  (*span)->datatype = input->datatype;
  const size_t size = (*span)->byte_size;
  if (!is_copied(t, input->datatype, *span))
    return NULL;
  RETURN_IF_ERROR(reserve(t, size, BUDGET_REQUESTS_FULL));
  (*span)->copy = arena_allocate_tensor(t->arena, size);
  t->copy_bytes += size;
  return (*span)->copy == NULL ? error_no_memory() : NULL;
}

size_t infer_tensors_copy_work(const infer_tensors *t)
{
  return t->uses_gpu && t->copy_bytes > 0 ? SIZE_MAX : t->copy_bytes;
}

error *infer_tensors_make_copies(infer_tensors *t)
{
  for (size_t k = 0; k < t->span_count; k++)
    if (t->spans[k].copy != NULL)
      RETURN_IF_ERROR(shared_span_read(&t->spans[k], t->spans[k].copy));
  return NULL;
}

void infer_tensors_give_back_spans(infer_tensors *t)
{
  while (t->span_count > 0)
    shared_span_give_back(&t->spans[--t->span_count]);
}

static error *append_gpu_data(infer_tensors *t, const char *name, const shared_span *span)
{
  TRITONSERVER_BufferAttributes *a = NULL;
  RETURN_IF_ERROR(error_from_abi(TRITONSERVER_BufferAttributesNew(&a)));
  TRITONSERVER_Error *e = TRITONSERVER_BufferAttributesSetByteSize(a, span->byte_size);
  if (e == NULL)
    e = TRITONSERVER_BufferAttributesSetMemoryType(a, TRITONSERVER_MEMORY_GPU);
  if (e == NULL)
    e = TRITONSERVER_BufferAttributesSetMemoryTypeId(a, span->device);
  if (e == NULL)
    e = TRITONSERVER_BufferAttributesSetCudaIpcHandle(a, (void *)(uintptr_t)span->handle);
  if (e == NULL)
    e = TRITONSERVER_InferenceRequestAppendInputDataWithBufferAttributes(t->request, name,
                                                                         span->base, a);
  TRITONSERVER_ErrorDelete(TRITONSERVER_BufferAttributesDelete(a));
  return error_from_abi(e);
}

// Data within the message has the message's kind of memory; other tensors are in the arena.
static TRITONSERVER_MemoryType type_of(const infer_tensors *t, const char *data)
{
  const uintptr_t offset = (uintptr_t)data - (uintptr_t)t->pinned.data;
  return t->pinned.size > 0 && offset < t->pinned.size ? TRITONSERVER_MEMORY_CPU_PINNED
                                                       : TRITONSERVER_MEMORY_CPU;
}

static error *append_data(infer_tensors *t, const char *name, const void *data, size_t size)
{
  return size == 0 ? NULL
                   : error_from_abi(TRITONSERVER_InferenceRequestAppendInputData(
                         t->request, name, data, size, type_of(t, data), 0));
}

static error *append_shared_data(infer_tensors *t, const infer_json_input *input)
{
  shared_span *span;
  RETURN_IF_ERROR(take_shared_data(t, input, &span));
  if (span->handle != NULL && span->copy == NULL && span->byte_size > 0)
    return append_gpu_data(t, input->name, span);
  return append_data(t, input->name, span->copy != NULL ? span->copy : span->base, span->byte_size);
}

static error *add_input(infer_tensors *t, const infer_json_input *input)
{
  RETURN_IF_ERROR(error_from_abi(TRITONSERVER_InferenceRequestAddInput(
      t->request, input->name, input->datatype, input->shape, input->shape_count)));
  return input->shared_memory.region != NULL
             ? append_shared_data(t, input)
             : append_data(t, input->name, input->data, input->data_size);
}

static error *add_output(infer_tensors *t, const infer_json_output *output)
{
  const json_shared_memory *m = &output->shared_memory;
  output_choice *choice = &t->choices[t->choice_count++];
  *choice = (output_choice){
      .name = output->name, .binary = output->binary, .classification = output->classification};
  RETURN_IF_ERROR(
      error_from_abi(TRITONSERVER_InferenceRequestAddRequestedOutput(t->request, output->name)));
  return m->region == NULL ? NULL : take_span(t, m, &choice->span);
}

// Asked now, because the model may be unloaded before its response comes.
static error *read_rows(infer_tensors *t, const char *model_name, int64_t model_version)
{
  uint32_t flags = 0;
  RETURN_IF_ERROR(error_from_abi(
      TRITONSERVER_ServerModelBatchProperties(t->server, model_name, model_version, &flags, NULL)));
  t->has_rows = (flags & TRITONSERVER_BATCH_FIRST_DIM) != 0;
  return NULL;
}

error *infer_tensors_add(infer_tensors *t, const char *model_name, int64_t model_version,
                         const infer_json_input *inputs, size_t input_count,
                         const infer_json_output *outputs, size_t output_count)
{
  bool classifies = false;
  t->spans = arena_allocate_array(t->arena, input_count + output_count, sizeof(*t->spans));
  t->choices = arena_allocate_array(t->arena, output_count + 1, sizeof(*t->choices));
  if (t->spans == NULL || t->choices == NULL)
    return error_no_memory();
  // Outputs first, so that an input that overlaps an output is seen and copied.
  for (size_t k = 0; k < output_count; k++) {
    classifies |= outputs[k].classification > 0;
    RETURN_IF_ERROR(add_output(t, &outputs[k]));
  }
  for (size_t k = 0; k < input_count; k++)
    RETURN_IF_ERROR(add_input(t, &inputs[k]));
  return classifies ? read_rows(t, model_name, model_version) : NULL;
}

size_t infer_tensors_shared_bytes(const infer_tensors *t)
{
  size_t sum = 0;
  for (size_t k = 0; k < t->span_count; k++)
    if (!checked_add_size(sum, t->spans[k].byte_size, &sum))
      return SIZE_MAX;
  return sum;
}

void infer_tensors_fini(infer_tensors *t)
{
  infer_tensors_give_back_spans(t);
  if (t->reserved > 0)
    budget_give_back(t->budget, t->reserved);
  t->reserved = 0;
}

// ---- outputs ----

static const output_choice *choose(const infer_tensors *t, const char *name)
{
  for (size_t k = 0; k < t->choice_count; k++)
    if (strcmp(t->choices[k].name, name) == 0)
      return &t->choices[k];
  return &t->fallback;
}

static TRITONSERVER_MemoryType memory_type_of(const shared_span *span)
{
  return span->handle != NULL ? TRITONSERVER_MEMORY_GPU : TRITONSERVER_MEMORY_CPU;
}

// Triton's text.
static TRITONSERVER_Error *check_span(const output_choice *choice, size_t byte_size)
{
  char text[512];
  if (byte_size <= choice->span->byte_size)
    return NULL;
  snprintf(text, sizeof(text),
           "shared memory size specified with the request for output '%s' (%zu bytes) should be at "
           "least %zu bytes to hold the results",
           choice->name, choice->span->byte_size, byte_size);
  return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, text);
}

// Zeroed, so that a model that does not fill its output cannot show another client's data. The core
// clears pinned memory, except for backends that fill it (NEREID_BackendFills).
static void *allocate_memory(infer_tensors *t, output_buffer *output, size_t size,
                             TRITONSERVER_MemoryType *type)
{
  if (*type != TRITONSERVER_MEMORY_CPU && size > 0) {
    output->pinned = NEREID_ServerPinnedAllocate(t->server, NEREID_PINNED_REPLY, size);
    output->size = size;
    *type = TRITONSERVER_MEMORY_CPU_PINNED;
    if (output->pinned != NULL)
      return output->pinned;
  }
  *type = TRITONSERVER_MEMORY_CPU;
  if (size <= ARENA_MAX_BYTES && !t->many_responses) {
    void *memory = arena_allocate_tensor(t->arena, size);
    return memory == NULL ? NULL : memset(memory, 0, size);
  }
  output->memory = block_allocate_zeroed(size);
  output->size = size;
  return output->memory;
}

static TRITONSERVER_Error *out_of_memory(void)
{
  return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "out of memory for an output");
}

// Finds memory for the output. *type is the preferred kind on entry, the actual kind on return.
static TRITONSERVER_Error *find_memory(infer_tensors *t, output_buffer *output, size_t byte_size,
                                       void **memory, TRITONSERVER_MemoryType *type)
{
  const output_choice *choice = output->choice;
  if (choice->span != NULL) {
    *memory = choice->span->base;
    *type = memory_type_of(choice->span);
    return check_span(choice, byte_size);
  }
  if (byte_size >= BUDGET_MIN_BYTES) {
    if (!budget_take_work(t->budget, byte_size))
      return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, BUDGET_ANSWERS_FULL);
    output->reserved = byte_size;
  }
  *memory = allocate_memory(t, output, byte_size, type);
  return *memory == NULL ? out_of_memory() : NULL;
}

// Is the output changed before it is sent?
static bool is_converted(const infer_tensors *t, const output_choice *choice)
{
  return choice->span == NULL && (!choice->binary || choice->classification > 0 || t->packs);
}

static void drop_buffer(output_buffer *output)
{
  if (output->pinned != NULL)
    NEREID_ServerPinnedFree(output->tensors->server, NEREID_PINNED_REPLY, output->pinned,
                            output->size);
  block_free(output->memory, output->size);
  if (output->reserved > 0)
    budget_give_back(output->tensors->budget, output->reserved);
  if (output->tensors->many_responses)
    free(output); // allocated singly
}

static TRITONSERVER_Error *allocate(TRITONSERVER_ResponseAllocator *allocator,
                                    const char *tensor_name, size_t byte_size,
                                    TRITONSERVER_MemoryType preferred_type, int64_t preferred_id,
                                    void *tensors_pointer, void **buffer, void **buffer_userp,
                                    TRITONSERVER_MemoryType *actual_type, int64_t *actual_id)
{
  (void)allocator;
  (void)preferred_id;
  infer_tensors *t = tensors_pointer;
  // With many responses, buffers must not pile up in the arena.
  output_buffer *output = t->many_responses ? calloc(1, sizeof(*output))
                                            : arena_allocate_array(t->arena, 1, sizeof(*output));
  void *memory = NULL;
  if (output == NULL)
    return out_of_memory();
  *output = (output_buffer){.tensors = t, .choice = choose(t, tensor_name)};
  TRITONSERVER_Error *refused = find_memory(t, output, byte_size, &memory, &preferred_type);
  if (refused != NULL) {
    drop_buffer(output);
    return refused;
  }
  if (is_converted(t, output->choice))
    atomic_fetch_add_explicit(&t->converted_bytes, byte_size, memory_order_relaxed);
  t->ref(t->owner); // a backend may keep a response longer than its request
  *buffer = byte_size == 0 ? NULL : memory;
  *buffer_userp = output;
  *actual_type = preferred_type;
  *actual_id = output->choice->span != NULL ? output->choice->span->device : 0;
  return NULL;
}

static TRITONSERVER_Error *release(TRITONSERVER_ResponseAllocator *allocator, void *buffer,
                                   void *buffer_userp, size_t byte_size,
                                   TRITONSERVER_MemoryType type, int64_t id)
{
  (void)allocator;
  (void)buffer;
  (void)byte_size;
  (void)type;
  (void)id;
  output_buffer *output = buffer_userp;
  infer_tensors *t = output->tensors;
  void (*unref)(void *) = t->unref;
  void *owner = t->owner;
  drop_buffer(output);
  unref(owner); // frees `output` too, if it is in the owner's arena
  return NULL;
}

// As Triton does: an output that does not fit is refused when it is allocated.
static TRITONSERVER_Error *query(TRITONSERVER_ResponseAllocator *allocator, void *tensors_pointer,
                                 const char *tensor_name, size_t *byte_size,
                                 TRITONSERVER_MemoryType *type, int64_t *id)
{
  (void)allocator;
  const infer_tensors *t = tensors_pointer;
  const shared_span *span = tensor_name == NULL ? NULL : choose(t, tensor_name)->span;
  const bool fits = span != NULL && (byte_size == NULL || *byte_size <= span->byte_size);
  *type = fits ? memory_type_of(span) : TRITONSERVER_MEMORY_CPU;
  *id = fits ? span->device : 0;
  return NULL;
}

static TRITONSERVER_Error *add_handle(TRITONSERVER_ResponseAllocator *allocator,
                                      const char *tensor_name,
                                      TRITONSERVER_BufferAttributes *attributes,
                                      void *tensors_pointer, void *buffer_userp)
{
  (void)allocator;
  (void)tensor_name;
  (void)tensors_pointer;
  const output_buffer *output = buffer_userp;
  const shared_span *span = output->choice->span;
  return span == NULL || span->handle == NULL ? NULL
                                              : TRITONSERVER_BufferAttributesSetCudaIpcHandle(
                                                    attributes, (void *)(uintptr_t)span->handle);
}

error *infer_tensors_make_allocator(TRITONSERVER_ResponseAllocator **allocator)
{
  RETURN_IF_ERROR(
      error_from_abi(TRITONSERVER_ResponseAllocatorNew(allocator, allocate, release, NULL)));
  RETURN_IF_ERROR(
      error_from_abi(TRITONSERVER_ResponseAllocatorSetQueryFunction(*allocator, query)));
  return error_from_abi(
      TRITONSERVER_ResponseAllocatorSetBufferAttributesFunction(*allocator, add_handle));
}

// ---- responses ----

static error *read_parameter(TRITONSERVER_InferenceResponse *response, uint32_t index,
                             request_parameter *p)
{
  const void *value;
  const char *name;
  TRITONSERVER_ParameterType type;
  RETURN_IF_ERROR(error_from_abi(
      TRITONSERVER_InferenceResponseParameter(response, index, &name, &type, &value)));
  *p = (request_parameter){name, REQUEST_PARAMETER_STRING, {.string = value}};
  if (type == TRITONSERVER_PARAMETER_INT)
    *p = (request_parameter){name, REQUEST_PARAMETER_INT64, {.integer = *(const int64_t *)value}};
  else if (type == TRITONSERVER_PARAMETER_BOOL)
    *p = (request_parameter){name, REQUEST_PARAMETER_BOOL, {.boolean = *(const bool *)value}};
  else if (type == TRITONSERVER_PARAMETER_DOUBLE)
    *p = (request_parameter){name, REQUEST_PARAMETER_DOUBLE, {.real = *(const double *)value}};
  return NULL;
}

static error *read_parameters(TRITONSERVER_InferenceResponse *response, arena *a,
                              infer_response_json *json)
{
  uint32_t count;
  RETURN_IF_ERROR(error_from_abi(TRITONSERVER_InferenceResponseParameterCount(response, &count)));
  request_parameter *parameters = arena_allocate_array(a, (size_t)count + 1, sizeof(*parameters));
  if (parameters == NULL)
    return error_no_memory();
  for (uint32_t k = 0; k < count; k++)
    RETURN_IF_ERROR(read_parameter(response, k, &parameters[k]));
  json->parameters = parameters;
  json->parameter_count = count;
  return NULL;
}

// Replaces the output by its class strings, which are moved to the arena.
static error *classify(infer_tensors *t, arena *a, const class_scores *scores, uint64_t class_count,
                       response_output_json *o)
{
  class_strings *strings = arena_allocate_array(a, 1, sizeof(*strings));
  if (strings == NULL)
    return error_no_memory();
  error *e = classification_make(scores, class_count, strings);
  AUTO_BUFFER buffer elements = strings->elements;
  if (e == NULL)
    e = reserve(t, elements.size, BUDGET_ANSWERS_FULL);
  if (e != NULL)
    return e;
  *o = (response_output_json){.name = o->name,
                              .datatype = TRITONSERVER_TYPE_BYTES,
                              .shape = strings->shape,
                              .shape_count = strings->shape_count,
                              .data = arena_copy_text(a, buffer_view(&elements)),
                              .data_size = elements.size,
                              .form = o->form};
  return o->data != NULL ? NULL : error_no_memory();
}

static error *read_output(infer_tensors *t, TRITONSERVER_InferenceResponse *response,
                          uint32_t index, arena *a, response_output_json *o)
{
  uint64_t dim_count;
  TRITONSERVER_MemoryType memory_type;
  int64_t memory_id;
  void *tag;
  RETURN_IF_ERROR(error_from_abi(TRITONSERVER_InferenceResponseOutput(
      response, index, &o->name, &o->datatype, &o->shape, &dim_count, &o->data, &o->data_size,
      &memory_type, &memory_id, &tag)));
  const output_buffer *memory = tag; // NULL if the backend never asked for the buffer
  o->shape_count = dim_count;
  o->form = RESPONSE_DATA_JSON;
  if (memory == NULL)
    return NULL;
  const output_choice *choice = memory->choice;
  o->form = choice->span != NULL ? RESPONSE_DATA_SHARED_MEMORY
            : choice->binary     ? RESPONSE_DATA_BINARY
                                 : RESPONSE_DATA_JSON;
  const class_scores scores = {response, index, t->has_rows, *o};
  return choice->classification > 0 ? classify(t, a, &scores, choice->classification, o) : NULL;
}

static error *read_outputs(infer_tensors *t, TRITONSERVER_InferenceResponse *response, arena *a,
                           infer_response_json *json)
{
  uint32_t count;
  RETURN_IF_ERROR(error_from_abi(TRITONSERVER_InferenceResponseOutputCount(response, &count)));
  response_output_json *outputs = arena_allocate_array(a, (size_t)count + 1, sizeof(*outputs));
  if (outputs == NULL)
    return error_no_memory();
  for (uint32_t k = 0; k < count; k++)
    RETURN_IF_ERROR(read_output(t, response, k, a, &outputs[k]));
  json->outputs = outputs;
  json->output_count = count;
  return NULL;
}

error *infer_tensors_read(infer_tensors *t, TRITONSERVER_InferenceResponse *response, arena *a,
                          infer_response_json *json)
{
  RETURN_IF_ERROR(error_from_abi(
      TRITONSERVER_InferenceResponseModel(response, &json->model_name, &json->model_version)));
  RETURN_IF_ERROR(error_from_abi(TRITONSERVER_InferenceResponseId(response, &json->id)));
  for (size_t k = 0; k < t->span_count; k++)
    RETURN_IF_ERROR(shared_span_check(&t->spans[k]));
  RETURN_IF_ERROR(error_from_abi(TRITONSERVER_InferenceResponseError(response)));
  RETURN_IF_ERROR(read_parameters(response, a, json));
  return read_outputs(t, response, a, json);
}

// SPDX-License-Identifier: Apache-2.0
// Response factories and responses. Backends call this from any thread, one response on one thread
// at a time.
#include "request/response.h"

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "gpu/copy.h"
#include "request/output_check.h"
#include "request/padding_runs.h"
#include "request/parameter_list.h"
#include "request/response_allocator.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RESPONSE_ARENA_BYTES 576 // two outputs and some parameters

// Units of response_factory.holders.
#define REFERENCE ((uint64_t)1)
#define RIGHT     ((uint64_t)1 << 32)

response_factory *response_factory_new(request_target *target, slice id)
{
  size_t size;
  if (!checked_add_size(sizeof(response_factory), id.size, &size) ||
      !checked_add_size(size, 1, &size))
    return NULL;
  response_factory *f = malloc(size);
  if (f == NULL)
    return NULL;
  *f = (response_factory){.target = request_target_ref(target), .id_size = id.size};
  atomic_init(&f->holders, RIGHT + REFERENCE);
  atomic_fetch_add_explicit(&target->inflight, 1, memory_order_relaxed);
  if (id.size > 0)
    memcpy(f->id, id.data, id.size);
  f->id[id.size] = '\0';
  return f;
}

// Memory orders as in base/refcount.h.
static void hold(response_factory *f, uint64_t what)
{
  atomic_fetch_add_explicit(&f->holders, what, memory_order_relaxed);
}

static uint64_t let_go(response_factory *f, uint64_t what)
{
  uint64_t before = atomic_fetch_sub_explicit(&f->holders, what, memory_order_acq_rel);
  assert(before % RIGHT >= what % RIGHT && before / RIGHT >= what / RIGHT);
  return before - what;
}

response_factory *response_factory_ref(response_factory *f)
{
  hold(f, RIGHT + REFERENCE);
  return f;
}

// The backend dropped its last right to answer without an answer: the client gets an error. The
// caller holds a reference.
static void answer_abandoned(response_factory *f)
{
  response *r;
  error *e = response_new(f, &r);
  if (e != NULL) {
    error_free(e);
    error_free(response_factory_send_flags(f, TRITONSERVER_RESPONSE_COMPLETE_FINAL));
    return;
  }
  error_free(response_send(
      r, TRITONSERVER_RESPONSE_COMPLETE_FINAL,
      error_new(ERROR_INTERNAL,
                "[request id: %s] the backend of model '%s' released the request without an answer",
                f->id_size == 0 ? "<id_unknown>" : f->id, f->target->name)));
}

static void end_trace(response_factory *f)
{
  if (f->trace != NULL)
    trace_release(f->trace);
  f->trace = NULL;
}

static void end_cache_ticket(response_factory *f, response *r, uint32_t flags)
{
  cache_ticket *ticket = f->cache_ticket;
  f->cache_ticket = NULL;
  ticket->end(ticket, r, flags);
}

static void drop_reference(response_factory *f, uint64_t what)
{
  if (let_go(f, what) != 0)
    return;
  if (f->cache_ticket != NULL)
    end_cache_ticket(f, NULL, 0);
  end_trace(f);
  atomic_fetch_sub_explicit(&f->target->inflight, 1, memory_order_release);
  request_target_unref(f->target);
  free(f->run);
  free(f);
}

void response_factory_give_up_right(response_factory *f)
{
  bool owed = f->answer_owed && !atomic_load_explicit(&f->finished, memory_order_acquire);
  if (let_go(f, RIGHT) >= RIGHT)
    return;
  if (owed)
    answer_abandoned(f); // deleting that answer ends the trace
  else
    end_trace(f);
}

void response_factory_drop_reference(response_factory *f)
{
  drop_reference(f, REFERENCE);
}

void response_factory_unref(response_factory *f)
{
  if (f == NULL)
    return;
  if (f->trace == NULL &&
      (!f->answer_owed || atomic_load_explicit(&f->finished, memory_order_acquire))) {
    drop_reference(f, RIGHT + REFERENCE);
    return;
  }
  response_factory_give_up_right(f);
  drop_reference(f, REFERENCE);
}

static error *claim_flags(response_factory *f, uint32_t flags)
{
  bool final = (flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) != 0;
  bool was_finished = final ? atomic_exchange_explicit(&f->finished, true, memory_order_acq_rel)
                            : atomic_load_explicit(&f->finished, memory_order_acquire);
  if (was_finished)
    return error_new(
        ERROR_INVALID_ARG,
        "[request id: %s] model '%s' answered after its final response: the answer is dropped",
        f->id_size == 0 ? "<id_unknown>" : f->id, f->target->name);
  return NULL;
}

static void record_first_response(response_factory *f)
{
  if (f->target->first_response == NULL ||
      atomic_load_explicit(&f->first_response_ns, memory_order_relaxed) != 0)
    return;
  uint64_t none = 0, now = clock_monotonic_ns();
  if (atomic_compare_exchange_strong_explicit(&f->first_response_ns, &none, now,
                                              memory_order_relaxed, memory_order_relaxed))
    response_histogram_add(f->target->first_response, now - f->start_ns);
}

error *response_factory_send_flags(response_factory *f, uint32_t flags)
{
  RETURN_IF_ERROR(claim_flags(f, flags));
  bool final = (flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) != 0;
  if (f->ordering == NULL || !final) {
    f->callback(NULL, flags, f->callback_context);
    return NULL;
  }
  f->final_answer = (ordered_answer){.factory = response_factory_ref(f), .flags = flags};
  ordering_deliver(f->ordering, &f->slot, &f->final_answer.payload, true);
  return NULL;
}

error *response_new(response_factory *f, response **result)
{
  response *r = malloc(sizeof(*r) + RESPONSE_ARENA_BYTES);
  if (r == NULL)
    return error_no_memory();
  *r = (response){.factory = response_factory_ref(f)};
  arena_init(&r->memory, r->initial_memory, RESPONSE_ARENA_BYTES);
  struct TRITONSERVER_ResponseAllocator *allocator = f->allocator;
  if (allocator != NULL && allocator->start != NULL) {
    error *e = (error *)allocator->start(allocator, f->allocator_context);
    if (e != NULL) {
      response_free(r);
      return e;
    }
  }
  *result = r;
  return NULL;
}

static void release_output(response *r, response_output *output)
{
  struct TRITONSERVER_ResponseAllocator *allocator = r->factory->allocator;
  if (output->scratch != NULL)
    free(output->scratch);
  if (!output->allocated)
    return;
  error *e = (error *)allocator->release(
      allocator, output->buffer, output->buffer_context, output->attributes.byte_size,
      output->attributes.memory_type, output->attributes.memory_type_id);
  error_free(e);
}

void response_free(response *r)
{
  if (r == NULL)
    return;
  for (response_output *output = r->outputs; output != NULL; output = output->next)
    release_output(r, output);
  error_free(r->failure);
  arena_fini(&r->memory);
  if (r->sent)
    drop_reference(r->factory, REFERENCE);
  else
    response_factory_unref(r->factory);
  free(r);
}

// Whether dims match the configuration's reshape. As in Triton, a scalar may lack the batch
// dimension.
static bool is_reshaped(const tensor_signature *signature, bool has_batch, const int64_t *dims,
                        uint32_t dim_count)
{
  return signature->has_reshape && dim_count == signature->reshape_count + has_batch &&
         signature_dims_match(signature->reshape, dims + has_batch, signature->reshape_count);
}

// Writes the client's shape into output->dims: the backend's, or the configured one if the
// backend's is its reshape.
static bool set_output_dims(response *r, response_output *output, const tensor_signature *signature,
                            const int64_t *dims, uint32_t dim_count)
{
  bool has_batch = r->factory->target->signature.max_batch_size > 0 && dim_count > 0;
  bool reshaped = is_reshaped(signature, has_batch, dims, dim_count);
  uint32_t wanted = reshaped ? signature->dim_count + has_batch : dim_count;
  output->dims = arena_allocate_array(&r->memory, wanted, sizeof(*output->dims));
  if (output->dims == NULL)
    return false;
  output->dim_count = wanted;
  if (!reshaped) {
    if (dim_count > 0)
      memcpy(output->dims, dims, dim_count * sizeof(int64_t));
    return true;
  }
  // The reshape's variable dims have the values of the shape's variable dims, in order.
  uint32_t to = 0, variable = 0;
  if (has_batch)
    output->dims[to++] = dims[0];
  for (uint32_t i = 0; i < signature->dim_count; i++) {
    int64_t dim = signature->dims[i];
    if (dim < 0) {
      while (variable < signature->reshape_count && signature->reshape[variable] >= 0)
        variable++;
      dim = has_batch + variable < dim_count ? dims[has_batch + variable] : 0;
      variable++;
    }
    output->dims[to++] = dim;
  }
  return true;
}

static bool has_output(const response *r, slice name)
{
  for (const response_output *output = r->outputs; output != NULL; output = output->next) {
    if (slice_equal(output->name, name))
      return true;
  }
  return false;
}

// The error is Triton's.
static error *refuse_unconfigured(const request_target *target, const char *name)
{
  RETURN_IF_ERROR(output_unconfigured(target, name));
  return error_new(ERROR_INVALID_ARG, "unexpected inference output '%s' for model '%s'", name,
                   target->name);
}

static void append_output(response *r, response_output *output, slice name,
                          TRITONSERVER_DataType datatype)
{
  output->response = r;
  output->name = name;
  output->datatype = datatype;
  if (r->last_output == NULL)
    r->outputs = output;
  else
    r->last_output->next = output;
  r->last_output = output;
  r->output_count++;
}

error *response_add_output(response *r, const char *name, TRITONSERVER_DataType datatype,
                           const int64_t *dims, uint32_t dim_count, response_output **result)
{
  const request_target *target = r->factory->target;
  const tensor_signature *signature = signature_find_output(&target->signature, slice_of(name));
  if (signature == NULL)
    return refuse_unconfigured(target, name);
  if (has_output(r, signature->name))
    RETURN_IF_ERROR(output_repeated(target, signature));
  if (!output_fits(target, signature, datatype, dims, dim_count))
    RETURN_IF_ERROR(output_misfit(target, signature, datatype, dims, dim_count));
  response_output *output = arena_allocate_array(&r->memory, 1, sizeof(*output));
  if (output == NULL || !set_output_dims(r, output, signature, dims, dim_count))
    return error_no_memory();
  append_output(r, output, signature->name, datatype);
  if (signature->padded != NULL)
    padding_cut_dims(output);
  *result = output;
  return NULL;
}

response_output *response_restore_output(response *r, slice name, TRITONSERVER_DataType datatype,
                                         const int64_t *dims, uint32_t dim_count)
{
  const tensor_signature *signature = signature_find_output(&r->factory->target->signature, name);
  if (signature == NULL || has_output(r, name))
    return NULL;
  response_output *output = arena_allocate_array(&r->memory, 1, sizeof(*output));
  if (output == NULL)
    return NULL;
  output->dims = (int64_t *)dims;
  output->dim_count = dim_count;
  append_output(r, output, signature->name, datatype);
  return output;
}

error *response_allocate(const response_factory *f, const char *name, buffer_attributes *attributes,
                         void **buffer, void **buffer_context)
{
  struct TRITONSERVER_ResponseAllocator *allocator = f->allocator;
  error *e = (error *)allocator->allocate(allocator, name, attributes->byte_size,
                                          attributes->memory_type, attributes->memory_type_id,
                                          f->allocator_context, buffer, buffer_context,
                                          &attributes->memory_type, &attributes->memory_type_id);
  if (e != NULL || allocator->buffer_attributes == NULL)
    return e;
  e = (error *)allocator->buffer_attributes(allocator, name, attributes, f->allocator_context,
                                            *buffer_context);
  if (e != NULL)
    error_free((error *)allocator->release(allocator, *buffer, *buffer_context,
                                           attributes->byte_size, attributes->memory_type,
                                           attributes->memory_type_id));
  return e;
}

void response_output_take_over(response_output *output, const response_output *from,
                               void *buffer_context)
{
  assert(!output->allocated && from->allocated);
  output->allocated = true;
  output->buffer = from->buffer;
  output->buffer_context = buffer_context;
  output->attributes = from->attributes;
}

// Whether to tell the backend that pinned memory is plain memory. A foreign backend that asks for
// GPU memory is told so: Triton's front ends have no pinned memory, and NVIDIA's python backend
// does not write to it but reports success.
static bool hears_of_plain(const response_output *output, TRITONSERVER_MemoryType wanted)
{
  return output->attributes.memory_type == TRITONSERVER_MEMORY_CPU_PINNED &&
         wanted == TRITONSERVER_MEMORY_GPU && output->response->factory->target->leaves_gaps;
}

static error *allocate_at(response_output *output, size_t byte_size,
                          TRITONSERVER_MemoryType *memory_type, int64_t *memory_type_id,
                          void **buffer)
{
  output->attributes = (buffer_attributes){
      .byte_size = byte_size, .memory_type = *memory_type, .memory_type_id = *memory_type_id};
  RETURN_IF_ERROR(response_allocate(output->response->factory, output->name.data,
                                    &output->attributes, &output->buffer, &output->buffer_context));
  output->allocated = true;
  *buffer = output->buffer;
  if (output->attributes.memory_type == TRITONSERVER_MEMORY_CPU_PINNED && *buffer != NULL &&
      output->response->factory->target->leaves_gaps)
    memset(*buffer, 0, byte_size);
  *memory_type = hears_of_plain(output, *memory_type) ? TRITONSERVER_MEMORY_CPU
                                                      : output->attributes.memory_type;
  *memory_type_id = output->attributes.memory_type_id;
  return NULL;
}

// Memory to which the backend writes a padded output, which is cut when it is sent.
static error *allocate_scratch(response_output *output, size_t byte_size, void **buffer)
{
  const size_t size = byte_size > 0 ? byte_size : 1;
  output->scratch = output->response->factory->target->leaves_gaps ? calloc(1, size) : malloc(size);
  if (output->scratch == NULL)
    return error_no_memory();
  output->scratch_size = byte_size;
  output->response->has_scratch = true;
  *buffer = output->scratch;
  return NULL;
}

error *response_output_allocate(response_output *output, size_t byte_size,
                                TRITONSERVER_MemoryType *memory_type, int64_t *memory_type_id,
                                void **buffer)
{
  const response_factory *f = output->response->factory;
  if (output->allocated || output->scratch != NULL)
    return error_new(ERROR_ALREADY_EXISTS, "model '%s' asked twice for the buffer of output '%s'",
                     f->target->name, output->name.data);
  if (f->allocator == NULL)
    return error_new(ERROR_INTERNAL, "the request for model '%s' has no response allocator",
                     f->target->name);
  // The receiver of the final response may have freed the allocator's data.
  if (atomic_load_explicit(&f->finished, memory_order_acquire))
    return error_new(ERROR_INTERNAL,
                     "model '%s' asked for the buffer of output '%s' after its final response",
                     f->target->name, output->name.data);
  if (output->cut != NULL) {
    *memory_type = TRITONSERVER_MEMORY_CPU;
    *memory_type_id = 0;
    return allocate_scratch(output, byte_size, buffer);
  }
  return allocate_at(output, byte_size, memory_type, memory_type_id, buffer);
}

static error *cut_to_device(const response_output *output, const padding_runs *runs, void *to,
                            int device)
{
  char what[128];
  size_t size = runs->outer * runs->to;
  void *cut AUTO_FREE = malloc(size > 0 ? size : 1);
  if (cut == NULL)
    return error_no_memory();
  padding_cut(cut, output->scratch, runs);
  snprintf(what, sizeof(what), "output '%.100s'", output->name.data);
  return gpu_copy_now(to, (gpu_place){GPU_MEMORY_DEVICE, device}, cut,
                      (gpu_place){GPU_MEMORY_HOST, 0}, size, what);
}

static error *cut_output(response_output *output)
{
  padding_runs runs;
  const response_factory *f = output->response->factory;
  TRITONSERVER_MemoryType place = TRITONSERVER_MEMORY_CPU;
  int64_t place_id = 0;
  void *buffer;
  if (!padding_output_runs(output, &runs))
    return error_new(ERROR_INTERNAL,
                     "model '%s' wrote %zu bytes of output '%s', expected those of its shape, "
                     "which is padded to a length of %" PRId64,
                     f->target->name, output->scratch_size, output->name.data, f->padded_length);
  RETURN_IF_ERROR(allocate_at(output, runs.outer * runs.to, &place, &place_id, &buffer));
  if (place == TRITONSERVER_MEMORY_GPU)
    return cut_to_device(output, &runs, buffer, (int)place_id);
  padding_cut(buffer, output->scratch, &runs);
  return NULL;
}

static error *cut_outputs(response *r)
{
  for (response_output *output = r->outputs; output != NULL; output = output->next)
    if (output->scratch != NULL)
      RETURN_IF_ERROR(cut_output(output));
  return NULL;
}

error *response_set_parameter(response *r, const char *name, parameter value)
{
  return parameter_list_set(&r->memory, &r->parameters, &r->parameter_count, name, value);
}

static void deliver(response *r, uint32_t flags)
{
  response_factory *f = r->factory;
  if (f->ordering == NULL) {
    f->callback(r, flags, f->callback_context);
    return;
  }
  r->answer = (ordered_answer){.response = r, .factory = response_factory_ref(f), .flags = flags};
  ordering_deliver(f->ordering, &f->slot, &r->answer.payload,
                   (flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) != 0);
}

error *response_send(response *r, uint32_t flags, error *failure_owned)
{
  response_factory *f = r->factory;
  error *refused = claim_flags(f, flags);
  if (refused != NULL) {
    error_free(failure_owned);
    response_free(r);
    return refused;
  }
  r->failure = failure_owned;
  if (r->has_scratch && r->failure == NULL)
    r->failure = cut_outputs(r);
  record_first_response(f);
  if (f->cache_ticket != NULL)
    end_cache_ticket(f, r, flags);
  if (f->trace != NULL)
    trace_report_outputs(f->trace, r);
  if ((flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) != 0) {
    deliver(r, flags);
    return NULL;
  }
  r->sent = true;
  hold(f, REFERENCE); // the response's right may be the last one
  deliver(r, flags);
  response_factory_unref(f);
  return NULL;
}

void response_send_ordered(void *context, ordering_payload *payload_owned)
{
  (void)context;
  const ordered_answer *answer = container_of(payload_owned, ordered_answer, payload);
  response_factory *f = answer->factory; // the client may free the answer
  f->callback(answer->response, answer->flags, f->callback_context);
  response_factory_unref(f);
}

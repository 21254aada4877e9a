// SPDX-License-Identifier: Apache-2.0
// Requests: filling, reading, giving back. request_prepare.c checks them against the model.
#include "request/request.h"

#include "base/blocks.h"
#include "base/buffer.h"
#include "base/checked.h"
#include "base/clock.h"
#include "request/parameter_list.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define REQUEST_ARENA_BYTES 1024

error *request_new(request_target *target, request **result)
{
  request *r = malloc(sizeof(*r) + REQUEST_ARENA_BYTES);
  if (r == NULL)
    return error_no_memory();
  memset(r, 0, sizeof(*r));
  r->target = request_target_ref(target);
  r->id = (slice){"", 0};
  arena_init(&r->memory, NULL, 0);
  arena_init(&r->input_memory, r->initial_memory, REQUEST_ARENA_BYTES);
  *result = r;
  return NULL;
}

void request_drop_factory(request *r)
{
  if (r->may_answer)
    response_factory_unref(r->factory);
  else if (r->factory != NULL)
    response_factory_drop_reference(r->factory);
  r->factory = NULL;
}

void request_free(request *r)
{
  if (r == NULL)
    return;
  assert(r->states == NULL);
  if (r->times.start == 0) // never submitted: the client's message was malformed
    statistics_count_refusal(&r->target->shared_statistics, REFUSED_MALFORMED);
  arena_fini(&r->memory);
  arena_fini(&r->input_memory);
  request_drop_factory(r);
  request_target_unref(r->target);
  free(r);
}

error *request_error(const request *r, error_code code, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  error *inner = error_new_va(code, format, arguments);
  va_end(arguments);
  error *e = error_new(code, "[request id: %.256s] %s",
                       r->id.size == 0 ? "<id_unknown>" : r->id.data, error_message(inner));
  error_free(inner);
  return e;
}

error *request_set_id(request *r, const char *id)
{
  slice text = slice_of(id);
  if (text.size <= r->id.size && r->id.size > 0) { // it fits the old place
    memmove((char *)r->id.data, id, text.size + 1);
    r->id.size = text.size;
    return NULL;
  }
  const char *copy = arena_copy_text(&r->memory, text);
  if (copy == NULL)
    return error_no_memory();
  r->id = (slice){copy, text.size};
  return NULL;
}

error *request_set_correlation_text(request *r, const char *text)
{
  r->correlation_text = arena_copy_text(&r->memory, slice_of(text));
  return r->correlation_text == NULL ? error_no_memory() : NULL;
}

error *request_set_parameter(request *r, const char *name, parameter value)
{
  return parameter_list_set(&r->memory, &r->parameters, &r->parameter_count, name, value);
}

static request_input *find_input(const request *r, slice name)
{
  for (uint32_t i = 0; i < r->input_count; i++) {
    if (slice_equal(r->inputs[i].name, name))
      return &r->inputs[i];
  }
  return NULL;
}

request_input *request_find_input(request *r, const char *name)
{
  return find_input(r, slice_of(name));
}

static error *missing_input(const request *r, const char *name)
{
  return request_error(r, ERROR_INVALID_ARG, "input '%s' does not exist in request", name);
}

error *request_add_input(request *r, const char *name, TRITONSERVER_DataType datatype,
                         const int64_t *dims, uint64_t dim_count, bool raw)
{
  slice text = slice_of(name);
  size_t dims_bytes;
  if (find_input(r, text) != NULL)
    return request_error(r, ERROR_INVALID_ARG, "input '%s' already exists in request", name);
  if (dim_count > UINT32_MAX || !checked_multiply_size(dim_count, sizeof(int64_t), &dims_bytes))
    return error_no_memory();
  request_input *inputs =
      arena_grow_array(&r->input_memory, r->inputs, r->input_count, sizeof(*inputs));
  if (inputs == NULL)
    return error_no_memory();
  r->inputs = inputs;
  const char *copy = arena_copy_text(&r->input_memory, text);
  int64_t *dims_copy = arena_allocate(&r->input_memory, dims_bytes);
  if (copy == NULL || dims_copy == NULL)
    return error_no_memory();
  if (dims_bytes > 0)
    memcpy(dims_copy, dims, dims_bytes);
  r->inputs[r->input_count++] = (request_input){
      .name = {copy, text.size},
      .datatype = datatype,
      .raw = raw,
      .given_dims = dims_copy,
      .given_dim_count = (uint32_t)dim_count,
  };
  return NULL;
}

error *request_add_override(request *r, const char *name, TRITONSERVER_DataType datatype,
                            const int64_t *dims, uint64_t dim_count)
{
  RETURN_IF_ERROR(request_add_input(r, name, datatype, dims, dim_count, false));
  request_input *input = &r->inputs[r->input_count - 1];
  input->dims = (int64_t *)input->given_dims;
  input->dim_count = input->given_dim_count;
  return NULL;
}

// Makes `inputs` a copy, so that changes do not reach the client's.
static error *begin_overrides(request *r)
{
  request_input *copy =
      arena_allocate_array(&r->input_memory, 2 * (size_t)r->input_count, sizeof(*copy));
  if (copy == NULL)
    return error_no_memory();
  if (r->input_count > 0)
    memcpy(copy, r->inputs, r->input_count * sizeof(*copy));
  r->given_inputs = r->inputs;
  r->given_input_count = r->input_count;
  r->inputs = copy;
  r->has_overrides = true;
  return NULL;
}

// The override of this name, with room for one segment. NULL when memory is short.
static request_input *find_override(request *r, const char *name)
{
  request_input *input = find_input(r, slice_of(name));
  if (input != NULL && input->is_override)
    return input;
  request_input *inputs = input != NULL ? r->inputs
                                        : arena_grow_array(&r->input_memory, r->inputs,
                                                           r->input_count, sizeof(*inputs));
  const char *copy = arena_copy_text(&r->input_memory, slice_of(name));
  input_segment *segment = arena_allocate(&r->input_memory, sizeof(*segment));
  if (inputs == NULL || copy == NULL || segment == NULL)
    return NULL;
  r->inputs = inputs;
  input = input != NULL ? input : &inputs[r->input_count++];
  *input =
      (request_input){.name = slice_of(copy), .data = {.segments = segment}, .is_override = true};
  return input;
}

static error *set_override_dims(request *r, request_input *input, const int64_t *dims,
                                uint32_t dim_count)
{
  if (input->dims == NULL || input->dim_count < dim_count)
    input->dims = arena_allocate_array(&r->input_memory, dim_count, sizeof(*dims));
  if (input->dims == NULL)
    return error_no_memory();
  if (dim_count > 0)
    memcpy(input->dims, dims, dim_count * sizeof(*dims));
  input->dim_count = dim_count;
  return NULL;
}

error *request_set_override(request *r, const char *name, TRITONSERVER_DataType datatype,
                            const int64_t *dims, uint32_t dim_count, input_segment segment)
{
  if (!r->has_overrides)
    RETURN_IF_ERROR(begin_overrides(r));
  request_input *input = find_override(r, name);
  if (input == NULL)
    return error_no_memory();
  RETURN_IF_ERROR(set_override_dims(r, input, dims, dim_count));
  input->datatype = datatype;
  input->data.segments[0] = segment;
  input->data.segment_count = segment.size > 0;
  input->data.byte_size = segment.size;
  return NULL;
}

void request_drop_overrides(request *r)
{
  if (!r->has_overrides)
    return;
  r->inputs = r->given_inputs;
  r->input_count = r->given_input_count;
  r->given_inputs = NULL;
  r->has_overrides = false;
}

error *request_remove_input(request *r, const char *name)
{
  request_input *input = request_find_input(r, name);
  if (input == NULL)
    return missing_input(r, name);
  size_t after = (size_t)(r->inputs + r->input_count - (input + 1));
  memmove(input, input + 1, after * sizeof(*input));
  r->input_count--;
  return NULL;
}

void request_remove_inputs(request *r)
{
  arena_fini(&r->input_memory);
  arena_init(&r->input_memory, r->initial_memory, REQUEST_ARENA_BYTES);
  r->inputs = NULL;
  r->input_count = 0;
  r->on_device = false;
}

static buffer_attributes *copy_attributes(request *r, const buffer_attributes *attributes)
{
  buffer_attributes *copy = arena_allocate_array(&r->input_memory, 1, sizeof(*copy));
  if (copy != NULL)
    *copy = *attributes;
  return copy;
}

static error *append_segment(request *r, const char *name, input_data *data, input_segment segment)
{
  size_t total;
  if (!checked_add_size(data->byte_size, segment.size, &total))
    return request_error(r, ERROR_INVALID_ARG, "the data of input '%s' is larger than memory",
                         name);
  if (segment.size == 0)
    return NULL; // nothing to read: Triton drops empty buffers too
  input_segment *segments =
      arena_grow_array(&r->input_memory, data->segments, data->segment_count, sizeof(*segments));
  if (segments == NULL)
    return error_no_memory();
  if (segment.attributes != NULL &&
      (segment.attributes = copy_attributes(r, segment.attributes)) == NULL)
    return error_no_memory();
  r->on_device |= segment.memory_type == TRITONSERVER_MEMORY_GPU;
  segments[data->segment_count++] = segment;
  data->segments = segments;
  data->byte_size = total;
  return NULL;
}

error *request_append_input_data(request *r, const char *name, input_segment segment)
{
  request_input *input = request_find_input(r, name);
  return input == NULL ? missing_input(r, name) : append_segment(r, name, &input->data, segment);
}

const input_data *request_input_data(const request_input *input, const char *policy)
{
  for (const policy_data *p = input->policies; p != NULL && policy != NULL; p = p->next)
    if (slice_equal_text(p->policy, policy))
      return &p->data;
  return &input->data;
}

static input_data *add_policy(request *r, request_input *input, const char *policy)
{
  policy_data *added = arena_allocate_array(&r->input_memory, 1, sizeof(*added));
  char *name = arena_copy_text(&r->input_memory, slice_of(policy));
  if (added == NULL || name == NULL)
    return NULL;
  *added = (policy_data){.policy = slice_of(name), .next = input->policies};
  input->policies = added;
  return &added->data;
}

error *request_append_policy_data(request *r, const char *name, input_segment segment,
                                  const char *policy)
{
  request_input *input = request_find_input(r, name);
  if (input == NULL)
    return missing_input(r, name);
  input_data *data = (input_data *)request_input_data(input, policy);
  if (data == &input->data)
    data = add_policy(r, input, policy); // it has its own data from now on, maybe none
  return data == NULL ? error_no_memory() : append_segment(r, name, data, segment);
}

error *request_remove_input_data(request *r, const char *name)
{
  request_input *input = request_find_input(r, name);
  if (input == NULL)
    return missing_input(r, name);
  input->data = (input_data){0};
  input->policies = NULL;
  return NULL;
}

static uint32_t find_output(const request *r, slice name)
{
  uint32_t index = 0;
  while (index < r->requested_output_count && !slice_equal(r->requested_outputs[index], name))
    index++;
  return index;
}

error *request_add_output(request *r, const char *name)
{
  slice text = slice_of(name);
  if (find_output(r, text) < r->requested_output_count)
    return NULL; // it is given once, as by Triton 2.51
  slice *outputs = arena_grow_array(&r->memory, r->requested_outputs, r->requested_output_count,
                                    sizeof(*outputs));
  const char *copy = arena_copy_text(&r->memory, text);
  if (outputs == NULL || copy == NULL)
    return error_no_memory();
  r->requested_outputs = outputs;
  r->requested_outputs[r->requested_output_count++] = (slice){copy, text.size};
  return NULL;
}

error *request_remove_output(request *r, const char *name)
{
  uint32_t index = find_output(r, slice_of(name));
  if (index == r->requested_output_count)
    return NULL;
  r->requested_output_count--;
  memmove(&r->requested_outputs[index], &r->requested_outputs[index + 1],
          (r->requested_output_count - index) * sizeof(*r->requested_outputs));
  return NULL;
}

void request_remove_outputs(request *r)
{
  r->requested_output_count = 0;
}

uint32_t request_output_count(const request *r)
{
  if (r->requested_output_count > 0 || r->is_null)
    return r->requested_output_count;
  return (uint32_t)r->target->signature.output_count;
}

slice request_output_name(const request *r, uint32_t index)
{
  return r->requested_output_count > 0 ? r->requested_outputs[index]
                                       : r->target->signature.outputs[index].name;
}

error *request_check_reschedule(const request *r)
{
  bool ends = (r->flags & TRITONSERVER_REQUEST_FLAG_SEQUENCE_END) != 0;
  if (r->target->reschedules && r->item.sequence != NULL && !ends)
    return NULL;
  return error_new(ERROR_INVALID_ARG,
                   "Request is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, while the "
                   "model is not configured to handle such a flag.");
}

static void give_back_inputs(request *r)
{
  r->inputs = r->given->inputs;
  r->input_count = r->given->count;
  free(r->given);
  r->given = NULL;
}

static void give_back_fetched(request *r)
{
  while (r->fetched != NULL) {
    fetched_input *f = r->fetched;
    r->fetched = f->next;
    *f->data = f->given;
    block_free((void *)f->segment.base, f->segment.size);
    free(f);
  }
}

void request_release(request *r, uint32_t release_flags)
{
  assert(r->factory != NULL && r->release_callback != NULL);
  if (r->given != NULL)
    give_back_inputs(r);
  if (r->on_device)
    give_back_fetched(r);
  if (r->slot != NULL) {
    request *expected = r; // the instance may point to another request by now
    atomic_compare_exchange_strong_explicit(r->slot, &expected, NULL, memory_order_acq_rel,
                                            memory_order_relaxed);
    r->slot = NULL;
  }
  if (r->target->released != NULL &&
      r->target->released(r->target->released_context, r, release_flags))
    return;
  trace *t = r->may_answer ? r->factory->trace : NULL;
  if (t != NULL)
    trace_report(t, TRITONSERVER_TRACE_REQUEST_END, clock_monotonic_ns());
  // The client may keep the request to cancel later answers: that must not count as a right to
  // answer.
  if (r->may_answer &&
      (t != NULL || !atomic_load_explicit(&r->factory->finished, memory_order_acquire))) {
    r->may_answer = false;
    response_factory_give_up_right(r->factory);
  }
  request_set_state(r, REQUEST_RELEASED);
  r->release_callback(r, release_flags, r->release_context);
}

// Requests: filling, reading, giving back. Checking against the model is request_prepare.c.
#include "request/request.h"

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
  if (r->times.start == 0) // never submitted: what it was made from could not be read to its end
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
  if (text.size <= r->id.size && r->id.size > 0) { // the old place is large enough
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
    data = add_policy(r, input, policy); // it has data from now on, be it nothing
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
  return r->requested_output_count > 0 ? r->requested_output_count
                                       : (uint32_t)r->target->signature.output_count;
}

slice request_output_name(const request *r, uint32_t index)
{
  return r->requested_output_count > 0 ? r->requested_outputs[index]
                                       : r->target->signature.outputs[index].name;
}

void request_release(request *r, uint32_t release_flags)
{
  assert(r->factory != NULL && r->release_callback != NULL);
  if (r->slot != NULL) {
    request *self = r; // by now the instance may have another one there
    atomic_compare_exchange_strong_explicit(r->slot, &self, NULL, memory_order_acq_rel,
                                            memory_order_relaxed);
    r->slot = NULL;
  }
  trace *t = r->may_answer ? r->factory->trace : NULL;
  if (t != NULL)
    trace_report(t, TRITONSERVER_TRACE_REQUEST_END, clock_monotonic_ns());
  // The client may keep it, to cancel what still answers: that must not count as another who can.
  if (r->may_answer &&
      (t != NULL || !atomic_load_explicit(&r->factory->finished, memory_order_acquire))) {
    r->may_answer = false;
    response_factory_give_up_right(r->factory);
  }
  request_set_state(r, REQUEST_RELEASED);
  r->release_callback(r, release_flags, r->release_context);
}

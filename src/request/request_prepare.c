// SPDX-License-Identifier: Apache-2.0
// Checks a request against its model. The texts are Triton's, since clients match on them. Runs on
// the caller's thread before the request is queued.
#include "request/padding.h"
#include "request/request.h"

#include "base/buffer.h"
#include "base/checked.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#define NO_ROWS "its batch dimension is 0, expected at least 1"

// Appends one name of a list 'A','B'.
static void append_names(buffer *b, bool first, slice name)
{
  buffer_append_format(b, "%s'%s'", first ? "" : ",", name.data);
}

static error *wrong_input_count(const request *r)
{
  const model_signature *s = &r->target->signature;
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  if (s->required_input_count == s->input_count)
    buffer_append_format(&text, "expected %zu inputs", s->input_count);
  else
    buffer_append_format(&text, "expected number of inputs between %zu and %zu",
                         s->required_input_count, s->input_count);
  buffer_append_format(&text, " but got %" PRIu32 " inputs for model '%s'. Got input(s) [",
                       r->input_count, r->target->name);
  for (uint32_t i = 0; i < r->input_count; i++)
    append_names(&text, i == 0, r->inputs[i].name);
  buffer_append_text(&text, "], but missing required input(s) [");
  bool first = true;
  for (size_t i = 0; i < s->input_count; i++) {
    if (s->inputs[i].optional || request_find_input((request *)r, s->inputs[i].name.data) != NULL)
      continue;
    append_names(&text, first, s->inputs[i].name);
    first = false;
  }
  buffer_append_text(&text, "]. Please provide all required input(s).");
  buffer_append_char(&text, '\0');
  return text.failed ? error_no_memory() : request_error(r, ERROR_INVALID_ARG, "%s", text.data);
}

// As in Triton only the number of inputs counts: with an optional input in place of a required one
// the model decides.
static error *check_inputs_exist(request *r)
{
  const model_signature *s = &r->target->signature;
  if (r->input_count > s->input_count || r->input_count < s->required_input_count)
    return wrong_input_count(r);
  for (uint32_t i = 0; i < r->input_count; i++) {
    request_input *input = &r->inputs[i];
    input->signature = signature_find_input(s, input->name);
    if (input->signature == NULL)
      return error_new(ERROR_INVALID_ARG, "unexpected inference input '%s' for model '%s'",
                       input->name.data, r->target->name);
  }
  return NULL;
}

static error *check_outputs_exist(const request *r)
{
  for (uint32_t i = 0; i < r->requested_output_count; i++) {
    if (signature_find_output(&r->target->signature, r->requested_outputs[i]) == NULL)
      return error_new(ERROR_INVALID_ARG, "unexpected inference output '%s' for model '%s'",
                       r->requested_outputs[i].data, r->target->name);
  }
  return NULL;
}

static error *deduce_raw_shape(request *r, request_input *input, int64_t *dims, uint32_t first)
{
  const tensor_signature *t = input->signature;
  uint32_t variable = UINT32_MAX;
  int64_t elements = 1;
  for (uint32_t i = 0; i < t->dim_count; i++) {
    dims[first + i] = t->dims[i];
    if (t->dims[i] >= 0) {
      if (!checked_multiply_int64(elements, t->dims[i], &elements))
        return request_error(r, ERROR_INVALID_ARG, "the shape of the raw input '%s' is too large",
                             t->name.data);
    } else if (variable != UINT32_MAX) {
      return request_error(
          r, ERROR_INVALID_ARG,
          "The shape of the raw input '%s' can not be deduced because there are more than one "
          "variable-sized dimension",
          t->name.data);
    } else {
      variable = first + i;
    }
  }
  if (t->datatype == TRITONSERVER_TYPE_BYTES) {
    if (variable != UINT32_MAX || elements != 1)
      return request_error(r, ERROR_INVALID_ARG,
                           "For BYTE datatype raw input '%s', the model must have input shape [1]",
                           t->name.data);
    return NULL;
  }
  size_t element_bytes = datatype_byte_size(t->datatype);
  if (variable != UINT32_MAX)
    dims[variable] =
        elements == 0 ? 0 : (int64_t)(input->data.byte_size / element_bytes) / elements;
  return NULL;
}

// Puts the four length bytes, which a raw BYTES element lacks, before its data.
static error *prefix_raw_bytes(request *r, request_input *input)
{
  if (input->data.byte_size > UINT32_MAX || input->data.segment_count > 1)
    return request_error(r, ERROR_INVALID_ARG,
                         "the raw BYTES input '%s' is larger than one element can be: %zu bytes",
                         input->name.data, input->data.byte_size);
  input_segment *segments = arena_allocate_array(&r->input_memory, 2, sizeof(*segments));
  if (segments == NULL)
    return error_no_memory();
  input->raw_length_prefix = (uint32_t)input->data.byte_size;
  segments[0] = (input_segment){.base = &input->raw_length_prefix, .size = sizeof(uint32_t)};
  if (input->data.segment_count == 1)
    segments[1] = input->data.segments[0];
  input->data.segments = segments;
  input->data.segment_count++;
  input->data.byte_size += sizeof(uint32_t);
  return NULL;
}

static error *complete_raw_input(request *r)
{
  const model_signature *s = &r->target->signature;
  request_input *input = &r->inputs[0];
  if (r->input_count != 1 || s->input_count != 1)
    return request_error(r, ERROR_INVALID_ARG,
                         "Raw request must only have 1 input (found %" PRIu32
                         ") to be deduced but got %zu inputs in '%s' "
                         "model configuration",
                         r->input_count, s->input_count, r->target->name);
  bool batched = s->max_batch_size > 0;
  const tensor_signature *t = &s->inputs[0];
  int64_t *dims = arena_allocate_array(&r->input_memory, t->dim_count + 1, sizeof(*dims));
  if (dims == NULL)
    return error_no_memory();
  dims[0] = 1;
  input->signature = t;
  input->name = t->name;
  input->datatype = t->datatype;
  RETURN_IF_ERROR(deduce_raw_shape(r, input, dims, batched));
  input->given_dims = dims;
  input->given_dim_count = t->dim_count + batched;
  input->raw = false;
  return t->datatype == TRITONSERVER_TYPE_BYTES ? prefix_raw_bytes(r, input) : NULL;
}

static error *find_batch_size(request *r)
{
  int64_t batch_size = -1;
  const model_signature *s = &r->target->signature;
  r->batch_size = 0;
  if (s->max_batch_size == 0)
    return NULL;
  for (uint32_t i = 0; i < r->input_count; i++) {
    const request_input *input = &r->inputs[i];
    if (input->signature->is_shape_tensor)
      continue;
    if (input->given_dim_count == 0)
      return request_error(r, ERROR_INVALID_ARG,
                           "input '%s' has no shape but model requires batch dimension for '%s'",
                           input->name.data, r->target->name);
    if (batch_size < 0)
      batch_size = input->given_dims[0];
    if (batch_size != input->given_dims[0])
      return request_error(r, ERROR_INVALID_ARG,
                           "input '%s' batch size does not match other inputs for '%s'",
                           input->name.data, r->target->name);
    if (batch_size < 0)
      return request_error(r, ERROR_INVALID_ARG,
                           "input '%s' of model '%s' has the batch size %" PRId64
                           ", expected a number of rows that is not negative",
                           input->name.data, r->target->name, batch_size);
  }
  if (batch_size > s->max_batch_size)
    return request_error(r, ERROR_INVALID_ARG,
                         "inference request batch-size must be <= %" PRId64
                         " for '%s', got %" PRId64,
                         s->max_batch_size, r->target->name, batch_size);
  r->batch_size = batch_size < 0 ? 0 : (uint32_t)batch_size;
  return NULL;
}

static error *unexpected_shape(const request *r, const request_input *input)
{
  bool batched = r->target->signature.max_batch_size > 0 && !input->signature->is_shape_tensor;
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  buffer_append_format(&text, "unexpected shape for input '%s' for model '%s'. Expected ",
                       input->name.data, r->target->name);
  signature_append_dims(&text, input->signature->dims, input->signature->dim_count, batched);
  buffer_append_text(&text, ", got ");
  signature_append_dims(&text, input->given_dims, input->given_dim_count, false);
  buffer_append_text(&text, ". ");
  if (batched)
    buffer_append_text(&text, "NOTE: Setting a non-zero max_batch_size in the model config "
                              "requires a batch dimension to be "
                              "prepended to each input shape. If you want to specify the full "
                              "shape including the batch dim "
                              "in your input dims config, try setting max_batch_size to zero. See "
                              "the model configuration "
                              "docs for more info on max_batch_size.");
  buffer_append_char(&text, '\0');
  return text.failed ? error_no_memory() : request_error(r, ERROR_INVALID_ARG, "%s", text.data);
}

static error *check_shape(const request *r, const request_input *input, const int64_t *dims,
                          uint32_t dim_count)
{
  const tensor_signature *t = input->signature;
  if (dim_count != t->dim_count)
    return unexpected_shape(r, input);
  for (uint32_t i = 0; i < dim_count; i++) {
    if (dims[i] < 0) {
      AUTO_BUFFER buffer shape = BUFFER_EMPTY;
      signature_append_dims(&shape, input->given_dims, input->given_dim_count, false);
      buffer_append_char(&shape, '\0');
      return request_error(
          r, ERROR_INVALID_ARG,
          "All input dimensions should be specified for input '%s' for model '%s', got %s",
          input->name.data, r->target->name, shape.failed ? "?" : shape.data);
    }
    if (t->dims[i] >= 0 && dims[i] != t->dims[i])
      return unexpected_shape(r, input);
  }
  return NULL;
}

// Sets input->dims: the batch dimension, then the given dims or the model's reshape of them.
static error *set_dims(request *r, request_input *input, const int64_t *dims, uint32_t dim_count,
                       bool batched)
{
  const tensor_signature *t = input->signature;
  uint32_t count = t->has_reshape ? t->reshape_count : dim_count;
  if (!t->has_reshape && !batched) {
    input->dims = (int64_t *)dims;
    input->dim_count = dim_count;
    return NULL;
  }
  if (!t->has_reshape && batched) { // the given shape has the batch dimension already
    input->dims = (int64_t *)input->given_dims;
    input->dim_count = input->given_dim_count;
    return NULL;
  }
  int64_t *result = arena_allocate_array(&r->input_memory, count + 1, sizeof(*result));
  if (result == NULL)
    return error_no_memory();
  uint32_t next = 0, variable = 0;
  if (batched)
    result[next++] = r->batch_size;
  for (uint32_t i = 0; i < t->reshape_count; i++) {
    int64_t dim = t->reshape[i];
    if (dim < 0) {
      while (variable < t->dim_count && t->dims[variable] >= 0)
        variable++;
      dim = variable < dim_count ? dims[variable++] : 0;
    }
    result[next++] = dim;
  }
  input->dims = result;
  input->dim_count = next;
  return NULL;
}

typedef struct bytes_cursor { // a position in a tensor's segments
  const input_segment *segment;
  const input_segment *end;
  size_t offset;
} bytes_cursor;

static bool skip_bytes(bytes_cursor *cursor, size_t size)
{
  while (size > 0 && cursor->segment < cursor->end) {
    size_t left = cursor->segment->size - cursor->offset;
    size_t step = size < left ? size : left;
    cursor->offset += step;
    size -= step;
    if (cursor->offset == cursor->segment->size) {
      cursor->segment++;
      cursor->offset = 0;
    }
  }
  return size == 0;
}

static error *check_bytes(const request *r, const request_input *input, const input_data *data,
                          int64_t expected)
{
  bytes_cursor cursor = {data->segments, data->segments + data->segment_count, 0};
  int64_t found = 0;
  while (cursor.segment < cursor.end) {
    size_t left = cursor.segment->size - cursor.offset;
    uint32_t length;
    if (cursor.segment->memory_type == TRITONSERVER_MEMORY_GPU)
      return NULL; // device_inputs_fetch checks it
    if (left < sizeof(length))
      return request_error(r, ERROR_INVALID_ARG,
                           "incomplete string length indicator for inference input '%s' for model "
                           "'%s', expecting 4 bytes but "
                           "only %zu bytes available. Please make sure the string length indicator "
                           "is in one buffer.",
                           input->name.data, r->target->name, left);
    if (++found > expected)
      return request_error(r, ERROR_INVALID_ARG,
                           "unexpected number of string elements %" PRId64
                           " for inference input '%s' for model '%s', "
                           "expecting %" PRId64,
                           found, input->name.data, r->target->name, expected);
    memcpy(&length, (const char *)cursor.segment->base + cursor.offset, sizeof(length));
    if (!skip_bytes(&cursor, sizeof(length)) || !skip_bytes(&cursor, length))
      return request_error(r, ERROR_INVALID_ARG,
                           "element %" PRId64
                           " of inference input '%s' for model '%s' claims %" PRIu32
                           " bytes, more than the tensor holds: before the bytes of each element "
                           "stands their number, 4 bytes, little-endian",
                           found - 1, input->name.data, r->target->name, length);
  }
  if (found != expected)
    return request_error(r, ERROR_INVALID_ARG,
                         "expected %" PRId64
                         " string elements for inference input '%s' for model '%s', got %" PRId64,
                         expected, input->name.data, r->target->name, found);
  return NULL;
}

error *request_check_texts(const request *r, const request_input *input, const input_data *data)
{
  int64_t elements;
  if (input->signature->is_non_linear_format ||
      !shape_element_count(input->dims, input->dim_count, &elements))
    return NULL; // checked before
  return check_bytes(r, input, data, elements);
}

static error *check_size(const request *r, const request_input *input)
{
  int64_t elements, expected;
  const tensor_signature *t = input->signature;
  if (t->is_non_linear_format)
    return NULL;
  if (!shape_element_count(input->dims, input->dim_count, &elements))
    return request_error(
        r, ERROR_INVALID_ARG,
        "the shape of input '%s' for model '%s' has more elements than fit in 64 bits",
        input->name.data, r->target->name);
  if (input->datatype == TRITONSERVER_TYPE_BYTES)
    return check_bytes(r, input, &input->data, elements);
  if (!checked_multiply_int64(elements, (int64_t)datatype_byte_size(input->datatype), &expected))
    return request_error(
        r, ERROR_INVALID_ARG,
        "the shape of input '%s' for model '%s' needs more bytes than fit in 64 bits",
        input->name.data, r->target->name);
  if (input->data.byte_size != (uint64_t)expected)
    return request_error(r, ERROR_INVALID_ARG,
                         "input byte size mismatch for input '%s' for model '%s'. Expected %" PRId64
                         ", got %zu",
                         input->name.data, r->target->name, expected, input->data.byte_size);
  return NULL;
}

// A batch without rows is never executed, as it would join other clients' batches. As in Triton,
// the expected size is that of one row, and the remaining case has another text.
static error *refuse_no_rows(const request *r, const request_input *input, const int64_t *dims,
                             uint32_t dim_count)
{
  int64_t elements, expected;
  assert(r->batch_size == 0 && input->given_dims[0] == 0);
  if (input->datatype == TRITONSERVER_TYPE_BYTES && input->data.byte_size == 0 &&
      shape_element_count(dims, dim_count, &elements) && elements > 0)
    return request_error(
        r, ERROR_INVALID_ARG,
        "expected %" PRId64
        " string elements for inference input '%s' for model '%s', got 0: " NO_ROWS,
        elements, input->name.data, r->target->name);
  if (input->datatype != TRITONSERVER_TYPE_BYTES &&
      shape_element_count(dims, dim_count, &elements) &&
      checked_multiply_int64(elements, (int64_t)datatype_byte_size(input->datatype), &expected) &&
      (uint64_t)expected != input->data.byte_size)
    return request_error(r, ERROR_INVALID_ARG,
                         "input byte size mismatch for input '%s' for model '%s'. Expected %" PRId64
                         ", got %zu: " NO_ROWS,
                         input->name.data, r->target->name, expected, input->data.byte_size);
  return request_error(r, ERROR_INVALID_ARG,
                       "inference request batch-size must be >= 1 for '%s', got 0 for input '%s'",
                       r->target->name, input->name.data);
}

static error *check_input(request *r, request_input *input)
{
  const tensor_signature *t = input->signature;
  bool batched = r->target->signature.max_batch_size > 0 && !t->is_shape_tensor;
  const int64_t *dims = input->given_dims + batched;
  uint32_t dim_count = input->given_dim_count - batched;
  if (input->datatype != t->datatype)
    return request_error(r, ERROR_INVALID_ARG,
                         "inference input '%s' data-type is '%s', but model '%s' expects '%s'",
                         input->name.data, datatype_name(input->datatype), r->target->name,
                         datatype_name(t->datatype));
  RETURN_IF_ERROR(check_shape(r, input, dims, dim_count));
  if (batched && input->given_dims[0] == 0)
    return refuse_no_rows(r, input, dims, dim_count);
  RETURN_IF_ERROR(set_dims(r, input, dims, dim_count, batched));
  return check_size(r, input);
}

static void append_key_of(buffer *key, const tensor_signature *t, const request_input *input,
                          const padding_config *padding, int64_t length)
{
  buffer_append_char(key, input == NULL ? 0 : 1);
  if (input == NULL || !t->must_match_in_batch)
    return;
  uint32_t skipped = t->is_shape_tensor ? 0 : 1; // rows may differ
  size_t begin = key->size;
  buffer_append(key, input->dims + skipped, (input->dim_count - skipped) * sizeof(int64_t));
  if (t->padded != NULL && !key->failed) {
    int64_t alike = padding_key(padding, length);
    memcpy(key->data + begin + t->padded->dim * sizeof(alike), &alike, sizeof(alike));
  }
  for (uint32_t i = 0; t->is_shape_tensor && i < input->data.segment_count; i++) {
    const input_segment *segment = &input->data.segments[i];
    if (segment->memory_type == TRITONSERVER_MEMORY_GPU) // gets its own batch, as in Triton
      buffer_append(key, &input, sizeof(input));
    else
      buffer_append(key, segment->base, segment->size);
  }
}

// Two requests share a batch only if their keys are equal: presence of optional inputs, shapes of
// variable ones, contents of shape tensors.
static error *set_batch_key(request *r)
{
  const model_signature *s = &r->target->signature;
  r->item.batch_key = (slice){NULL, 0};
  if (!s->needs_batch_key || s->max_batch_size == 0)
    return NULL;
  AUTO_BUFFER buffer key = BUFFER_EMPTY;
  for (size_t i = 0; i < s->input_count; i++)
    append_key_of(&key, &s->inputs[i], request_find_input(r, s->inputs[i].name.data), s->padding,
                  r->padding_length);
  const char *copy = key.failed ? NULL : arena_copy_text(&r->input_memory, buffer_view(&key));
  if (copy == NULL)
    return error_no_memory();
  r->item.batch_key = (slice){copy, key.size};
  return NULL;
}

static inline error *renew_factory(request *r)
{
  response_factory *f = response_factory_new(r->target, r->id);
  if (f == NULL)
    return error_no_memory();
  f->allocator = r->allocator;
  f->allocator_context = r->allocator_context;
  f->callback = r->response_callback;
  f->callback_context = r->response_context;
  request_drop_factory(r);
  r->factory = f;
  r->may_answer = true;
  return NULL;
}

error *request_renew_factory(request *r)
{
  return renew_factory(r);
}

// The id must be a number if the model wants one (of any width), else a text.
static error *check_correlation(const request *r)
{
  const model_signature *s = &r->target->signature;
  bool is_text = r->correlation_text != NULL;
  if (is_text == (s->correlation_datatype == TRITONSERVER_TYPE_BYTES))
    return NULL;
  return request_error(
      r, ERROR_INVALID_ARG,
      "sequence batching control '%s' data-type is '%s', but model '%s' expects '%s'",
      s->correlation_name,
      datatype_name(is_text ? TRITONSERVER_TYPE_BYTES : TRITONSERVER_TYPE_UINT64), r->target->name,
      datatype_name(s->correlation_datatype));
}

error *request_prepare(request *r)
{
  if (r->response_callback == NULL || r->release_callback == NULL)
    return request_error(r, ERROR_INVALID_ARG, "the request for model '%s' has no %s callback",
                         r->target->name, r->response_callback == NULL ? "response" : "release");
  assert(!r->has_overrides);
  for (uint32_t i = 0; i < r->input_count; i++)
    if (r->inputs[i].raw)
      RETURN_IF_ERROR(complete_raw_input(r));
  RETURN_IF_ERROR(check_outputs_exist(r));
  RETURN_IF_ERROR(check_inputs_exist(r));
  RETURN_IF_ERROR(find_batch_size(r));
  for (uint32_t i = 0; i < r->input_count; i++)
    RETURN_IF_ERROR(check_input(r, &r->inputs[i]));
  if (r->target->signature.correlation_name != NULL)
    RETURN_IF_ERROR(check_correlation(r));
  if (r->target->signature.padding != NULL)
    RETURN_IF_ERROR(padding_measure(r));
  RETURN_IF_ERROR(set_batch_key(r));
  RETURN_IF_ERROR(renew_factory(r));
  r->item.batch_size = request_rows(r);
  r->item.priority = r->priority;
  r->item.timeout_us = r->timeout_us;
  return NULL;
}

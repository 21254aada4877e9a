// SPDX-License-Identifier: Apache-2.0
// Tensor signatures of a model, built by the load thread.
#include "request/signature.h"

#include "base/checked.h"
#include "config/backend_traits.h"
#include "config/datatype.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// A signature with more tensors is searched by its map, a smaller one by comparing names.
#define LINEAR_SEARCH_LIMIT 8

#define EMPTY_STRING_BYTES 4 // its length, which is 0

size_t datatype_byte_size(TRITONSERVER_DataType datatype)
{
  const struct datatype *row = datatype_by_value((int)datatype);
  return row == NULL ? 0 : row->byte_size;
}

bool shape_element_count(const int64_t *dims, size_t dim_count, int64_t *count)
{
  int64_t product = 1;
  bool empty = false;
  for (size_t i = 0; i < dim_count; i++) {
    if (dims[i] < 0)
      return false;
    if (dims[i] == 0)
      empty = true;
    else if (!checked_multiply_int64(product, dims[i], &product))
      return false;
  }
  *count = empty ? 0 : product;
  return true;
}

bool tensor_least_bytes(TRITONSERVER_DataType datatype, const int64_t *dims, size_t dim_count,
                        size_t *size)
{
  int64_t elements;
  size_t bytes, element_bytes = datatype == TRITONSERVER_TYPE_BYTES ? EMPTY_STRING_BYTES
                                                                    : datatype_byte_size(datatype);
  if (!shape_element_count(dims, dim_count, &elements) ||
      !checked_multiply_size((size_t)elements, element_bytes, &bytes) || bytes > INT64_MAX)
    return false;
  *size = bytes;
  return true;
}

const char *datatype_name(TRITONSERVER_DataType datatype)
{
  const struct datatype *row = datatype_by_value((int)datatype);
  return row == NULL ? "<invalid>" : row->wire_name;
}

void signature_append_dims(buffer *text, const int64_t *dims, size_t count, bool batched)
{
  buffer_append_char(text, '[');
  if (batched)
    buffer_append_text(text, count > 0 ? "-1," : "-1");
  for (size_t i = 0; i < count; i++)
    buffer_append_format(text, i == 0 ? "%" PRId64 : ",%" PRId64, dims[i]);
  buffer_append_char(text, ']');
}

bool signature_dims_match(const int64_t *configured, const int64_t *dims, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    if (configured[i] >= 0 && configured[i] != dims[i])
      return false;
  }
  return true;
}

static bool copy_name(arena *memory, const char *text, slice *name)
{
  char *copy = arena_copy_text(memory, slice_of(text));
  if (copy == NULL)
    return false;
  *name = (slice){copy, strlen(copy)};
  return true;
}

static const int64_t *copy_dims(arena *memory, const int64_t *dims, size_t count)
{
  int64_t *copy = arena_allocate_array(memory, count, sizeof(*copy));
  if (copy != NULL && count > 0)
    memcpy(copy, dims, count * sizeof(*copy));
  return copy;
}

static bool has_variable_dim(const int64_t *dims, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    if (dims[i] < 0)
      return true;
  }
  return false;
}

static bool copy_reshape(arena *memory, const Inference__ModelTensorReshape *reshape,
                         tensor_signature *t)
{
  if (reshape == NULL)
    return true;
  t->has_reshape = true;
  t->reshape = copy_dims(memory, reshape->shape, reshape->n_shape);
  t->reshape_count = (uint32_t)reshape->n_shape;
  return t->reshape != NULL;
}

static bool init_input(arena *memory, const Inference__ModelInput *config, tensor_signature *t)
{
  t->datatype = (TRITONSERVER_DataType)config->data_type;
  t->dims = copy_dims(memory, config->dims, config->n_dims);
  t->dim_count = (uint32_t)config->n_dims;
  t->optional = config->optional;
  t->is_shape_tensor = config->is_shape_tensor;
  t->is_non_linear_format = config->is_non_linear_format_io;
  t->must_match_in_batch =
      config->is_shape_tensor ||
      (!config->allow_ragged_batch && has_variable_dim(config->dims, config->n_dims));
  return t->dims != NULL && copy_name(memory, config->name, &t->name) &&
         copy_reshape(memory, config->reshape, t);
}

static bool init_output(arena *memory, const Inference__ModelOutput *config, tensor_signature *t)
{
  t->datatype = (TRITONSERVER_DataType)config->data_type;
  t->dims = copy_dims(memory, config->dims, config->n_dims);
  t->dim_count = (uint32_t)config->n_dims;
  return t->dims != NULL && copy_name(memory, config->name, &t->name) &&
         copy_reshape(memory, config->reshape, t);
}

// NULL when memory is short.
static output_mismatches *make_mismatches(arena *memory, size_t output_count)
{
  size_t size;
  if (!checked_multiply_size(output_count + 1, sizeof(uint64_t), &size) ||
      !checked_add_size(size, sizeof(output_mismatches), &size))
    return NULL;
  return arena_allocate_array(memory, 1, size); // zeroes
}

static error *init_padding(model_signature *s, const Inference__ModelConfig *config)
{
  const char *parameter;
  RETURN_IF_ERROR(padding_config_read(config, &s->padding, &parameter));
  padding_config *p = s->padding;
  if (p == NULL)
    return NULL;
  for (size_t i = 0; i < p->input_count; i++)
    s->inputs[p->inputs[i].index].padded = &p->inputs[i];
  for (size_t i = 0; i < p->output_count; i++)
    s->outputs[p->outputs[i].index].padded = &p->outputs[i];
  if (p->length_input < s->input_count && !s->inputs[p->length_input].optional) {
    s->inputs[p->length_input].optional = true; // the server gives it
    s->required_input_count--;
  }
  s->needs_batch_key = true;
  return NULL;
}

// A CORRID control's tensor. False when memory is short.
static bool init_correlation(model_signature *s, const Inference__ModelConfig *config)
{
  const Inference__ModelSequenceBatching *batching =
      config->scheduling_choice_case == INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_SEQUENCE_BATCHING
          ? config->sequence_batching
          : NULL;
  for (size_t i = 0; batching != NULL && i < batching->n_control_input; i++) {
    const Inference__ModelSequenceBatching__ControlInput *input = batching->control_input[i];
    for (size_t k = 0; k < input->n_control; k++) {
      if (input->control[k]->kind !=
          INFERENCE__MODEL_SEQUENCE_BATCHING__CONTROL__KIND__CONTROL_SEQUENCE_CORRID)
        continue;
      s->correlation_datatype = (TRITONSERVER_DataType)input->control[k]->data_type;
      s->correlation_name = arena_copy_text(&s->memory, slice_of(input->name));
      return s->correlation_name != NULL;
    }
  }
  return true;
}

error *signature_init(model_signature *s, const Inference__ModelConfig *config)
{
  memset(s, 0, sizeof(*s));
  arena_init(&s->memory, NULL, 0);
  s->max_batch_size = config->max_batch_size;
  s->omits_single_sizes = backend_traits_of(config->backend)->omits_single_sizes;
  s->decoupled =
      config->model_transaction_policy != NULL && config->model_transaction_policy->decoupled;
  s->input_count = config->n_input;
  s->output_count = config->n_output;
  s->inputs = arena_allocate_array(&s->memory, config->n_input, sizeof(*s->inputs));
  s->outputs = arena_allocate_array(&s->memory, config->n_output, sizeof(*s->outputs));
  s->output_mismatches = make_mismatches(&s->memory, config->n_output);
  bool complete = s->inputs != NULL && s->outputs != NULL && s->output_mismatches != NULL;
  complete = complete && init_correlation(s, config);
  for (size_t i = 0; complete && i < config->n_input; i++) {
    tensor_signature *t = &s->inputs[i];
    complete =
        init_input(&s->memory, config->input[i], t) && string_map_put(&s->input_index, t->name, t);
    s->required_input_count += !t->optional;
    s->needs_batch_key |= t->optional || t->must_match_in_batch;
  }
  for (size_t i = 0; complete && i < config->n_output; i++) {
    tensor_signature *t = &s->outputs[i];
    complete = init_output(&s->memory, config->output[i], t) &&
               string_map_put(&s->output_index, t->name, t);
  }
  error *e = complete ? init_padding(s, config) : error_no_memory();
  if (e != NULL)
    signature_fini(s);
  return e;
}

void signature_fini(model_signature *s)
{
  for (size_t i = 0; s->output_mismatches != NULL && i < OUTPUT_NAMES_LOGGED; i++)
    free(s->output_mismatches->names_logged[i]);
  s->output_mismatches = NULL; // it is in the arena
  padding_config_free(s->padding);
  s->padding = NULL;
  string_map_fini(&s->input_index);
  string_map_fini(&s->output_index);
  arena_fini(&s->memory);
}

static const tensor_signature *find(const tensor_signature *tensors, size_t count,
                                    const string_map *index, slice name)
{
  if (count > LINEAR_SEARCH_LIMIT)
    return string_map_get(index, name);
  for (size_t i = 0; i < count; i++) {
    if (slice_equal(tensors[i].name, name))
      return &tensors[i];
  }
  return NULL;
}

const tensor_signature *signature_find_input(const model_signature *s, slice name)
{
  return find(s->inputs, s->input_count, &s->input_index, name);
}

const tensor_signature *signature_find_output(const model_signature *s, slice name)
{
  return find(s->outputs, s->output_count, &s->output_index, name);
}

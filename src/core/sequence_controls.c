// SPDX-License-Identifier: Apache-2.0
// See sequence_controls.h.
#include "core/sequence_controls.h"

#include <stdlib.h>
#include <string.h>

typedef Inference__ModelSequenceBatching__Control control;

#define KIND(name) INFERENCE__MODEL_SEQUENCE_BATCHING__CONTROL__KIND__CONTROL_SEQUENCE_##name

// One of the lists has two entries, except for the correlation id.
static void read_values(const control *from, sequence_control *to)
{
  for (size_t i = 0; i < 2; i++) {
    if (from->n_int32_false_true == 2) {
      to->datatype = TRITONSERVER_TYPE_INT32;
      memcpy(to->values[i], &from->int32_false_true[i], to->size = sizeof(int32_t));
    } else if (from->n_fp32_false_true == 2) {
      to->datatype = TRITONSERVER_TYPE_FP32;
      memcpy(to->values[i], &from->fp32_false_true[i], to->size = sizeof(float));
    } else if (from->n_bool_false_true == 2) {
      to->datatype = TRITONSERVER_TYPE_BOOL;
      to->values[i][0] = from->bool_false_true[i] != 0;
      to->size = 1;
    }
  }
}

error *sequence_controls_init(sequence_controls *controls, const Inference__ModelConfig *config)
{
  const Inference__ModelSequenceBatching *batching = config->sequence_batching;
  size_t count = 0;
  for (size_t i = 0; i < batching->n_control_input; i++)
    count += batching->control_input[i]->n_control;
  *controls = (sequence_controls){.items = calloc(count + 1, sizeof(*controls->items)),
                                  .dim_count = config->max_batch_size > 0 ? 2 : 1};
  if (controls->items == NULL)
    return error_no_memory();
  for (size_t i = 0; i < batching->n_control_input; i++) {
    const Inference__ModelSequenceBatching__ControlInput *input = batching->control_input[i];
    for (size_t k = 0; k < input->n_control; k++) {
      sequence_control *c = &controls->items[controls->count++];
      *c = (sequence_control){.name = input->name, .kind = (int)input->control[k]->kind};
      if (c->kind == KIND(CORRID))
        c->datatype = (TRITONSERVER_DataType)input->control[k]->data_type;
      else
        read_values(input->control[k], c);
    }
  }
  return NULL;
}

void sequence_controls_fini(sequence_controls *controls)
{
  free(controls->items);
  *controls = (sequence_controls){0};
}

// Adds a text as an element of a BYTES tensor; it is empty for a null request.
static error *add_text(request *r, input_segment *data)
{
  uint32_t size = r->correlation_text != NULL ? (uint32_t)strlen(r->correlation_text) : 0;
  char *element = arena_allocate(&r->input_memory, sizeof(size) + size);
  if (element == NULL)
    return error_no_memory();
  memcpy(element, &size, sizeof(size));
  if (size > 0)
    memcpy(element + sizeof(size), r->correlation_text, size);
  *data = (input_segment){.base = element, .size = sizeof(size) + size};
  return NULL;
}

static error *correlation_data(const sequence_control *c, request *r, input_segment *data)
{
  const request_input *shown = request_find_input(r, c->name);
  if (shown != NULL && shown->is_override) { // it is executed again
    *data = shown->data.segments[0];
    return NULL;
  }
  if (c->datatype == TRITONSERVER_TYPE_BYTES)
    return add_text(r, data);
  // For a 32-bit type this is the lower half: hosts are little-endian.
  *data = (input_segment){.base = &r->correlation_id, .size = datatype_byte_size(c->datatype)};
  return NULL;
}

static bool value_of(const sequence_control *c, const request *r)
{
  if (r->is_null)
    return false;
  if (c->kind == KIND(START))
    return (r->flags & TRITONSERVER_REQUEST_FLAG_SEQUENCE_START) != 0;
  if (c->kind == KIND(END))
    return (r->flags & TRITONSERVER_REQUEST_FLAG_SEQUENCE_END) != 0;
  return true; // READY
}

error *sequence_controls_add(const sequence_controls *controls, request *r)
{
  static const int64_t dims[2] = {1, 1};
  for (size_t i = 0; i < controls->count; i++) {
    const sequence_control *c = &controls->items[i];
    input_segment data = {.base = c->values[value_of(c, r)], .size = c->size};
    if (c->kind == KIND(CORRID))
      RETURN_IF_ERROR(correlation_data(c, r, &data));
    RETURN_IF_ERROR(request_set_override(r, c->name, c->datatype, dims, controls->dim_count, data));
  }
  return NULL;
}

// SPDX-License-Identifier: Apache-2.0
// Batch inputs and outputs.
#include "backend_batch_tensors.h"

#include "backend_error.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// ---- reading the configuration ----

static TRITONSERVER_Error *read_kind(const char *text, backend_batch_kind *kind)
{
  static const char *const names[] = {
      [BATCH_ELEMENT_COUNT] = "BATCH_ELEMENT_COUNT",
      [BATCH_ACCUMULATED_ELEMENT_COUNT] = "BATCH_ACCUMULATED_ELEMENT_COUNT",
      [BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO] = "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO",
      [BATCH_MAX_ELEMENT_COUNT_AS_SHAPE] = "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE",
      [BATCH_ITEM_SHAPE] = "BATCH_ITEM_SHAPE",
      [BATCH_ITEM_SHAPE_FLATTEN] = "BATCH_ITEM_SHAPE_FLATTEN",
  };
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    if (strcmp(names[i], text) == 0) {
      *kind = (backend_batch_kind)i;
      return NULL;
    }
  }
  return backend_error_invalid("unexpected batch input kind '%s'", text);
}

static const char *source_of(const json_t *entry)
{
  const char *name = json_string_value(json_array_get(json_object_get(entry, "source_input"), 0));
  return name == NULL ? "" : name;
}

static TRITONSERVER_Error *read_input(const json_t *entry, backend_batch_input *input)
{
  const char *type = backend_json_text(entry, "data_type");
  BACKEND_RETURN_IF_ERROR(read_kind(backend_json_text(entry, "kind"), &input->kind));
  if (strcmp(type, "TYPE_FP32") == 0)
    input->datatype = TRITONSERVER_TYPE_FP32;
  else if (strcmp(type, "TYPE_INT32") == 0)
    input->datatype = TRITONSERVER_TYPE_INT32;
  else
    return backend_error_invalid("unexpected batch input data type '%s'", type);
  input->source = source_of(entry);
  input->targets = json_object_get(entry, "target_name");
  input->target_count = json_array_size(input->targets);
  return NULL;
}

const char *backend_batch_target(const backend_batch_input *self, size_t index)
{
  const char *name = json_string_value(json_array_get(self->targets, index));
  return name == NULL ? "" : name;
}

TRITONSERVER_Error *backend_batch_inputs(const json_t *config, backend_batch_input **list,
                                         size_t *count)
{
  const json_t *entries = json_object_get(config, "batch_input");
  *list = NULL;
  *count = json_array_size(entries);
  if (*count == 0)
    return NULL;
  *list = calloc(*count, sizeof(**list));
  TRITONSERVER_Error *error = *list == NULL ? backend_error_no_memory("the batch inputs") : NULL;
  for (size_t i = 0; error == NULL && i < *count; i++)
    error = read_input(json_array_get(entries, i), &(*list)[i]);
  if (error != NULL) {
    free(*list);
    *list = NULL;
    *count = 0;
  }
  return error;
}

// The shape of the output `name`; rank 0 where there is no such output.
static TRITONSERVER_Error *read_output_dims(const json_t *config, const char *name,
                                            backend_shape *dims)
{
  backend_tensor_config *outputs;
  size_t count;
  bool batches = json_integer_value(json_object_get(config, "max_batch_size")) > 0;
  BACKEND_RETURN_IF_ERROR(backend_tensor_configs(config, "output", &outputs, &count));
  TRITONSERVER_Error *error = NULL;
  for (size_t i = 0; i < count && error == NULL; i++) {
    const backend_shape *own = &outputs[i].model_dims;
    if (strcmp(outputs[i].name, name) != 0)
      continue;
    if (batches && own->rank == BACKEND_MAX_RANK)
      error = backend_shape_set(dims, NULL, own->rank + 1, name);
    else if (batches)
      dims->dims[dims->rank++] = -1;
    for (size_t d = 0; d < own->rank && error == NULL; d++)
      dims->dims[dims->rank++] = own->dims[d];
    break;
  }
  free(outputs);
  return error;
}

static TRITONSERVER_Error *read_outputs(const json_t *config, const json_t *entry,
                                        backend_batch_output *outputs)
{
  const json_t *targets = json_object_get(entry, "target_name");
  const char *kind = backend_json_text(entry, "kind");
  if (strcmp(kind, "BATCH_SCATTER_WITH_INPUT_SHAPE") != 0)
    return backend_error_invalid("unexpected batch output kind '%s'", kind);
  for (size_t i = 0; i < json_array_size(targets); i++) {
    const char *name = json_string_value(json_array_get(targets, i));
    outputs[i].name = name == NULL ? "" : name;
    outputs[i].source = source_of(entry);
    BACKEND_RETURN_IF_ERROR(read_output_dims(config, outputs[i].name, &outputs[i].dims));
  }
  return NULL;
}

TRITONSERVER_Error *backend_batch_outputs(const json_t *config, backend_batch_output **list,
                                          size_t *count)
{
  const json_t *entries = json_object_get(config, "batch_output");
  size_t total = 0, at = 0;
  *list = NULL;
  *count = 0;
  for (size_t i = 0; i < json_array_size(entries); i++)
    total += json_array_size(json_object_get(json_array_get(entries, i), "target_name"));
  if (total == 0)
    return NULL;
  *list = calloc(total, sizeof(**list));
  TRITONSERVER_Error *error = *list == NULL ? backend_error_no_memory("the batch outputs") : NULL;
  for (size_t i = 0; error == NULL && i < json_array_size(entries); i++) {
    const json_t *entry = json_array_get(entries, i);
    error = read_outputs(config, entry, *list + at);
    at += json_array_size(json_object_get(entry, "target_name"));
  }
  if (error != NULL) {
    free(*list);
    *list = NULL;
    return error;
  }
  *count = total;
  return NULL;
}

// ---- making the tensors of a batch ----

// Writes the values of a tensor one after another.
typedef struct writer {
  char *at;
  bool is_float;
  bool fits;
} writer;

static void put(writer *w, size_t number)
{
  float real = (float)number;
  int32_t integer = (int32_t)number;
  w->fits = w->fits && (w->is_float || number <= INT32_MAX);
  memcpy(w->at, w->is_float ? (const void *)&real : (const void *)&integer, sizeof(integer));
  w->at += sizeof(integer);
}

// Counts the rows; `*rank` is the number of dimensions of each.
static TRITONSERVER_Error *count_rows(const backend_input *sources, uint32_t count, int64_t *rows,
                                      int64_t *rank)
{
  bool first = true;
  *rows = *rank = 0;
  for (uint32_t i = 0; i < count; i++) {
    const backend_input *source = &sources[i];
    if (source->input == NULL)
      continue;
    if (source->rank == 0 || (!first && (int64_t)source->rank - 1 != *rank) ||
        __builtin_add_overflow(*rows, source->dims[0], rows))
      return backend_error_invalid("input '%s' has %u dimensions, its rows have no common shape",
                                   source->name, (unsigned)source->rank);
    *rank = (int64_t)source->rank - 1;
    first = false;
  }
  return NULL;
}

static TRITONSERVER_Error *shape_of_rows(bool flat, const backend_input *sources, uint32_t count,
                                         backend_shape *shape)
{
  int64_t rows, rank;
  BACKEND_RETURN_IF_ERROR(count_rows(sources, count, &rows, &rank));
  *shape = (backend_shape){.rank = 2, .dims = {rows, rank}};
  if (flat) {
    shape->rank = 1;
    if (__builtin_mul_overflow(rows, rank, &shape->dims[0]))
      return backend_error_invalid("the shapes of %lld rows are too many", (long long)rows);
  }
  return NULL;
}

static size_t largest_count(const backend_input *sources, uint32_t count)
{
  size_t largest = 0;
  for (uint32_t i = 0; i < count; i++)
    if (sources[i].input != NULL && sources[i].element_count > largest)
      largest = sources[i].element_count;
  return largest;
}

static TRITONSERVER_Error *shape_of(const backend_batch_input *self, const backend_input *sources,
                                    uint32_t count, backend_shape *shape)
{
  *shape = (backend_shape){.rank = 1, .dims = {count}};
  switch (self->kind) {
  case BATCH_ELEMENT_COUNT:
  case BATCH_ACCUMULATED_ELEMENT_COUNT:
    break;
  case BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO:
    shape->dims[0]++;
    break;
  case BATCH_MAX_ELEMENT_COUNT_AS_SHAPE:
    shape->dims[0] = (int64_t)largest_count(sources, count);
    break;
  case BATCH_ITEM_SHAPE:
  case BATCH_ITEM_SHAPE_FLATTEN:
    return shape_of_rows(self->kind == BATCH_ITEM_SHAPE_FLATTEN, sources, count, shape);
  }
  return NULL;
}

static void write_counts(const backend_batch_input *self, const backend_input *sources,
                         uint32_t count, writer *w)
{
  bool accumulated = self->kind != BATCH_ELEMENT_COUNT;
  size_t total = 0;
  if (self->kind == BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO)
    put(w, 0);
  for (uint32_t i = 0; i < count; i++) {
    size_t elements = sources[i].input != NULL ? sources[i].element_count : 0;
    total += elements;
    put(w, accumulated ? total : elements);
  }
}

static void write_rows(const backend_input *sources, uint32_t count, writer *w)
{
  for (uint32_t i = 0; i < count; i++)
    for (int64_t row = 0; sources[i].input != NULL && row < sources[i].dims[0]; row++)
      for (uint32_t d = 1; d < sources[i].rank; d++)
        put(w, (size_t)sources[i].dims[d]);
}

static void write_values(const backend_batch_input *self, const backend_input *sources,
                         uint32_t count, writer *w, size_t byte_size)
{
  switch (self->kind) {
  case BATCH_ELEMENT_COUNT:
  case BATCH_ACCUMULATED_ELEMENT_COUNT:
  case BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO:
    write_counts(self, sources, count, w);
    return;
  case BATCH_MAX_ELEMENT_COUNT_AS_SHAPE:
    memset(w->at, 0, byte_size);
    w->at += byte_size;
    return;
  case BATCH_ITEM_SHAPE:
  case BATCH_ITEM_SHAPE_FLATTEN:
    write_rows(sources, count, w);
    return;
  }
}

TRITONSERVER_Error *backend_batch_input_make(const backend_batch_input *self,
                                             const backend_input *sources, uint32_t request_count,
                                             backend_buffer *buffer, backend_shape *shape,
                                             size_t *byte_size)
{
  size_t count = 0;
  BACKEND_RETURN_IF_ERROR(shape_of(self, sources, request_count, shape));
  if (!backend_element_count(shape->dims, shape->rank, &count) ||
      __builtin_mul_overflow(count, sizeof(int32_t), byte_size))
    return backend_error_invalid("the batch input of '%s' has an impossible shape", self->source);
  BACKEND_RETURN_IF_ERROR(backend_buffer_reserve(buffer, *byte_size));
  writer w = {buffer->data, self->datatype == TRITONSERVER_TYPE_FP32, true};
  write_values(self, sources, request_count, &w, *byte_size);
  assert(w.at == (char *)buffer->data + *byte_size);
  if (!w.fits)
    return backend_error_invalid("batch input of '%s': a number of elements does not fit in INT32",
                                 self->source);
  return NULL;
}

TRITONSERVER_Error *backend_scatter_shape(const backend_batch_output *self,
                                          const backend_input *source, backend_shape *shape)
{
  *shape = self->dims;
  for (size_t i = 0; i < shape->rank; i++) {
    if (shape->dims[i] >= 0)
      continue;
    if (source->input == NULL || i >= source->rank)
      return backend_error_invalid(
          "batch output '%s': dimension %zu is that of input '%s', which has %u", self->name, i,
          self->source, (unsigned)source->rank);
    shape->dims[i] = source->dims[i];
  }
  return NULL;
}

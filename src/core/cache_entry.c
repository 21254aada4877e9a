// SPDX-License-Identifier: Apache-2.0
// An entry may come from another machine: nothing in it is trusted.
#include "core/cache_entry.h"

#include "base/checked.h"
#include "config/datatype.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "entries are little-endian");

#define MOST_KEPT_PARAMETERS 1000 // adding one looks at all others

// ---- reading ----

static bool take(slice *from, size_t size, slice *taken)
{
  if (size > from->size)
    return false;
  *taken = (slice){from->data, size};
  *from = (slice){from->data + size, from->size - size};
  return true;
}

static bool take_number(slice *from, void *number, size_t size)
{
  slice bytes;
  if (!take(from, size, &bytes))
    return false;
  memcpy(number, bytes.data, size);
  return true;
}

static bool take_short(slice *from, slice *taken)
{
  uint32_t size;
  return take_number(from, &size, sizeof(size)) && take(from, size, taken);
}

static bool take_long(slice *from, slice *taken)
{
  uint64_t size;
  return take_number(from, &size, sizeof(size)) && take(from, size, taken);
}

// One output of a packed response; the slices point into it.
typedef struct packed_output {
  slice name; // not NUL-terminated
  slice datatype;
  slice shape; // int64s, not aligned
  slice data;
} packed_output;

// One parameter of a packed response. They follow the outputs; Triton's layout has none.
typedef struct packed_parameter {
  slice name;
  uint32_t type; // TRITONSERVER_ParameterType
  slice value;   // a text has no NUL
} packed_parameter;

// The next three take the number of outputs or parameters, or the next of them, off the front of
// `packed`. False: `packed` is too short or garbled.

static bool packed_take_count(slice *packed, uint32_t *count)
{
  return take_number(packed, count, sizeof(*count));
}

static bool packed_take_output(slice *packed, packed_output *output)
{
  slice all;
  return take_long(packed, &all) && take_short(&all, &output->name) &&
         take_short(&all, &output->datatype) && take_short(&all, &output->shape) &&
         take_long(&all, &output->data) && all.size == 0 &&
         output->shape.size % sizeof(int64_t) == 0;
}

static bool packed_take_parameter(slice *packed, packed_parameter *p)
{
  return take_short(packed, &p->name) && take_number(packed, &p->type, sizeof(p->type)) &&
         take_long(packed, &p->value);
}

static const datatype *find_datatype(slice name)
{
  for (int value = TRITONSERVER_TYPE_BOOL; value <= TRITONSERVER_TYPE_BF16; value++) {
    const datatype *type = datatype_by_value(value);
    if (slice_equal_text(name, type->wire_name))
      return type;
  }
  return NULL;
}

static const int64_t *copy_shape(response *r, slice shape, uint32_t *count)
{
  *count = (uint32_t)(shape.size / sizeof(int64_t));
  int64_t *dims = arena_allocate_array(&r->memory, *count, sizeof(*dims));
  if (dims != NULL && shape.size > 0)
    memcpy(dims, shape.data, shape.size);
  return dims;
}

static error *damaged(const response *r, const char *what)
{
  return error_new(ERROR_INTERNAL, "the cache's entry for model '%s' %s", r->factory->target->name,
                   what);
}

// Adds the output, without a buffer.
static error *add_output(response *r, const packed_output *packed)
{
  uint32_t dim_count;
  int64_t elements;
  size_t size;
  const datatype *type = find_datatype(packed->datatype);
  if (type == NULL)
    return damaged(r, "has an output of an unknown datatype");
  const int64_t *dims = copy_shape(r, packed->shape, &dim_count);
  if (dims == NULL)
    return error_no_memory();
  if (!shape_element_count(dims, dim_count, &elements))
    return damaged(r, "has an output without a valid shape");
  if (type->byte_size != 0 && (!checked_multiply_size((size_t)elements, type->byte_size, &size) ||
                               size != packed->data.size))
    return damaged(r, "has an output whose size is not that of its shape");
  if (!response_restore_output(r, packed->name, (TRITONSERVER_DataType)type->value, dims,
                               dim_count))
    return damaged(r, "has an output that the model has not, or has twice");
  return NULL;
}

static bool take_value(const packed_parameter *packed, void *value, size_t size)
{
  slice from = packed->value;
  return take_number(&from, value, size) && from.size == 0;
}

static error *add_parameter(response *r, const packed_parameter *packed)
{
  parameter value = {.type = (TRITONSERVER_ParameterType)packed->type};
  const char *name = arena_copy_text(&r->memory, packed->name);
  const char *text = arena_copy_text(&r->memory, packed->value);
  uint8_t flag;
  if (name == NULL || text == NULL)
    return error_no_memory();
  if (packed->type == TRITONSERVER_PARAMETER_STRING)
    value = parameter_of_string(text);
  else if (packed->type == TRITONSERVER_PARAMETER_INT &&
           take_value(packed, &value.value.integer, sizeof(int64_t)))
    value = parameter_of_int(value.value.integer);
  else if (packed->type == TRITONSERVER_PARAMETER_DOUBLE &&
           take_value(packed, &value.value.real, sizeof(double)))
    value = parameter_of_double(value.value.real);
  else if (packed->type == TRITONSERVER_PARAMETER_BOOL && take_value(packed, &flag, sizeof(flag)))
    value = parameter_of_bool(flag != 0);
  else
    return damaged(r, "has a parameter of a wrong type or size");
  return response_set_parameter(r, name, value);
}

static error *add_parameters(response *r, slice rest)
{
  uint32_t count;
  packed_parameter packed;
  if (rest.size == 0)
    return NULL; // as in Triton's entries
  if (!packed_take_count(&rest, &count) || count > MOST_KEPT_PARAMETERS)
    return damaged(r, "is garbled behind its outputs");
  for (; count > 0; count--) {
    if (!packed_take_parameter(&rest, &packed))
      return damaged(r, "is cut off or garbled");
    RETURN_IF_ERROR(add_parameter(r, &packed));
  }
  return rest.size == 0 ? NULL : damaged(r, "goes on after its end");
}

static error *fill_output(response_output *output, slice data)
{
  void *buffer;
  int64_t id = 0;
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
  RETURN_IF_ERROR(response_output_allocate(output, data.size, &type, &id, &buffer));
  if (type == TRITONSERVER_MEMORY_GPU)
    return error_new(ERROR_INTERNAL,
                     "Only input buffers in CPU memory are allowed in cache currently");
  if (data.size > 0 && buffer == NULL)
    return error_new(ERROR_INTERNAL, "failed to allocate buffer for output '%s'",
                     output->name.data);
  if (data.size > 0)
    memcpy(buffer, data.data, data.size);
  return NULL;
}

error *cache_entry_read(const cache_entry *entry, response *r)
{
  uint32_t count;
  packed_output packed;
  if (entry->count != 1 || r->outputs != NULL)
    return damaged(r, "has not one buffer");
  slice whole = {entry->buffers[0].base, entry->buffers[0].size};
  if (!packed_take_count(&whole, &count) || count > r->factory->target->signature.output_count)
    return damaged(r, "has a wrong number of outputs");
  slice rest = whole;
  for (uint32_t i = 0; i < count; i++) {
    if (!packed_take_output(&rest, &packed))
      return damaged(r, "is cut off or garbled");
    RETURN_IF_ERROR(add_output(r, &packed));
  }
  RETURN_IF_ERROR(add_parameters(r, rest));
  rest = whole;
  for (response_output *output = r->outputs; output != NULL; output = output->next) {
    packed_take_output(&rest, &packed);
    RETURN_IF_ERROR(fill_output(output, packed.data));
  }
  return NULL;
}

// ---- writing ----

#define OUTPUT_HEAD_BYTES    (2 * sizeof(uint64_t) + 3 * sizeof(uint32_t))
#define PARAMETER_HEAD_BYTES (sizeof(uint64_t) + 2 * sizeof(uint32_t))

bool cache_entry_size(const response *r, size_t *result)
{
  size_t size = sizeof(uint32_t);
  for (const response_output *output = r->outputs; output != NULL; output = output->next) {
    const buffer_attributes *a = &output->attributes;
    size_t shape;
    if (!output->allocated || a->memory_type == TRITONSERVER_MEMORY_GPU ||
        (a->byte_size > 0 && output->buffer == NULL) ||
        datatype_by_value((int)output->datatype) == NULL ||
        !checked_multiply_size(output->dim_count, sizeof(int64_t), &shape) ||
        !checked_add_size(size, OUTPUT_HEAD_BYTES, &size) ||
        !checked_add_size(size, output->name.size, &size) ||
        !checked_add_size(size, strlen(datatype_name(output->datatype)), &size) ||
        !checked_add_size(size, shape, &size) || !checked_add_size(size, a->byte_size, &size))
      return false;
  }
  if (r->parameter_count > MOST_KEPT_PARAMETERS ||
      (r->parameter_count > 0 && !checked_add_size(size, sizeof(uint32_t), &size)))
    return false;
  for (uint32_t i = 0; i < r->parameter_count; i++) {
    const parameter *p = &r->parameters[i];
    if (p->type == TRITONSERVER_PARAMETER_BYTES ||
        !checked_add_size(size, PARAMETER_HEAD_BYTES + strlen(p->name), &size) ||
        !checked_add_size(size, p->byte_size, &size))
      return false;
  }
  *result = size;
  return true;
}

// Writes where there is room.
static void put(char **at, const void *data, size_t size)
{
  if (size > 0)
    memcpy(*at, data, size);
  *at += size;
}

static void put_short(char **at, const void *data, size_t size)
{
  put(at, &(uint32_t){(uint32_t)size}, sizeof(uint32_t));
  put(at, data, size);
}

static void put_output(char **at, const response_output *output)
{
  const char *type = datatype_name(output->datatype);
  char *head = *at;
  *at += sizeof(uint64_t);
  put_short(at, output->name.data, output->name.size);
  put_short(at, type, strlen(type));
  put_short(at, output->dims, output->dim_count * sizeof(int64_t));
  put(at, &(uint64_t){output->attributes.byte_size}, sizeof(uint64_t));
  put(at, output->buffer, output->attributes.byte_size);
  uint64_t size = (uint64_t)(*at - head) - sizeof(uint64_t);
  memcpy(head, &size, sizeof(size));
}

static void put_parameter(char **at, const parameter *p)
{
  put_short(at, p->name, strlen(p->name));
  put(at, &(uint32_t){p->type}, sizeof(uint32_t));
  put(at, &(uint64_t){p->byte_size}, sizeof(uint64_t));
  put(at, parameter_value(p), p->byte_size);
}

error *cache_entry_write(const response *r, const cache_entry *entry)
{
  size_t size;
  if (entry->count != 1 || entry->buffers[0].base == NULL || !cache_entry_size(r, &size) ||
      size != entry->buffers[0].size)
    return error_new(ERROR_INTERNAL,
                     "Serialized buffer size does not match: the cache gave %zu bytes",
                     entry->buffers[0].size);
  char *at = entry->buffers[0].base;
  put(&at, &(uint32_t){r->output_count}, sizeof(uint32_t));
  for (const response_output *output = r->outputs; output != NULL; output = output->next)
    put_output(&at, output);
  if (r->parameter_count > 0)
    put(&at, &(uint32_t){r->parameter_count}, sizeof(uint32_t));
  for (uint32_t i = 0; i < r->parameter_count; i++)
    put_parameter(&at, &r->parameters[i]);
  return NULL;
}

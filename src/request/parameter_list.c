// SPDX-License-Identifier: Apache-2.0
// Lists in an arena; used by the thread that owns the arena's object.
#include "request/parameter_list.h"

#include <string.h>

static bool copy_value(arena *memory, parameter *value)
{
  if (value->type == TRITONSERVER_PARAMETER_STRING) {
    value->value.string = arena_copy_text(memory, (slice){value->value.string, value->byte_size});
    return value->value.string != NULL;
  }
  if (value->type == TRITONSERVER_PARAMETER_BYTES) {
    void *copy = arena_allocate(memory, value->byte_size);
    if (copy != NULL && value->byte_size > 0)
      memcpy(copy, value->value.bytes, value->byte_size);
    value->value.bytes = copy;
    return copy != NULL;
  }
  return true;
}

error *parameter_list_set(arena *memory, parameter **list, uint32_t *count, const char *name,
                          parameter value)
{
  uint32_t index = 0;
  while (index < *count && strcmp((*list)[index].name, name) != 0)
    index++;
  if (index == MAX_PARAMETER_LIST)
    return error_new(ERROR_INVALID_ARG, "expected at most %d parameters, '%.100s' is one more",
                     MAX_PARAMETER_LIST, name);
  if (index == *count) {
    parameter *grown = arena_grow_array(memory, *list, *count, sizeof(*grown));
    if (grown == NULL)
      return error_no_memory();
    *list = grown;
    value.name = arena_copy_text(memory, slice_of(name));
  } else {
    value.name = (*list)[index].name;
  }
  if (value.name == NULL || !copy_value(memory, &value))
    return error_no_memory();
  (*list)[index] = value;
  *count += index == *count;
  return NULL;
}

// Lists in an arena; the same thread rules as the object that holds the arena.
#include "request/parameter_list.h"

#include "base/checked.h"

#include <string.h>

bool arena_array_reserve(arena *memory, void **array, uint32_t count, uint32_t *capacity,
                         size_t size)
{
  if (count < *capacity)
    return true;
  uint32_t wanted = *capacity == 0 ? 4 : *capacity * 2;
  if (wanted <= *capacity)
    return false;
  void *grown = arena_allocate_array(memory, wanted, size);
  if (grown == NULL)
    return false;
  if (count > 0)
    memcpy(grown, *array, count * size);
  *array = grown;
  *capacity = wanted;
  return true;
}

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

error *parameter_list_set(arena *memory, parameter **list, uint32_t *count, uint32_t *capacity,
                          const char *name, parameter value)
{
  uint32_t index = 0;
  while (index < *count && strcmp((*list)[index].name, name) != 0)
    index++;
  if (index == MAX_PARAMETER_LIST)
    return error_new(ERROR_INVALID_ARG, "expected at most %d parameters, '%.100s' is one more",
                     MAX_PARAMETER_LIST, name);
  if (index == *count) {
    void *array = *list;
    if (!arena_array_reserve(memory, &array, *count, capacity, sizeof(**list)))
      return error_no_memory();
    *list = array;
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

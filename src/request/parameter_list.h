// A growing list of parameters in an arena: what requests and responses carry.
#ifndef NEREID_REQUEST_PARAMETER_LIST_H
#define NEREID_REQUEST_PARAMETER_LIST_H

#include "base/arena.h"
#include "base/error.h"
#include "request/parameter.h"

// Grows `array` (elements of `size` bytes) in the arena so that one more fits. False when memory is
// short.
bool arena_array_reserve(arena *memory, void **array, uint32_t count, uint32_t *capacity,
                         size_t size);

enum {
  MAX_PARAMETER_LIST = 4096 // each is compared with those before
};

// Copies name and value into the arena; replaces a parameter of the same name.
error *parameter_list_set(arena *memory, parameter **list, uint32_t *count, uint32_t *capacity,
                          const char *name, parameter value);

#endif

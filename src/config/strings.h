// SPDX-License-Identifier: Apache-2.0
// Sets strings of protobuf-c messages. Private to src/config.
#ifndef NEREID_CONFIG_STRINGS_H
#define NEREID_CONFIG_STRINGS_H

#include "base/error.h"
#include "base/text.h"

#include <protobuf-c/protobuf-c.h>
#include <stdlib.h>

// Replaces a message's string by a copy of `value`. An empty string is usually
// protobuf_c_empty_string, which must not be freed.
static inline error *strings_set(char **field, const char *value)
{
  char *copy = text_copy(slice_of(value));
  if (copy == NULL)
    return error_no_memory();
  if (*field != protobuf_c_empty_string)
    free(*field);
  *field = copy;
  return NULL;
}

#endif

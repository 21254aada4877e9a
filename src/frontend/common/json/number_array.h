// SPDX-License-Identifier: Apache-2.0
// Converts long arrays of numbers between text and a tensor's bytes. Several threads work on parts
// of a fixed size; the result does not depend on the parts.
#ifndef NEREID_FRONTEND_COMMON_JSON_NUMBER_ARRAY_H
#define NEREID_FRONTEND_COMMON_JSON_NUMBER_ARRAY_H

#include "base/buffer.h"
#include "base/number.h"
#include "base/parallel.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NUMBER_ARRAY_PART_BYTES    ((size_t)512 << 10) // of text read
#define NUMBER_ARRAY_PART_ELEMENTS 4096u               // printed
#define NUMBER_ARRAY_PARTS         8u                  // given out at a time

// How one type is read and printed.
typedef struct number_form {
  // Reads the element at `text` into `out`, which need not be aligned.
  number_status (*read)(const char *text, const char **end, void *out);
  // Reads the elements at `text` that are easy to read, perhaps none: see number_read_f32_run.
  // NULL: not for this type.
  size_t (*read_run)(const char *text, const char *limit, void *out, size_t max_count,
                     const char **end);
  // Prints the element at `in`; returns the size, at most NUMBER_TEXT_BYTES.
  size_t (*print)(char *out, const void *in);
  size_t size; // of an element in memory
} number_form;

typedef struct number_array_reader {
  const number_form *form;
  const parallel *parallel; // NULL: no other threads
  bool plain;               // set when parts do not pay for this text
} number_array_reader;

// Reads elements separated by "," or ", " into `out`, at most max_count, none beyond `limit`.
// Returns how many it read, maybe fewer than there are, with *end behind the last; 0 leaves the
// first to the caller.
size_t number_array_read(number_array_reader *r, const char *text, const char *limit, char *out,
                         size_t max_count, const char **end);

// Appends `count` elements, each followed by a comma. False when memory is short.
bool number_array_print(const number_form *form, const parallel *p, const char *in, uint64_t count,
                        buffer *out);

#endif

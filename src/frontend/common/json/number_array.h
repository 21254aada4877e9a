// SPDX-License-Identifier: Apache-2.0
// Long rows of numbers between text and a tensor's bytes, in parts of a fixed size that several
// threads work on at once. What comes out does not depend on the parts.
#ifndef NEREID_FRONTEND_COMMON_JSON_NUMBER_ARRAY_H
#define NEREID_FRONTEND_COMMON_JSON_NUMBER_ARRAY_H

#include "base/buffer.h"
#include "base/number.h"
#include "base/parallel.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NUMBER_ARRAY_PART_BYTES    ((size_t)512 << 10) // of text that is read
#define NUMBER_ARRAY_PART_ELEMENTS 4096u               // that are printed
#define NUMBER_ARRAY_PARTS         8u                  // that are given out at a time

// How one type is written.
typedef struct number_form {
  // Reads the element at `text` into `out`, which need not be aligned.
  number_status (*read)(const char *text, const char **end, void *out);
  // Reads the elements at `text` that are easy to read, perhaps none: see number_read_f32_run.
  // NULL: there are none.
  size_t (*read_run)(const char *text, const char *limit, void *out, size_t max_count,
                     const char **end);
  // Prints the element at `in`; returns the size, at most NUMBER_TEXT_BYTES.
  size_t (*print)(char *out, const void *in);
  size_t size; // of an element in memory
} number_form;

typedef struct number_array_reader {
  const number_form *form;
  const parallel *parallel; // NULL: nobody helps
  bool plain;               // set when parts did not pay: the text is not as they want it
} number_array_reader;

// Reads elements at `text` with "," or ", " between them into `out`: as many as it likes, at most
// max_count, that end at `limit` or before. Gives how many and *end behind the last; 0 when it
// cannot tell about the first.
size_t number_array_read(number_array_reader *r, const char *text, const char *limit, char *out,
                         size_t max_count, const char **end);

// Appends `count` elements, each with a comma behind it. False when memory is short.
bool number_array_print(const number_form *form, const parallel *p, const char *in, uint64_t count,
                        buffer *out);

#endif

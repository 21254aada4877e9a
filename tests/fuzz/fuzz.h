// SPDX-License-Identifier: Apache-2.0
// What the fuzz targets share. A target takes any bytes and must neither crash nor break what CHECK
// says of its results; it runs under libFuzzer, or over its committed corpus with replay.c.
#ifndef NEREID_TESTS_FUZZ_H
#define NEREID_TESTS_FUZZ_H

#include "base/slice.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Unlike assert, stays in every build.
#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);                \
      abort();                                                                                     \
    }                                                                                              \
  } while (0)

#define FUZZ_BYTES_BEHIND 16 // readable bytes that the readers of JSON ask for

// A copy with zeroes behind its end, for free().
static inline char *fuzz_copy_with_zeroes(const void *data, size_t size)
{
  char *text = calloc(1, size + FUZZ_BYTES_BEHIND);
  CHECK(text != NULL);
  if (size > 0)
    memcpy(text, data, size);
  return text;
}

// The bytes of an input that are not used yet: a target that needs several values takes one after
// the other. Behind the end everything is zero or empty.
typedef struct fuzz_input {
  const uint8_t *data;
  size_t size;
} fuzz_input;

static inline slice fuzz_take(fuzz_input *input, size_t size)
{
  const slice taken = {(const char *)input->data, size < input->size ? size : input->size};
  *input = (fuzz_input){input->data + taken.size, input->size - taken.size};
  return taken;
}

static inline uint8_t fuzz_byte(fuzz_input *input)
{
  const slice taken = fuzz_take(input, 1);
  return taken.size == 1 ? (uint8_t)taken.data[0] : 0;
}

// Takes up to the next `separator`, and that.
static inline slice fuzz_take_until(fuzz_input *input, char separator)
{
  const uint8_t *end = input->size > 0 ? memchr(input->data, separator, input->size) : NULL;
  if (end == NULL)
    return fuzz_take(input, input->size);
  const slice taken = fuzz_take(input, (size_t)(end - input->data));
  fuzz_take(input, 1);
  return taken;
}

// How many elements a tensor of BYTES has, which must be whole: each a length and its bytes.
static inline uint64_t fuzz_count_strings(const void *data, size_t size)
{
  uint64_t count = 0;
  const char *at = data;
  for (size_t left = size; left > 0; count++) {
    uint32_t length;
    CHECK(left >= sizeof(length));
    memcpy(&length, at, sizeof(length));
    CHECK(length <= left - sizeof(length));
    at += sizeof(length) + length;
    left -= sizeof(length) + length;
  }
  return count;
}

// A copy for free(), with a NUL and `zeroes` more behind it; a sanitizer sees its end.
static inline char *fuzz_copy(slice text, size_t zeroes)
{
  char *copy = calloc(1, text.size + 1 + zeroes);
  CHECK(copy != NULL);
  if (text.size > 0)
    memcpy(copy, text.data, text.size);
  return copy;
}

#endif

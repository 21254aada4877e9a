// SPDX-License-Identifier: Apache-2.0
// A view of bytes that belong to another object: a value, copied freely, never freed.
#ifndef NEREID_BASE_SLICE_H
#define NEREID_BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef struct slice {
  const char *data; // not necessarily NUL-terminated; may be NULL when size is 0
  size_t size;      // bytes
} slice;

#define SLICE(literal) ((slice){"" literal, sizeof(literal) - 1})

static inline slice slice_of(const char *text)
{
  return (slice){text, strlen(text)};
}

static inline bool slice_equal(slice a, slice b)
{
  return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static inline bool slice_equal_text(slice a, const char *text)
{
  return slice_equal(a, slice_of(text));
}

// The text without blanks and tabs at both ends.
static inline slice slice_trim(slice text)
{
  while (text.size > 0 && (*text.data == ' ' || *text.data == '\t'))
    text = (slice){text.data + 1, text.size - 1};
  while (text.size > 0 && (text.data[text.size - 1] == ' ' || text.data[text.size - 1] == '\t'))
    text.size--;
  return text;
}

// Takes the text before `separator` (or all of it) off the front of `rest`, and drops the
// separator.
static inline slice slice_take_until(slice *rest, char separator)
{
  const char *end = rest->size == 0 ? NULL : memchr(rest->data, separator, rest->size);
  size_t size = end == NULL ? rest->size : (size_t)(end - rest->data);
  slice taken = {rest->data, size};
  size_t skipped = end == NULL ? size : size + 1;
  *rest = (slice){rest->data + skipped, rest->size - skipped};
  return taken;
}

#endif

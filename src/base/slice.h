// A view of bytes that somebody else owns: a value, copied freely, never freed.
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

#endif

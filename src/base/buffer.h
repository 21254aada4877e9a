// SPDX-License-Identifier: Apache-2.0
// A growable run of bytes with one owner. Appending is amortised O(1). A failed allocation marks
// the buffer as failed and later appends do nothing, so that a printer checks once, at its end.
#ifndef NEREID_BASE_BUFFER_H
#define NEREID_BASE_BUFFER_H

#include "base/slice.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct buffer {
  char *data;      // owned; NULL until the first append
  size_t size;     // bytes in use
  size_t capacity; // bytes allocated
  bool failed;     // an allocation failed: the content is incomplete
} buffer;

#define BUFFER_EMPTY ((buffer){0})

void buffer_fini(buffer *b);

// Makes room for `size` more bytes and returns where they go, or NULL when memory is short (then
// the buffer is failed). The caller writes there and adds what it wrote to b->size.
char *buffer_reserve(buffer *b, size_t size);

void buffer_append(buffer *b, const void *data, size_t size);
void buffer_append_slice(buffer *b, slice s);
void buffer_append_text(buffer *b, const char *text);
void buffer_append_char(buffer *b, char c);
void buffer_append_format(buffer *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buffer_append_va(buffer *b, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

// Appends `text` as a JSON string with its quotes; bytes that are not UTF-8 become U+FFFD.
void buffer_append_json_string(buffer *b, slice text);
// The same, but bytes that are not UTF-8 stay as they are.
void buffer_append_json_bytes(buffer *b, slice data);
// As buffer_append_json_string, for logs: also escapes characters that a terminal takes for
// commands or that end a line (U+0080 to U+009F, U+2028, U+2029, changes of direction).
void buffer_append_json_line(buffer *b, slice text);

// Gives the content away as a NUL-terminated string that the caller frees; NULL when the buffer
// failed. The buffer is empty afterwards.
char *buffer_take_text(buffer *b);

static inline slice buffer_view(const buffer *b)
{
  return (slice){b->data, b->size};
}

static inline void cleanup_buffer(buffer *b)
{
  buffer_fini(b);
}
#define AUTO_BUFFER __attribute__((cleanup(cleanup_buffer)))

#endif

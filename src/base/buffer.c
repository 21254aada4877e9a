// SPDX-License-Identifier: Apache-2.0
// Growable byte buffer. Not thread-safe; the holder of the struct owns it.
#include "base/buffer.h"

#include "base/blocks.h"
#include "base/checked.h"
#include "base/text.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUFFER_MINIMUM_BYTES 256

static bool is_block(const buffer *b)
{
  return b->capacity >= BLOCK_LARGE_BYTES;
}

void buffer_fini(buffer *b)
{
  if (is_block(b))
    block_free(b->data, b->capacity);
  else
    free(b->data);
  *b = BUFFER_EMPTY;
}

// Small content comes from malloc, large content is a block (base/blocks.h).
static char *move_to(buffer *b, size_t capacity)
{
  if (capacity < BLOCK_LARGE_BYTES)
    return realloc(b->data, capacity);
  if (is_block(b))
    return block_grow(b->data, b->capacity, capacity);
  char *data = block_allocate(capacity);
  if (data != NULL && b->size > 0)
    memcpy(data, b->data, b->size);
  if (data != NULL)
    free(b->data);
  return data;
}

static bool buffer_grow(buffer *b, size_t needed)
{
  size_t capacity = b->capacity < BUFFER_MINIMUM_BYTES ? BUFFER_MINIMUM_BYTES : b->capacity;
  while (capacity < needed) {
    if (!checked_multiply_size(capacity, 2, &capacity))
      return false;
  }
  char *data = move_to(b, capacity);
  if (data == NULL)
    return false;
  b->data = data;
  b->capacity = capacity;
  return true;
}

char *buffer_reserve(buffer *b, size_t size)
{
  size_t needed;
  assert(b->size <= b->capacity);
  if (b->failed)
    return NULL;
  if (!checked_add_size(b->size, size, &needed) ||
      (needed > b->capacity && !buffer_grow(b, needed))) {
    b->failed = true;
    return NULL;
  }
  return b->data + b->size;
}

void buffer_append(buffer *b, const void *data, size_t size)
{
  if (size == 0)
    return;
  char *end = buffer_reserve(b, size);
  if (end == NULL)
    return;
  memcpy(end, data, size);
  b->size += size;
}

void buffer_append_slice(buffer *b, slice s)
{
  buffer_append(b, s.data, s.size);
}

void buffer_append_text(buffer *b, const char *text)
{
  buffer_append(b, text, strlen(text));
}

void buffer_append_char(buffer *b, char c)
{
  buffer_append(b, &c, 1);
}

void buffer_append_format(buffer *b, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  buffer_append_va(b, format, arguments);
  va_end(arguments);
}

void buffer_append_va(buffer *b, const char *format, va_list arguments)
{
  va_list again;
  va_copy(again, arguments);
  int size = vsnprintf(NULL, 0, format, arguments);
  char *end = size < 0 ? NULL : buffer_reserve(b, (size_t)size + 1);
  if (end != NULL) {
    vsnprintf(end, (size_t)size + 1, format, again);
    b->size += (size_t)size;
  } else {
    b->failed = true;
  }
  va_end(again);
}

static void append_json_escape(buffer *b, unsigned char c)
{
  switch (c) {
  case '"':
    buffer_append(b, "\\\"", 2);
    break;
  case '\\':
    buffer_append(b, "\\\\", 2);
    break;
  case '\n':
    buffer_append(b, "\\n", 2);
    break;
  case '\r':
    buffer_append(b, "\\r", 2);
    break;
  case '\t':
    buffer_append(b, "\\t", 2);
    break;
  case '\b':
    buffer_append(b, "\\b", 2);
    break;
  case '\f':
    buffer_append(b, "\\f", 2);
    break;
  default:
    buffer_append_format(b, "\\u%04x", c);
    break;
  }
}

// The code of the character of `length` bytes if it is a C1 control character, ends a line or
// changes the direction of text in a terminal; else 0.
static unsigned hidden_control(const unsigned char *p, size_t length)
{
  if (length == 2) {
    unsigned code = (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu);
    return code < 0xa0 || code == 0x61c ? code : 0;
  }
  if (length != 3 || p[0] != 0xe2)
    return 0;
  unsigned code = 0x2000u | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
  bool turns = (code >= 0x200e && code <= 0x200f) || (code >= 0x202a && code <= 0x202e) ||
               (code >= 0x2066 && code <= 0x2069);
  return turns || code == 0x2028 || code == 0x2029 ? code : 0;
}

typedef enum json_reader { // the reader that the string is for
  READER_PROGRAM,
  READER_OF_LINES,
  READER_OF_DATA,
} json_reader;

static void append_json(buffer *b, slice text, json_reader reader)
{
  const unsigned char *p = (const unsigned char *)text.data;
  size_t plain = 0; // start of the run not yet copied
  size_t i = 0;
  buffer_append_char(b, '"');
  while (i < text.size) {
    size_t length = p[i] < 0x80 ? 1 : text_utf8_length(text.data + i, text.size - i);
    bool is_plain = length == 1 && p[i] >= 0x20 && p[i] != '"' && p[i] != '\\' && p[i] != 0x7f;
    if (is_plain || (length == 0 && reader == READER_OF_DATA)) {
      i++;
      continue;
    }
    unsigned hidden = reader == READER_OF_LINES && length > 1 ? hidden_control(p + i, length) : 0;
    if (length > 1 && hidden == 0) {
      i += length;
      continue;
    }
    buffer_append(b, text.data + plain, i - plain);
    if (length == 0)
      buffer_append_text(b, "\xef\xbf\xbd");
    else if (hidden != 0)
      buffer_append_format(b, "\\u%04x", hidden);
    else
      append_json_escape(b, p[i]);
    i += length == 0 ? 1 : length;
    plain = i;
  }
  if (i > plain)
    buffer_append(b, text.data + plain, i - plain);
  buffer_append_char(b, '"');
}

void buffer_append_json_string(buffer *b, slice text)
{
  append_json(b, text, READER_PROGRAM);
}

void buffer_append_json_line(buffer *b, slice text)
{
  append_json(b, text, READER_OF_LINES);
}

void buffer_append_json_bytes(buffer *b, slice data)
{
  append_json(b, data, READER_OF_DATA);
}

char *buffer_take_text(buffer *b)
{
  buffer_append_char(b, '\0');
  if (b->failed) {
    buffer_fini(b);
    return NULL;
  }
  char *text = b->data;
  if (is_block(b)) { // the caller frees it with free()
    text = malloc(b->size);
    if (text != NULL)
      memcpy(text, b->data, b->size);
    buffer_fini(b);
  }
  *b = BUFFER_EMPTY;
  return text;
}

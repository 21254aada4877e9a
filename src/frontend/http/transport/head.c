// SPDX-License-Identifier: Apache-2.0
// Judges lines of a request's head where libmicrohttpd left them: it ends names and values with
// zeroes in the buffer that it read them into, one field behind the other.
#include "frontend/http/transport/head.h"

#include <stdint.h>
#include <string.h>

typedef struct field_reader {
  request_headers *headers;
  const char *end; // of the value before, NULL for none
  bool malformed;
} field_reader;

target_fault head_check_target(const char *target)
{
  size_t size = 0;
  for (; target[size] != '\0'; size++)
    if (size == HEAD_MAX_TARGET_BYTES)
      return TARGET_TOO_LONG;
    else if ((unsigned char)target[size] <= ' ' || target[size] == 0x7f)
      return TARGET_MALFORMED;
  // The version stands behind the blank that libmicrohttpd zeroed, unless the target had a zero.
  return strncmp(target + size + 1, "HTTP/", 5) == 0 ? TARGET_GOOD : TARGET_MALFORMED;
}

// RFC 9110, 5.6.2
static bool is_token(const char *text, size_t size)
{
  for (size_t i = 0; i < size; i++) {
    unsigned char c = (unsigned char)text[i];
    if (c <= ' ' || c >= 0x7f || strchr("\"(),/:;<=>?@[\\]{}", c) != NULL)
      return false;
  }
  return size > 0;
}

static bool is_field_value(const char *text, size_t size)
{
  for (size_t i = 0; i < size; i++) {
    unsigned char c = (unsigned char)text[i];
    if ((c < ' ' && c != '\t') || c == 0x7f)
      return false;
  }
  return true;
}

static const char *skip_blanks(const char *text)
{
  while (*text == ' ' || *text == '\t')
    text++;
  return text;
}

// A line ends with CRLF, and the name of the next one, if any, follows. Else the value went on
// behind a NUL, or on a second line: libmicrohttpd adds that line to the name, and moves both.
static bool is_line_end(const char *value_end, const char *next_name)
{
  if ((uintptr_t)next_name <= (uintptr_t)value_end)
    return false;
  const char *end = skip_blanks(value_end);
  return end[0] == '\0' && end[1] == '\0' && end + 2 == next_name;
}

// An empty line follows the last field. Else libmicrohttpd took a line without a name for it.
static bool is_head_end(const char *value_end)
{
  return memcmp(skip_blanks(value_end), "\0\0\0", 4) == 0;
}

static bool is_field(const field_reader *reader, const char *name, size_t name_size,
                     const char *value, size_t value_size)
{
  return value != NULL && is_token(name, name_size) && is_field_value(value, value_size) &&
         (uintptr_t)value > (uintptr_t)(name + name_size) &&
         skip_blanks(name + name_size + 1) == value &&
         (reader->end == NULL || is_line_end(reader->end, name));
}

static enum MHD_Result take_field(void *reader_pointer, enum MHD_ValueKind kind, const char *name,
                                  size_t name_size, const char *value, size_t value_size)
{
  (void)kind;
  field_reader *reader = reader_pointer;
  if (!is_field(reader, name, name_size, value, value_size)) {
    reader->malformed = true;
    return MHD_NO;
  }
  reader->end = value + value_size;
  headers_add(reader->headers, (slice){name, name_size}, (slice){value, value_size});
  return MHD_YES;
}

void head_read_fields(struct MHD_Connection *mhd, request_headers *headers)
{
  field_reader reader = {.headers = headers};
  MHD_get_connection_values_n(mhd, MHD_HEADER_KIND, take_field, &reader);
  headers_finish(headers);
  if (reader.malformed || (reader.end != NULL && !is_head_end(reader.end)))
    headers->fault = "a header field is malformed: expected 'name: value' on a line of its own";
  else if (headers->hosts > 1)
    headers->fault = "the request has more than one Host";
}

size_t head_leave_encoded(void *context, struct MHD_Connection *mhd, char *text)
{
  (void)context;
  (void)mhd;
  return strlen(text);
}

// SPDX-License-Identifier: Apache-2.0
// Used by the host and by the worker. Read bytes may be hostile; written values may not fit.
#include "wire.h"

#include <string.h>

static void put(wire_writer *writer, const void *bytes, size_t count)
{
  const size_t at = writer->size;
  if (__builtin_add_overflow(at, count, &writer->size))
    writer->size = SIZE_MAX; // never fits
  if (writer->to != NULL && count > 0 && at <= writer->room && count <= writer->room - at)
    memcpy(writer->to + at, bytes, count);
}

void wire_put_u8(wire_writer *writer, uint8_t value)
{
  put(writer, &value, sizeof(value));
}

void wire_put_u32(wire_writer *writer, uint32_t value)
{
  put(writer, &value, sizeof(value));
}

void wire_put_u64(wire_writer *writer, uint64_t value)
{
  put(writer, &value, sizeof(value));
}

void wire_put_i64(wire_writer *writer, int64_t value)
{
  put(writer, &value, sizeof(value));
}

void wire_put_f64(wire_writer *writer, double value)
{
  put(writer, &value, sizeof(value));
}

void wire_put_text(wire_writer *writer, const char *text, size_t length)
{
  if (length > UINT32_MAX) {
    writer->size = SIZE_MAX; // never fits
    return;
  }
  wire_put_u32(writer, (uint32_t)length);
  put(writer, text, length);
}

void wire_put_string(wire_writer *writer, const char *text)
{
  wire_put_text(writer, text, text == NULL ? 0 : strlen(text));
}

static void get(wire_reader *reader, void *bytes, size_t count)
{
  if (reader->bad || (size_t)(reader->end - reader->at) < count) {
    reader->bad = true;
    memset(bytes, 0, count);
    return;
  }
  memcpy(bytes, reader->at, count);
  reader->at += count;
}

uint8_t wire_get_u8(wire_reader *reader)
{
  uint8_t value;
  get(reader, &value, sizeof(value));
  return value;
}

uint32_t wire_get_u32(wire_reader *reader)
{
  uint32_t value;
  get(reader, &value, sizeof(value));
  return value;
}

uint64_t wire_get_u64(wire_reader *reader)
{
  uint64_t value;
  get(reader, &value, sizeof(value));
  return value;
}

int64_t wire_get_i64(wire_reader *reader)
{
  int64_t value;
  get(reader, &value, sizeof(value));
  return value;
}

double wire_get_f64(wire_reader *reader)
{
  double value;
  get(reader, &value, sizeof(value));
  return value;
}

const char *wire_get_text(wire_reader *reader, size_t *length)
{
  *length = 0;
  const uint32_t size = wire_get_u32(reader);
  if (reader->bad || (size_t)(reader->end - reader->at) < size) {
    reader->bad = true;
    return NULL;
  }
  const char *text = (const char *)reader->at;
  reader->at += size;
  *length = size;
  return text;
}

uint32_t wire_get_count(wire_reader *reader, size_t least)
{
  const uint32_t count = wire_get_u32(reader);
  if (!reader->bad && least > 0 && count > (size_t)(reader->end - reader->at) / least)
    reader->bad = true;
  return reader->bad ? 0 : count;
}

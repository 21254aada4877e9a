// SPDX-License-Identifier: Apache-2.0
// A row for each field; its elements are varints, of a fixed size, or bytes.
#include "frontend/grpc/codec/typed_contents.h"

#include "base/checked.h"
#include "frontend/grpc/codec/proto_wire.h"

#include <string.h>

#define BOOL_CONTENTS   1
#define INT_CONTENTS    2
#define INT64_CONTENTS  3
#define UINT_CONTENTS   4
#define UINT64_CONTENTS 5
#define FP32_CONTENTS   6
#define FP64_CONTENTS   7
#define BYTES_CONTENTS  8

static const struct {
  proto_wire_type element;
  TRITONSERVER_DataType datatype; // the type in the field's name
} fields[TYPED_CONTENTS_FIELDS] = {
    [BOOL_CONTENTS] = {PROTO_VARINT, TRITONSERVER_TYPE_BOOL},
    [INT_CONTENTS] = {PROTO_VARINT, TRITONSERVER_TYPE_INT32},
    [INT64_CONTENTS] = {PROTO_VARINT, TRITONSERVER_TYPE_INT64},
    [UINT_CONTENTS] = {PROTO_VARINT, TRITONSERVER_TYPE_UINT32},
    [UINT64_CONTENTS] = {PROTO_VARINT, TRITONSERVER_TYPE_UINT64},
    [FP32_CONTENTS] = {PROTO_I32, TRITONSERVER_TYPE_FP32},
    [FP64_CONTENTS] = {PROTO_I64, TRITONSERVER_TYPE_FP64},
    [BYTES_CONTENTS] = {PROTO_BYTES, TRITONSERVER_TYPE_BYTES},
};

// The type whose field holds elements of `type`: narrow integers have no field of their own.
static TRITONSERVER_DataType widened(TRITONSERVER_DataType type)
{
  return type == TRITONSERVER_TYPE_INT8 || type == TRITONSERVER_TYPE_INT16 ? TRITONSERVER_TYPE_INT32
         : type == TRITONSERVER_TYPE_UINT8 || type == TRITONSERVER_TYPE_UINT16
             ? TRITONSERVER_TYPE_UINT32
             : type;
}

// Takes the next field with elements; skips others.
static bool next_elements(proto_reader *r, proto_field *f)
{
  while (proto_next(r, f)) {
    if (f->number < BOOL_CONTENTS || f->number > BYTES_CONTENTS)
      continue;
    if (f->type == PROTO_BYTES || f->type == fields[f->number].element)
      return true;
  }
  return false;
}

static bool is_packed(const proto_field *f)
{
  return f->type == PROTO_BYTES && f->number != BYTES_CONTENTS;
}

static size_t fixed_size(uint32_t number)
{
  return fields[number].element == PROTO_I32 ? sizeof(float) : sizeof(double);
}

// ---- counting ----

static bool count_packed(const proto_field *f, typed_contents *t)
{
  if (fields[f->number].element == PROTO_VARINT) {
    t->counts[f->number] += proto_count_varints(f->bytes);
    return f->bytes.size == 0 || (uint8_t)f->bytes.data[f->bytes.size - 1] < 0x80;
  }
  t->counts[f->number] += f->bytes.size / fixed_size(f->number);
  t->run = f->bytes;
  return f->bytes.size % fixed_size(f->number) == 0;
}

error *typed_contents_count(slice message, typed_contents *t)
{
  proto_reader r = proto_reader_of(message);
  proto_field f;
  while (next_elements(&r, &f)) {
    t->runs += f.number == FP32_CONTENTS || f.number == FP64_CONTENTS;
    if (!is_packed(&f)) {
      t->counts[f.number]++;
      t->bytes += f.number == BYTES_CONTENTS ? f.bytes.size : 0;
    } else if (!count_packed(&f, t)) {
      return proto_broken();
    }
  }
  return r.broken ? proto_broken() : NULL;
}

// ---- what it is ----

error *typed_contents_field(const typed_contents *t, TRITONSERVER_DataType datatype,
                            const char *input, const char *model, uint32_t *field)
{
  *field = 0;
  for (uint32_t i = BOOL_CONTENTS; i <= BYTES_CONTENTS; i++) {
    if (t->counts[i] == 0)
      continue;
    if (*field != 0)
      return error_new(ERROR_INVALID_ARG,
                       "unexpected explicit tensor data for input tensor '%s' for model '%s', "
                       "binary data was already supplied.",
                       input, model);
    if (fields[i].datatype != widened(datatype))
      return error_new(ERROR_INVALID_ARG,
                       "unexpected explicit tensor data for input tensor '%s' for model '%s' of "
                       "type '%s', expected datatype '%s'",
                       input, model, TRITONSERVER_DataTypeString(fields[i].datatype),
                       TRITONSERVER_DataTypeString(datatype));
    *field = i;
  }
  return NULL;
}

size_t typed_contents_size(const typed_contents *t, TRITONSERVER_DataType datatype, uint32_t field)
{
  size_t element =
      field == BYTES_CONTENTS ? sizeof(uint32_t) : TRITONSERVER_DataTypeByteSize(datatype);
  size_t extra = field == BYTES_CONTENTS ? t->bytes : 0;
  size_t size;
  return checked_array_size(extra, t->counts[field], element, &size) ? size : SIZE_MAX;
}

slice typed_contents_in_place(const typed_contents *t, TRITONSERVER_DataType datatype,
                              uint32_t field)
{
  bool fixed = field == FP32_CONTENTS || field == FP64_CONTENTS;
  size_t size = typed_contents_size(t, datatype, field);
  if (!fixed || t->runs != 1 || t->run.size != size ||
      (uintptr_t)t->run.data % fixed_size(field) != 0)
    return (slice){0};
  return t->run;
}

// ---- writing ----

// As in Triton, an integer that is too wide for the tensor's type loses its upper bytes.
static void write_integer(uint64_t value, TRITONSERVER_DataType datatype, char **to)
{
  size_t size = TRITONSERVER_DataTypeByteSize(datatype);
  if (datatype == TRITONSERVER_TYPE_BOOL)
    value = value != 0;
  memcpy(*to, &value, size); // little-endian, as this machine is
  *to += size;
}

static void write_bytes(const void *data, size_t size, char **to)
{
  if (size > 0)
    memcpy(*to, data, size);
  *to += size;
}

static bool write_packed_integers(slice packed, TRITONSERVER_DataType datatype, char **to)
{
  proto_reader r = proto_reader_of(packed);
  uint64_t value;
  while (r.at < r.end) {
    if (!proto_next_varint(&r, &value))
      return false;
    write_integer(value, datatype, to);
  }
  return true;
}

static error *write_element(const proto_field *f, TRITONSERVER_DataType datatype, char **to)
{
  const uint32_t size = (uint32_t)f->bytes.size;
  switch (fields[f->number].element) {
  case PROTO_VARINT:
    if (f->type == PROTO_VARINT)
      write_integer(f->value, datatype, to);
    else if (!write_packed_integers(f->bytes, datatype, to))
      return proto_broken();
    return NULL;
  case PROTO_BYTES:
    if (f->bytes.size > UINT32_MAX)
      return proto_broken();
    write_bytes(&size, sizeof(size), to);
    write_bytes(f->bytes.data, f->bytes.size, to);
    return NULL;
  default:
    if (f->type == PROTO_BYTES)
      write_bytes(f->bytes.data, f->bytes.size, to);
    else
      write_bytes(&f->value, fixed_size(f->number), to);
    return NULL;
  }
}

error *typed_contents_write(slice message, TRITONSERVER_DataType datatype, uint32_t field,
                            char **to)
{
  proto_reader r = proto_reader_of(message);
  proto_field f;
  while (next_elements(&r, &f))
    if (f.number == field)
      RETURN_IF_ERROR(write_element(&f, datatype, to));
  return NULL;
}

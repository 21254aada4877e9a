// SPDX-License-Identifier: Apache-2.0
// An entry of a map is a message of a key and a value; the value is a oneof.
#include "frontend/grpc/codec/infer_parameter_proto.h"

#include "frontend/grpc/codec/proto_wire.h"

#include <stddef.h>
#include <string.h>

// By field number.
static const struct {
  request_parameter_type type;
  proto_wire_type wire;
} kinds[] = {
    [BOOL_PARAM] = {REQUEST_PARAMETER_BOOL, PROTO_VARINT},
    [INT64_PARAM] = {REQUEST_PARAMETER_INT64, PROTO_VARINT},
    [STRING_PARAM] = {REQUEST_PARAMETER_STRING, PROTO_BYTES},
    [DOUBLE_PARAM] = {REQUEST_PARAMETER_DOUBLE, PROTO_I64},
    [UINT64_PARAM] = {REQUEST_PARAMETER_UINT64, PROTO_VARINT},
};

// Takes a value. A string is copied later, because only the last one counts.
static error *take_value(const proto_field *f, request_parameter *p, slice *string)
{
  if (f->number < BOOL_PARAM || f->number > UINT64_PARAM || f->type != kinds[f->number].wire)
    return NULL;
  p->type = kinds[f->number].type;
  if (p->type == REQUEST_PARAMETER_STRING) {
    *string = f->bytes;
    return proto_check_text(f->bytes);
  }
  p->value.number = f->value; // the bits of an integer or a double
  if (p->type == REQUEST_PARAMETER_BOOL)
    p->value.boolean = f->value != 0;
  return NULL;
}

static error *read_value(slice message, request_parameter *p, slice *string)
{
  proto_reader r = proto_reader_of(message);
  proto_field f;
  while (proto_next(&r, &f))
    RETURN_IF_ERROR(take_value(&f, p, string));
  return r.broken ? proto_broken() : NULL;
}

error *infer_parameter_proto_read(slice entry, arena *a, request_parameter *p)
{
  proto_reader r = proto_reader_of(entry);
  proto_field f;
  slice key = {0}, string = {0};
  *p = (request_parameter){.type = REQUEST_PARAMETER_NONE};
  while (proto_next(&r, &f)) {
    if (f.type != PROTO_BYTES)
      continue;
    if (f.number == ENTRY_KEY)
      key = f.bytes;
    else if (f.number == ENTRY_VALUE)
      RETURN_IF_ERROR(read_value(f.bytes, p, &string));
  }
  if (r.broken)
    return proto_broken();
  RETURN_IF_ERROR(proto_text(key, a, &p->name));
  return p->type == REQUEST_PARAMETER_STRING ? proto_text(string, a, &p->value.string) : NULL;
}

// ---- of tensors ----

static const struct {
  const char *name;
  size_t place;
} known[] = {
    {"shared_memory_region", offsetof(tensor_parameters, region)},
    {"shared_memory_offset", offsetof(tensor_parameters, offset)},
    {"shared_memory_byte_size", offsetof(tensor_parameters, byte_size)},
    {"classification", offsetof(tensor_parameters, classification)},
};

void tensor_parameters_record(tensor_parameters *t, const request_parameter *p)
{
  for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
    if (strcmp(p->name, known[i].name) == 0)
      memcpy((char *)t + known[i].place, p, sizeof(*p));
}

static error *refuse_type(const request_parameter *p, const char *tensor, const char *expected)
{
  return error_new(ERROR_INVALID_ARG,
                   "invalid value type for '%s' parameter for tensor '%s', expected %s.", p->name,
                   tensor, expected);
}

// Reads a number that is valid only with a region.
static error *read_number(const request_parameter *p, const char *region, const char *tensor,
                          uint64_t *value)
{
  if (p->name == NULL)
    return NULL;
  if (region == NULL)
    return error_new(ERROR_INVALID_ARG,
                     "'%s' can not be specified without 'shared_memory_region' parameter for "
                     "tensor '%s'",
                     p->name, tensor);
  if (p->type != REQUEST_PARAMETER_INT64)
    return refuse_type(p, tensor, "int64_param");
  if (p->value.integer < 0)
    return error_new(ERROR_INVALID_ARG,
                     "invalid value for '%s' parameter for tensor '%s', expected value >= 0.",
                     p->name, tensor);
  *value = (uint64_t)p->value.integer;
  return NULL;
}

error *tensor_parameters_shared_memory(const tensor_parameters *t, const char *tensor,
                                       json_shared_memory *memory)
{
  if (t->region.name != NULL) {
    if (t->region.type != REQUEST_PARAMETER_STRING)
      return refuse_type(&t->region, tensor, "string_param");
    memory->region = t->region.value.string;
  }
  RETURN_IF_ERROR(read_number(&t->offset, memory->region, tensor, &memory->offset));
  RETURN_IF_ERROR(read_number(&t->byte_size, memory->region, tensor, &memory->byte_size));
  if (memory->region != NULL && t->byte_size.name == NULL)
    return error_new(ERROR_INVALID_ARG,
                     "'shared_memory_byte_size' must be specified along with "
                     "'shared_memory_region' parameter for tensor '%s'",
                     tensor);
  return NULL;
}

error *tensor_parameters_classification(const tensor_parameters *t, uint64_t *classification)
{
  const request_parameter *p = &t->classification;
  if (p->name == NULL)
    return NULL;
  if (p->type != REQUEST_PARAMETER_INT64)
    return error_new(ERROR_INVALID_ARG, "invalid value type for 'classification' parameter, "
                                        "expected int64_param");
  if (p->value.integer <= 0)
    return error_new(ERROR_INVALID_ARG,
                     "invalid value for 'classification' parameter, expected >= 0");
  *classification = (uint64_t)p->value.integer;
  return NULL;
}

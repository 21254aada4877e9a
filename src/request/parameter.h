// SPDX-License-Identifier: Apache-2.0
// A named, typed value: request and response parameters, metric labels, load parameters. A value;
// its holder decides the ownership of name, text and bytes (in api/parameter.c the object owns
// them).
#ifndef NEREID_REQUEST_PARAMETER_H
#define NEREID_REQUEST_PARAMETER_H

#include "triton/core/tritonserver.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct TRITONSERVER_Parameter parameter;

struct TRITONSERVER_Parameter {
  const char *name; // NUL-terminated
  TRITONSERVER_ParameterType type;
  uint64_t byte_size; // of the value; for a STRING without its NUL
  union {
    const char *string; // NUL-terminated
    int64_t integer;
    bool boolean;
    double real;
    const void *bytes;
  } value;
};

// Values without a name; a text is borrowed.
static inline parameter parameter_of_string(const char *value)
{
  return (parameter){
      .type = TRITONSERVER_PARAMETER_STRING, .byte_size = strlen(value), .value.string = value};
}

static inline parameter parameter_of_int(int64_t value)
{
  return (parameter){
      .type = TRITONSERVER_PARAMETER_INT, .byte_size = sizeof(value), .value.integer = value};
}

static inline parameter parameter_of_bool(bool value)
{
  return (parameter){
      .type = TRITONSERVER_PARAMETER_BOOL, .byte_size = sizeof(value), .value.boolean = value};
}

static inline parameter parameter_of_double(double value)
{
  return (parameter){
      .type = TRITONSERVER_PARAMETER_DOUBLE, .byte_size = sizeof(value), .value.real = value};
}

// The address of the value in the ABI's sense: of the text, the number or the bytes.
static inline const void *parameter_value(const parameter *p)
{
  switch (p->type) {
  case TRITONSERVER_PARAMETER_STRING:
    return p->value.string;
  case TRITONSERVER_PARAMETER_BYTES:
    return p->value.bytes;
  case TRITONSERVER_PARAMETER_INT:
  case TRITONSERVER_PARAMETER_BOOL:
  case TRITONSERVER_PARAMETER_DOUBLE:
    break;
  }
  return &p->value;
}

#endif

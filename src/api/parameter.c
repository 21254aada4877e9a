// SPDX-License-Identifier: Apache-2.0
// TRITONSERVER_Parameter*: parameters that a program makes, one allocation each. One thread at a
// time.
#include "request/parameter.h"

#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

// Allocates a parameter with a copy of its name, followed by one of `text_size` bytes of text.
static parameter *parameter_new(const char *name, TRITONSERVER_ParameterType type, const char *text,
                                size_t text_size)
{
  size_t name_size = strlen(name) + 1;
  size_t size;
  if (!checked_add_size(sizeof(parameter), name_size, &size) ||
      !checked_add_size(size, text_size, &size))
    return NULL;
  parameter *p = malloc(size);
  if (p == NULL)
    return NULL;
  char *name_copy = (char *)(p + 1);
  char *text_copy = name_copy + name_size;
  memcpy(name_copy, name, name_size);
  *p = (parameter){.name = name_copy, .type = type};
  if (text_size > 0) {
    memcpy(text_copy, text, text_size);
    p->value.string = text_copy;
  }
  return p;
}

static parameter *number_new(const char *name, TRITONSERVER_ParameterType type, const void *value,
                             size_t size)
{
  parameter *p = parameter_new(name, type, NULL, 0);
  if (p != NULL) {
    memcpy(&p->value, value, size);
    p->byte_size = size;
  }
  return p;
}

TRITONSERVER_Parameter *TRITONSERVER_ParameterNew(const char *name, TRITONSERVER_ParameterType type,
                                                  const void *value)
{
  switch (type) {
  case TRITONSERVER_PARAMETER_STRING: {
    size_t text_size = strlen(value) + 1;
    parameter *p = parameter_new(name, type, value, text_size);
    if (p != NULL)
      p->byte_size = text_size - 1;
    return p;
  }
  case TRITONSERVER_PARAMETER_INT:
    return number_new(name, type, value, sizeof(int64_t));
  case TRITONSERVER_PARAMETER_BOOL:
    return number_new(name, type, value, sizeof(bool));
  case TRITONSERVER_PARAMETER_DOUBLE:
    return number_new(name, type, value, sizeof(double));
  case TRITONSERVER_PARAMETER_BYTES:
    break;
  }
  return NULL;
}

TRITONSERVER_Parameter *TRITONSERVER_ParameterBytesNew(const char *name, const void *byte_ptr,
                                                       uint64_t size)
{
  parameter *p = parameter_new(name, TRITONSERVER_PARAMETER_BYTES, NULL, 0);
  if (p != NULL) {
    p->value.bytes = byte_ptr;
    p->byte_size = size;
  }
  return p;
}

void TRITONSERVER_ParameterDelete(TRITONSERVER_Parameter *p)
{
  free(p);
}

// The element types' names as they come on the wire.
#ifndef NEREID_FRONTEND_COMMON_JSON_DATATYPE_H
#define NEREID_FRONTEND_COMMON_JSON_DATATYPE_H

#include "base/slice.h"
#include "triton/core/tritonserver.h"

#include <string.h>

// TRITONSERVER_TYPE_INVALID for a name that is none; exact spelling.
static inline TRITONSERVER_DataType datatype_named(slice name)
{
  char text[16] = "";
  if (name.size >= sizeof(text) || strnlen(name.data, name.size) < name.size)
    return TRITONSERVER_TYPE_INVALID;
  memcpy(text, name.data, name.size);
  return TRITONSERVER_StringToDataType(text);
}

#endif

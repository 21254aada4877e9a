// The element types on the wire. Values that never change.
#ifndef NEREID_FRONTEND_COMMON_JSON_DATATYPE_H
#define NEREID_FRONTEND_COMMON_JSON_DATATYPE_H

#include "base/slice.h"
#include "triton/core/tritonserver.h"

#include <stddef.h>

// TRITONSERVER_TYPE_INVALID for a name that is none; exact spelling.
TRITONSERVER_DataType protocol_datatype(slice name);
const char *protocol_datatype_name(TRITONSERVER_DataType datatype);
// Bytes of one element; 0 for BYTES.
size_t protocol_datatype_size(TRITONSERVER_DataType datatype);

#endif

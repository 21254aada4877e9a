// The ABI's typed values as JSON. Any thread.
#include "codec/parameter_json.h"

json_t *parameter_to_json(TRITONSERVER_ParameterType type, const void *value)
{
  switch (type) {
  case TRITONSERVER_PARAMETER_STRING:
    return json_string(value);
  case TRITONSERVER_PARAMETER_INT:
    return json_integer(*(const int64_t *)value);
  case TRITONSERVER_PARAMETER_BOOL:
    return json_boolean(*(const bool *)value);
  case TRITONSERVER_PARAMETER_DOUBLE:
    return json_real(*(const double *)value);
  default:
    return NULL;
  }
}

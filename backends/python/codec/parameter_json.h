// Parameters of requests and responses as JSON, as a model sees them.
#ifndef NEREID_PYTHON_PARAMETER_JSON_H
#define NEREID_PYTHON_PARAMETER_JSON_H

#include "triton/core/tritonserver.h"

#include <jansson.h>

// What the server's API gives as a parameter's type and value, as a JSON value that is the
// caller's. NULL for what has no form in JSON: a type without one (BYTES), a text that is not
// UTF-8, NaN; or no memory.
json_t *parameter_to_json(TRITONSERVER_ParameterType type, const void *value);

#endif

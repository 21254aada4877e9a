// SPDX-License-Identifier: Apache-2.0
// Named parameters of requests and responses, as every front end has them: those that the protocol
// defines and all others, with their JSON and that of the request's id. Pure but for the request;
// any thread that owns it.
#ifndef NEREID_FRONTEND_COMMON_JSON_REQUEST_PARAMETER_H
#define NEREID_FRONTEND_COMMON_JSON_REQUEST_PARAMETER_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/slice.h"
#include "frontend/common/json/json_scan.h"
#include "triton/core/tritonserver.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum request_parameter_type {
  REQUEST_PARAMETER_NONE, // without a value
  REQUEST_PARAMETER_BOOL,
  REQUEST_PARAMETER_INT64,
  REQUEST_PARAMETER_UINT64,
  REQUEST_PARAMETER_DOUBLE,
  REQUEST_PARAMETER_STRING,
} request_parameter_type;

typedef struct request_parameter {
  const char *name;
  request_parameter_type type;
  union {
    bool boolean;
    int64_t integer;
    uint64_t number;
    double real;
    const char *string; // NUL-terminated
  } value;
} request_parameter;

// True for names that mean something to the server, in any case: sequence_id and so on, and all
// that begin with "triton_". Whoever makes parameters of anything else must not make these.
bool request_parameter_is_reserved(slice name);

// Does what a parameter with a meaning says, and gives the model any other. Flags of a sequence are
// added to *flags, for the caller to set. INVALID_ARG for a type or value that the name cannot
// have, for names that begin with "triton_", and for types that models cannot be given.
error *request_parameter_apply(TRITONSERVER_InferenceRequest *request,
                               const request_parameter *parameter, uint32_t *flags);

// Gives the model a parameter, whatever its name. INVALID_ARG for types that models cannot be
// given.
error *request_parameter_give(TRITONSERVER_InferenceRequest *request,
                              const request_parameter *parameter);

// Names and strings are in the arena.
typedef struct json_parameters {
  request_parameter *items;
  size_t count;
} json_parameters;

// Takes the value of the parameter `key` and appends it to the request's list, which has a limit.
error *json_parameter_read(json_cursor *c, const json_path *path, slice key, json_parameters *list);

// Appends "name":value.
void json_parameter_append(buffer *out, const request_parameter *p);

// Takes the id of a request.
error *json_id_read(json_cursor *c, const json_path *path, const char **id);

#endif

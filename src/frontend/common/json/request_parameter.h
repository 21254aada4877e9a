// SPDX-License-Identifier: Apache-2.0
// Named parameters of requests and responses for all front ends, with their JSON and that of the
// request's id. Some names have a meaning in the protocol; the model gets all others. Any thread
// that owns the request.
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

// Does the name mean something to the server, in any case of letters: sequence_id and so on,
// "triton_…"? Header fields must not become parameters with these names.
bool request_parameter_is_reserved(slice name);

// Applies a parameter with a meaning, and gives any other to the model. Sequence flags are added to
// *flags, for the caller to set. INVALID_ARG for a type or value that the name cannot have, for
// names that begin with "triton_", and for types that a model cannot get.
error *request_parameter_apply(TRITONSERVER_InferenceRequest *request,
                               const request_parameter *parameter, uint32_t *flags);

// Gives the model a parameter, whatever its name. INVALID_ARG for types that a model cannot get.
error *request_parameter_give(TRITONSERVER_InferenceRequest *request,
                              const request_parameter *parameter);

// Names and strings are in the arena.
typedef struct json_parameters {
  request_parameter *items;
  size_t count;
} json_parameters;

// Takes the value of parameter `key` and appends it to the list, whose length is limited.
error *json_parameter_read(json_cursor *c, const json_path *path, slice key, json_parameters *list);

// Appends "name":value.
void json_parameter_append(buffer *out, const request_parameter *p);

// Takes a request's id.
error *json_id_read(json_cursor *c, const json_path *path, const char **id);

#endif

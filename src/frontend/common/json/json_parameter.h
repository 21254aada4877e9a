// What requests and replies in JSON have in common beside tensors: parameters and the request's id.
// Pure functions.
#ifndef NEREID_FRONTEND_PROTOCOL_JSON_PARAMETER_H
#define NEREID_FRONTEND_PROTOCOL_JSON_PARAMETER_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/slice.h"
#include "triton/core/tritonserver.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct json_cursor json_cursor; // json_scan.h
typedef struct json_path json_path;

// A scalar. Names and strings are NUL-terminated, in the arena.
typedef struct json_parameter {
  const char *name;
  TRITONSERVER_ParameterType type; // STRING, INT, BOOL or DOUBLE
  union {
    const char *string;
    int64_t integer;
    bool boolean;
    double number;
  } value;
} json_parameter;

typedef struct json_parameters {
  json_parameter *items;
  size_t count;
} json_parameters;

// Takes the value of the parameter `key` and appends it to `list`. `count` is that of the whole
// request, which has a limit.
error *json_parameter_read(json_cursor *c, const json_path *place, slice key, size_t *count,
                           json_parameters *list);

// Appends "name":value.
void json_parameter_append(buffer *out, const json_parameter *p);

// Takes the id of a request.
error *json_id_read(json_cursor *c, const json_path *place, const char **id);

#endif

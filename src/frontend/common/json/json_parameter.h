// What requests and replies in JSON have in common beside tensors: parameters and the request's id.
// Pure functions.
#ifndef NEREID_FRONTEND_COMMON_JSON_JSON_PARAMETER_H
#define NEREID_FRONTEND_COMMON_JSON_JSON_PARAMETER_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/slice.h"
#include "frontend/common/json/request_parameter.h"

#include <stddef.h>

typedef struct json_cursor json_cursor; // json_scan.h
typedef struct json_path json_path;

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

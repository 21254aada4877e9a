// SPDX-License-Identifier: Apache-2.0
// A table of the parameters with a meaning; parameters and ids from and to JSON.
#include "frontend/common/json/request_parameter.h"

#include "base/number.h"
#include "base/text.h"
#include "frontend/common/json/json_scan.h"
#include "frontend/common/net/request_limits.h"
#include "frontend/common/observe/abi_error.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define RESERVED_PREFIX "triton_"
#define TYPE(name)      (1u << REQUEST_PARAMETER_##name)

// Names that only the front ends use.
static const char *const front_end_names[] = {"binary_data_output", "headers"};

typedef enum meaning_kind {
  SEQUENCE_ID,
  SEQUENCE_START,
  SEQUENCE_END,
  PRIORITY,
  TIMEOUT,
} meaning_kind;

static const struct {
  const char *name;
  unsigned types; // bits
  const char *expected;
} meanings[] = {
    [SEQUENCE_ID] = {"sequence_id", TYPE(INT64) | TYPE(STRING), "int64_param or string_param."},
    [SEQUENCE_START] = {"sequence_start", TYPE(BOOL), "bool_param."},
    [SEQUENCE_END] = {"sequence_end", TYPE(BOOL), "bool_param."},
    [PRIORITY] = {"priority", TYPE(INT64) | TYPE(UINT64), "int64_param or uint64_param."},
    [TIMEOUT] = {"timeout", TYPE(INT64), "int64_param."},
};

#define MEANING_COUNT (sizeof(meanings) / sizeof(meanings[0]))

static bool is_named(slice name, const char *other)
{
  return name.size == strlen(other) && strncasecmp(name.data, other, name.size) == 0;
}

bool request_parameter_is_reserved(slice name)
{
  for (size_t i = 0; i < MEANING_COUNT; i++)
    if (is_named(name, meanings[i].name))
      return true;
  for (size_t i = 0; i < sizeof(front_end_names) / sizeof(front_end_names[0]); i++)
    if (is_named(name, front_end_names[i]))
      return true;
  const size_t prefix = sizeof(RESERVED_PREFIX) - 1;
  return name.size >= prefix && strncasecmp(name.data, RESERVED_PREFIX, prefix) == 0;
}

error *request_parameter_give(TRITONSERVER_InferenceRequest *r, const request_parameter *p)
{
  switch (p->type) {
  case REQUEST_PARAMETER_BOOL:
    return error_from_abi(
        TRITONSERVER_InferenceRequestSetBoolParameter(r, p->name, p->value.boolean));
  case REQUEST_PARAMETER_INT64:
    return error_from_abi(
        TRITONSERVER_InferenceRequestSetIntParameter(r, p->name, p->value.integer));
  case REQUEST_PARAMETER_DOUBLE:
    return error_from_abi(
        TRITONSERVER_InferenceRequestSetDoubleParameter(r, p->name, p->value.real));
  case REQUEST_PARAMETER_STRING:
    return error_from_abi(
        TRITONSERVER_InferenceRequestSetStringParameter(r, p->name, p->value.string));
  default:
    return error_new(ERROR_INVALID_ARG,
                     "invalid value type for '%.256s' parameter, expected int64_param, bool_param, "
                     "or string_param. A double_param is taken too.",
                     p->name);
  }
}

// Applies a parameter whose type has been checked.
static error *set(TRITONSERVER_InferenceRequest *r, meaning_kind meaning,
                  const request_parameter *p, uint32_t *flags)
{
  switch (meaning) {
  case SEQUENCE_ID:
    return error_from_abi(
        p->type == REQUEST_PARAMETER_STRING
            ? TRITONSERVER_InferenceRequestSetCorrelationIdString(r, p->value.string)
            : TRITONSERVER_InferenceRequestSetCorrelationId(r, p->value.number));
  case SEQUENCE_START:
    *flags |= p->value.boolean ? TRITONSERVER_REQUEST_FLAG_SEQUENCE_START : 0;
    return NULL;
  case SEQUENCE_END:
    *flags |= p->value.boolean ? TRITONSERVER_REQUEST_FLAG_SEQUENCE_END : 0;
    return NULL;
  case PRIORITY:
    if (p->type == REQUEST_PARAMETER_INT64 && p->value.integer < 0)
      return error_new(ERROR_INVALID_ARG, "invalid value for '%s', expected value >= 0.", p->name);
    return error_from_abi(TRITONSERVER_InferenceRequestSetPriorityUInt64(r, p->value.number));
  default: // TIMEOUT: a negative one is unsigned, so longer than any, as in Triton
    return error_from_abi(TRITONSERVER_InferenceRequestSetTimeoutMicroseconds(r, p->value.number));
  }
}

error *request_parameter_apply(TRITONSERVER_InferenceRequest *r, const request_parameter *p,
                               uint32_t *flags)
{
  for (size_t i = 0; i < MEANING_COUNT; i++) {
    if (strcmp(p->name, meanings[i].name) != 0)
      continue;
    if ((meanings[i].types & (1u << p->type)) == 0)
      return error_new(ERROR_INVALID_ARG, "invalid value type for '%s' parameter, expected %s",
                       p->name, meanings[i].expected);
    return set(r, (meaning_kind)i, p, flags);
  }
  if (text_starts_with(p->name, RESERVED_PREFIX))
    return error_new(ERROR_INVALID_ARG,
                     "parameter keys starting with '%s' are reserved for Triton usage and should "
                     "not be specified.",
                     RESERVED_PREFIX);
  return request_parameter_give(r, p);
}

// ---- JSON ----

static error *invalid_parameter(const json_path *path, slice key)
{
  char words[192];
  snprintf(words, sizeof(words),
           "parameter '%.*s' has invalid type. It should be either 'int', 'bool', or 'string'.",
           (int)(key.size < 64 ? key.size : 64), key.data);
  return json_fail_words(path, words, "expected one of these, or a number in the range of FP64");
}

// An integer if it is written as one and fits into a signed 64-bit integer, else a double.
static error *read_number_parameter(json_cursor *c, const json_path *path, slice key,
                                    request_parameter *p)
{
  const char *end;
  const char *start = c->at;
  if (number_read_f64(start, &end, &p->value.real) != NUMBER_READ_OK || end > c->end)
    return invalid_parameter(path, key);
  c->at = end;
  p->type = REQUEST_PARAMETER_DOUBLE;
  for (const char *t = start; t < end; t++)
    if (strchr(".eENI", *t) != NULL)
      return NULL;
  int64_t integer;
  if (number_read_i64(start, &end, &integer) != NUMBER_READ_OK)
    return NULL;
  p->type = REQUEST_PARAMETER_INT64;
  p->value.integer = integer;
  return NULL;
}

error *json_parameter_read(json_cursor *c, const json_path *path, slice key, json_parameters *list)
{
  if (list->count == REQUEST_PARAMETERS_MAX)
    return json_fail_text(path, "expected at most %d parameters", REQUEST_PARAMETERS_MAX);
  list->items = arena_grow_array(c->arena, list->items, list->count, sizeof(request_parameter));
  char *name = arena_copy_text(c->arena, key);
  if (list->items == NULL || name == NULL)
    return error_no_memory();
  request_parameter *p = &list->items[list->count++];
  p->name = name;
  char next = json_peek(c);
  if (next == '"') {
    p->type = REQUEST_PARAMETER_STRING;
    return json_text(c, path, &p->value.string);
  }
  if (next == 't' || next == 'f') {
    p->type = REQUEST_PARAMETER_BOOL;
    return json_bool(c, path, &p->value.boolean);
  }
  return read_number_parameter(c, path, key, p);
}

// The id is copied several times until it is in the reply, so it is limited.
error *json_id_read(json_cursor *c, const json_path *path, const char **id)
{
  RETURN_IF_ERROR(json_text(c, path, id));
  return strlen(*id) <= REQUEST_ID_MAX_BYTES
             ? NULL
             : json_fail_text(path, "expected an id of at most %d bytes", REQUEST_ID_MAX_BYTES);
}

void json_parameter_append(buffer *out, const request_parameter *p)
{
  char number[NUMBER_TEXT_BYTES];
  buffer_append_json_string(out, slice_of(p->name));
  buffer_append_char(out, ':');
  switch (p->type) {
  case REQUEST_PARAMETER_BOOL:
    buffer_append_text(out, p->value.boolean ? "true" : "false");
    return;
  case REQUEST_PARAMETER_INT64:
    buffer_append(out, number, number_print_i64(number, p->value.integer));
    return;
  case REQUEST_PARAMETER_DOUBLE:
    buffer_append(out, number, number_print_f64(number, p->value.real));
    return;
  default:
    buffer_append_json_string(out, slice_of(p->value.string));
  }
}

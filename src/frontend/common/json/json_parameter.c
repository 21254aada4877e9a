// Parameters and ids between text and values.
#include "frontend/common/json/json_parameter.h"

#include "base/number.h"
#include "frontend/common/json/json_scan.h"
#include "frontend/common/net/request_limits.h"

#include <stdio.h>
#include <string.h>

static error *invalid_parameter(const json_path *path, slice key)
{
  char words[192];
  snprintf(words, sizeof(words),
           "parameter '%.*s' has invalid type. It should be either 'int', 'bool', or 'string'.",
           (int)(key.size < 64 ? key.size : 64), key.data);
  return json_fail_words(path, words, "or a number in the range of FP64");
}

// An integer where it is written as one and fits into 64 bits with its sign, else a double.
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

// The id goes along with the request and comes back: it is kept several times.
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

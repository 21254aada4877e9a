// SPDX-License-Identifier: Apache-2.0
// Converts the generate extension's text to tensors and back.
#include "frontend/common/json/generate_json.h"

#include "frontend/common/json/json_scan.h"
#include "frontend/common/json/json_tensor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NESTED "parameters"

// ---- the model's inputs ----

static error *count_element(void *count, json_cursor *c, const json_path *path)
{
  ++*(uint64_t *)count;
  return json_skip(c, path);
}

static error *read_metadata_shape(void *context, json_cursor *c, const json_path *path)
{
  generate_input *input = context;
  uint64_t count = 0;
  const void *shape;
  size_t size;
  json_cursor ahead = *c;
  RETURN_IF_ERROR(json_elements(&ahead, path, count_element, &count));
  RETURN_IF_ERROR(json_tensor_read(c, path, TRITONSERVER_TYPE_INT64, count, &shape, &size));
  input->shape = shape;
  input->shape_count = count;
  return NULL;
}

static error *read_metadata_datatype(void *input, json_cursor *c, const json_path *path)
{
  slice text;
  RETURN_IF_ERROR(json_string_view(c, path, &text));
  ((generate_input *)input)->datatype = datatype_named(text);
  return NULL;
}

static const json_schema metadata_input = {
    .members = {{SLICE("name"), NULL, JSON_TEXT, offsetof(generate_input, name)},
                {SLICE("datatype"), read_metadata_datatype, JSON_READ, 0},
                {SLICE("shape"), read_metadata_shape, JSON_READ, 0}}};

static error *visit_metadata_input(void *context, json_cursor *c, const json_path *path)
{
  generate_inputs *inputs = context;
  generate_input *items =
      arena_grow_array(c->arena, inputs->items, inputs->count, sizeof(*inputs->items));
  if (items == NULL)
    return error_no_memory();
  inputs->items = items;
  generate_input *input = &items[inputs->count++];
  *input = (generate_input){.name = ""};
  unsigned seen = 0;
  return json_object_read(c, path, &metadata_input, input, &seen);
}

static const json_schema model_metadata = {
    .members = {{SLICE("inputs"), visit_metadata_input, JSON_LIST, 0}}};

error *generate_inputs_read(slice metadata, arena *a, generate_inputs *out)
{
  *out = (generate_inputs){0};
  json_cursor c = json_begin(metadata, NULL, a);
  unsigned seen = 0;
  return json_object_read(&c, NULL, &model_metadata, out, &seen);
}

// ---- requests ----

typedef struct generate_context {
  const generate_inputs *inputs;
  infer_request_json *request;
  bool nested; // within `parameters`
} generate_context;

static error *wrong_shape(const char *name)
{
  return error_new(ERROR_INVALID_ARG,
                   "The schema can not convert input '%s' to tensor with proper shape", name);
}

// Spreads `count` elements over the input's shape, as Triton does. An empty list makes the
// innermost variable dimension 0.
static error *choose_shape(const generate_input *from, uint64_t count, arena *a,
                           infer_json_input *input)
{
  int64_t *shape = arena_allocate_array(a, from->shape_count + 1, sizeof(*shape));
  if (shape == NULL)
    return error_no_memory();
  for (size_t i = 0; i < from->shape_count; i++) {
    if (from->shape[i] < 0)
      continue;
    if (from->shape[i] == 0 || count % (uint64_t)from->shape[i] != 0)
      return wrong_shape(from->name);
    count /= (uint64_t)from->shape[i];
  }
  for (size_t i = from->shape_count; i-- > 0;) {
    shape[i] = from->shape[i];
    if (shape[i] >= 0)
      continue;
    shape[i] = (int64_t)count;
    count = 1;
  }
  input->shape = shape;
  input->shape_count = from->shape_count;
  return count == 1 ? NULL : wrong_shape(from->name);
}

static error *check_size(const generate_context *g, const char *name, size_t size)
{
  size_t before = g->request->json_data_size;
  if (size <= g->request->max_data_size - before)
    return NULL;
  return error_new(ERROR_INVALID_ARG,
                   "request size of %zu bytes with input '%s' of size %zu bytes exceeds the "
                   "maximum allowed input size of %zu. Use --http-max-input-size to increase the "
                   "limit.",
                   before, name, size, g->request->max_data_size);
}

static error *read_value(generate_context *g, json_cursor *c, const json_path *path,
                         const generate_input *from, infer_json_input *input)
{
  if (from->datatype == TRITONSERVER_TYPE_INVALID)
    return error_new(ERROR_INVALID_ARG, "input '%s' has unsupported datatype", from->name);
  bool is_array = json_peek(c) == '[';
  uint64_t count = is_array ? 0 : 1;
  json_cursor ahead = *c;
  if (is_array)
    RETURN_IF_ERROR(json_elements(&ahead, path, count_element, &count));
  *input =
      (infer_json_input){.name = from->name, .datatype = from->datatype, .element_count = count};
  RETURN_IF_ERROR(choose_shape(from, count, c->arena, input));
  // An array's text has at least two characters for each element, so the product cannot overflow.
  RETURN_IF_ERROR(check_size(g, from->name, count * TRITONSERVER_DataTypeByteSize(from->datatype)));
  RETURN_IF_ERROR(
      json_tensor_read(c, path, from->datatype, count, &input->data, &input->data_size));
  RETURN_IF_ERROR(check_size(g, from->name, input->data_size));
  g->request->json_data_size += input->data_size;
  return NULL;
}

static const generate_input *find_input(const generate_inputs *inputs, slice name)
{
  for (size_t i = 0; i < inputs->count; i++)
    if (slice_equal_text(name, inputs->items[i].name))
      return &inputs->items[i];
  return NULL;
}

static error *read_input(generate_context *g, json_cursor *c, const json_path *path,
                         const generate_input *from)
{
  infer_request_json *r = g->request;
  for (size_t i = 0; i < r->input_count; i++)
    if (r->inputs[i].name == from->name)
      return error_new(ERROR_INVALID_ARG, "[request id: %s] input '%s' already exists in request",
                       r->id[0] != '\0' ? r->id : "<id_unknown>", from->name);
  json_path value = *path;
  value.known_as = "data";
  return read_value(g, c, &value, from, &r->inputs[r->input_count++]);
}

static error *visit_member(void *context, json_cursor *c, const json_path *path, slice key);

static error *read_nested(generate_context *g, json_cursor *c, const json_path *path,
                          const generate_input *same_name)
{
  if (same_name != NULL)
    return error_new(ERROR_INVALID_ARG,
                     "Keyword '" NESTED "' for nested schema also given as input tensor name");
  if (json_peek(c) != '{')
    return json_fail_kind_as(c, path,
                             "Expected JSON object for keyword: '" NESTED
                             "': attempt to access JSON non-object as object",
                             "an object");
  generate_context inner = *g;
  inner.nested = true;
  error *e = json_members(c, path, visit_member, &inner);
  return e == NULL ? NULL : error_wrap(e, "Converting keyword: '" NESTED "'");
}

static error *visit_member(void *context, json_cursor *c, const json_path *path, slice key)
{
  generate_context *g = context;
  const generate_input *input = find_input(g->inputs, key);
  if (!g->nested && slice_equal_text(key, NESTED))
    return read_nested(g, c, path, input);
  if (!g->nested && slice_equal_text(key, "id")) {
    json_cursor ahead = *c;
    RETURN_IF_ERROR(json_id_read(&ahead, path, &g->request->id));
  }
  if (input != NULL)
    return read_input(g, c, path, input);
  return json_parameter_read(c, path, key, &g->request->parameters);
}

error *generate_request_json_read(slice text, const generate_inputs *inputs, size_t max_data_size,
                                  arena *a, infer_request_json *out)
{
  *out = (infer_request_json){.id = "", .max_data_size = max_data_size};
  out->inputs = arena_allocate_array(a, inputs->count + 1, sizeof(*out->inputs));
  if (out->inputs == NULL)
    return error_no_memory();
  if (text.size == 0)
    return NULL;
  json_cursor c = json_begin(text, NULL, a);
  generate_context g = {.inputs = inputs, .request = out};
  if (json_peek(&c) != '{')
    return json_fail_kind_as(&c, NULL, "attempt to get members for non-object", "an object");
  RETURN_IF_ERROR(json_members(&c, NULL, visit_member, &g));
  return json_finish(&c);
}

// ---- replies ----

// A member of the reply: a parameter or an output.
typedef struct generate_member {
  const char *name;
  size_t order; // place in the list
  const request_parameter *parameter;
  const response_output_json *output;
} generate_member;

static int compare_members(const void *left, const void *right)
{
  const generate_member *a = left, *b = right;
  int order = strcmp(a->name, b->name);
  return order != 0 ? order : (a->order > b->order) - (a->order < b->order);
}

static size_t list_parameters(const request_parameter *parameters, size_t parameter_count,
                              size_t count, generate_member *members)
{
  for (size_t i = 0; i < parameter_count; i++, count++)
    members[count] = (generate_member){parameters[i].name, count, &parameters[i], NULL};
  return count;
}

static error *append_output(const response_output_json *o, buffer *out)
{
  buffer_append_json_string(out, slice_of(o->name));
  buffer_append_char(out, ':');
  uint64_t count;
  if (!response_output_count(o, &count))
    return error_new(ERROR_INTERNAL, "output '%s': its shape has an invalid dimension", o->name);
  error *e = count == 1 ? json_element_write(o->datatype, o->data, o->data_size, out)
                        : json_tensor_write(o->datatype, o->data, o->data_size, count, NULL, out);
  return e == NULL ? NULL : error_wrap(e, "output '%s'", o->name);
}

error *generate_response_json_write(const infer_response_json *r, arena *a, buffer *out)
{
  char version[32];
  snprintf(version, sizeof(version), "%" PRId64, r->model_version);
  const request_parameter texts[] = {
      {"id", REQUEST_PARAMETER_STRING, {.string = r->id}},
      {"model_name", REQUEST_PARAMETER_STRING, {.string = r->model_name}},
      {"model_version", REQUEST_PARAMETER_STRING, {.string = version}}};
  bool has_id = r->id != NULL && r->id[0] != '\0';
  generate_member *members =
      arena_allocate_array(a, 3 + r->parameter_count + r->output_count, sizeof(*members));
  if (members == NULL)
    return error_no_memory();
  size_t count = list_parameters(has_id ? texts : texts + 1, has_id ? 3 : 2, 0, members);
  count = list_parameters(r->parameters, r->parameter_count, count, members);
  for (size_t i = 0; i < r->output_count; i++, count++)
    members[count] = (generate_member){r->outputs[i].name, count, NULL, &r->outputs[i]};
  qsort(members, count, sizeof(*members), compare_members);
  buffer_append_char(out, '{');
  for (size_t i = 0; i < count; i++) {
    if (i > 0 && strcmp(members[i].name, members[i - 1].name) == 0)
      continue;
    if (i > 0)
      buffer_append_char(out, ',');
    if (members[i].output != NULL)
      RETURN_IF_ERROR(append_output(members[i].output, out));
    else
      json_parameter_append(out, members[i].parameter);
  }
  buffer_append_char(out, '}');
  return out->failed ? error_no_memory() : NULL;
}

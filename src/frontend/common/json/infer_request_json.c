// SPDX-License-Identifier: Apache-2.0
// Reads inference requests: members in any order, each member of the protocol at most once. Errors
// begin with Triton's words; what Triton ignores is ignored.
#include "frontend/common/json/infer_request_json.h"

#include "base/checked.h"
#include "frontend/common/json/json_scan.h"
#include "frontend/common/json/json_tensor.h"
#include "frontend/common/net/request_limits.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// ---- members that several objects have ----

// Ignores unknown parameters of a tensor, and a value that is no object: some clients send null for
// what they leave out.
static error *read_tensor_parameters(json_cursor *c, const json_path *path,
                                     const json_schema *object, void *tensor, unsigned *seen)
{
  return json_peek(c) == '{' ? json_object_read(c, path, object, tensor, seen) : json_skip(c, path);
}

#define SHARED_MEMORY_MEMBERS(type)                                                                \
  {SLICE("shared_memory_region"), NULL, JSON_TEXT, offsetof(type, shared_memory.region)},          \
      {SLICE("shared_memory_offset"), NULL, JSON_U64, offsetof(type, shared_memory.offset)},       \
  {                                                                                                \
    SLICE("shared_memory_byte_size"), NULL, JSON_U64, offsetof(type, shared_memory.byte_size)      \
  }

static json_path member_path(const json_path *outer, const char *key)
{
  return (json_path){.outer = outer, .key = key, .key_size = strlen(key)};
}

static error *missing(const json_path *outer, const char *key)
{
  const json_path path = member_path(outer, key);
  char words[96];
  snprintf(words, sizeof(words),
           "Unable to parse '%s': attempt to access non-existing object member '%s'", key, key);
  return json_fail_words(&path, words, "this member is missing");
}

// ---- inputs ----

typedef enum input_member {
  INPUT_NAME,
  INPUT_DATATYPE,
  INPUT_SHAPE,
  INPUT_PARAMETERS,
  INPUT_DATA,
} input_member;

typedef struct input_context {
  infer_request_json *request;
  infer_json_input input;
  int64_t *shape;
  unsigned seen;
  slice invalid_datatype; // the text of an unknown datatype; data NULL: none
  json_cursor late_data;  // data that came before datatype or shape; at NULL: none
} input_context;

static bool has(const input_context *in, unsigned member)
{
  return (in->seen & 1u << member) != 0;
}

// An unknown datatype is refused later, when the input's name is known.
static error *read_datatype(void *context, json_cursor *c, const json_path *path)
{
  input_context *in = context;
  slice text;
  RETURN_IF_ERROR(json_string_view(c, path, &text));
  in->input.datatype = datatype_named(text);
  if (in->input.datatype == TRITONSERVER_TYPE_INVALID)
    in->invalid_datatype = text;
  return NULL;
}

static error *visit_dimension(void *context, json_cursor *c, const json_path *path)
{
  input_context *in = context;
  infer_json_input *input = &in->input;
  if (input->shape_count == REQUEST_DIMENSIONS_MAX)
    return json_fail_text(path->outer, "expected at most %d dimensions", REQUEST_DIMENSIONS_MAX);
  in->shape = arena_grow_array(c->arena, in->shape, input->shape_count, sizeof(int64_t));
  if (in->shape == NULL)
    return error_no_memory();
  json_peek(c);
  const json_cursor before = *c;
  uint64_t dimension;
  RETURN_IF_ERROR(json_u64(c, path, &dimension));
  if (dimension > INT64_MAX)
    return json_fail_kind(&before, path, "non-unsigned-integer as unsigned-integer",
                          "an integer in [0, 9223372036854775807]");
  in->shape[input->shape_count++] = (int64_t)dimension;
  uint64_t *count = &input->element_count;
  if (__builtin_mul_overflow(*count, dimension, count) || *count > INT64_MAX)
    return json_fail_text(
        path->outer, "causes total element count to exceed maximum size of %" PRId64, INT64_MAX);
  return NULL;
}

static error *read_shape(void *context, json_cursor *c, const json_path *path)
{
  input_context *in = context;
  in->input.element_count = 1;
  in->shape = arena_allocate(c->arena, sizeof(*in->shape)); // not NULL even without dimensions
  RETURN_IF_ERROR(json_elements(c, path, visit_dimension, in));
  in->input.shape = in->shape;
  return NULL;
}

static const json_schema input_parameters = {.members = {{SLICE("binary_data_size"), NULL, JSON_U64,
                                                          offsetof(infer_json_input, binary_size)},
                                                         SHARED_MEMORY_MEMBERS(infer_json_input)}};

static error *read_input_parameters(void *context, json_cursor *c, const json_path *path)
{
  infer_json_input *input = &((input_context *)context)->input;
  unsigned seen = 0;
  error *e = read_tensor_parameters(c, path, &input_parameters, input, &seen);
  input->binary = (seen & 1) != 0;
  return e;
}

static error *check_data_size(const input_context *in, const json_path *path, size_t size)
{
  const infer_request_json *r = in->request;
  if (size <= r->max_data_size - r->json_data_size)
    return NULL;
  char words[REQUEST_NAME_MAX_BYTES + 160];
  snprintf(words, sizeof(words),
           "JSON input '%s' has a byte_size (%zu bytes) that exceeds the maximum allowed value of "
           "%zu bytes",
           in->input.name != NULL ? in->input.name : "", size, r->max_data_size);
  return json_fail_words(
      path, words, "all inputs together count. Use --http-max-input-size to increase the limit.");
}

// Checks the size of numbers before it allocates, of strings after they are read.
static error *read_tensor(input_context *in, json_cursor *c, const json_path *path)
{
  infer_json_input *input = &in->input;
  size_t size;
  bool is_array = json_peek(c) == '[';
  if (is_array && input->element_count == 0) // the elements are ignored
    return json_skip(c, path);
  if (!checked_multiply_size(TRITONSERVER_DataTypeByteSize(input->datatype), input->element_count,
                             &size))
    size = SIZE_MAX;
  RETURN_IF_ERROR(check_data_size(in, path, size));
  if (!is_array)
    return json_fail_kind(c, path, "non-array as array", "an array");
  RETURN_IF_ERROR(json_tensor_read(c, path, input->datatype, input->element_count, &input->data,
                                   &input->data_size));
  RETURN_IF_ERROR(check_data_size(in, path, input->data_size));
  in->request->json_data_size += input->data_size;
  return NULL;
}

static error *read_data(void *context, json_cursor *c, const json_path *path)
{
  input_context *in = context;
  if (has(in, INPUT_DATATYPE) && has(in, INPUT_SHAPE) && in->invalid_datatype.data == NULL)
    return read_tensor(in, c, path);
  in->late_data = *c;
  return json_skip(c, path);
}

#define ONE_FIELD                                                                                  \
  "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', "  \
  "'shared_memory_region' in 'parameters'."

static const json_schema input_schema = {
    .members = {[INPUT_NAME] = {SLICE("name"), NULL, JSON_NAME,
                                offsetof(input_context, input.name)},
                [INPUT_DATATYPE] = {SLICE("datatype"), read_datatype, JSON_READ, 0},
                [INPUT_SHAPE] = {SLICE("shape"), read_shape, JSON_READ, 0},
                [INPUT_PARAMETERS] = {SLICE("parameters"), read_input_parameters, JSON_READ, 0},
                [INPUT_DATA] = {SLICE("data"), read_data, JSON_READ, 0}},
    .refusal = ONE_FIELD " But no field is set"};

static error *check_datatype(const input_context *in, const json_path *outer)
{
  const slice text = in->invalid_datatype;
  const json_path path = member_path(outer, "datatype");
  char words[REQUEST_NAME_MAX_BYTES + 64];
  if (text.data == NULL)
    return NULL;
  snprintf(words, sizeof(words), "invalid datatype for input %s", in->input.name);
  return json_fail_words(&path, words,
                         "expected BOOL, UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, "
                         "FP16, FP32, FP64, BF16 or BYTES, got '%.*s'",
                         (int)(text.size < 64 ? text.size : 64), text.data);
}

// Exactly one of JSON data, binary data and shared memory; a tensor without elements may have none.
static error *check_data(const input_context *in, const json_path *path)
{
  const infer_json_input *input = &in->input;
  bool json = has(in, INPUT_DATA);
  bool shared = input->shared_memory.region != NULL;
  int count = json + input->binary + shared;
  if (count == 1 || (count == 0 && input->element_count == 0))
    return NULL;
  if (count == 0)
    return json_fail_words(path, ONE_FIELD " But no field is set",
                           "the data of input '%s' is missing", input->name);
  char words[256];
  snprintf(words, sizeof(words), ONE_FIELD " But set%s%s%s", json ? " 'data'" : "",
           input->binary ? " 'binary_data_size'" : "", shared ? " 'shared_memory_region'" : "");
  return json_fail_words(path, words, "input '%s' has more than one", input->name);
}

static error *finish_input(input_context *in, const json_path *path)
{
  for (unsigned member = INPUT_NAME; member <= INPUT_SHAPE; member++)
    if (!has(in, member))
      return missing(path, input_schema.members[member].name.data);
  RETURN_IF_ERROR(check_datatype(in, path));
  RETURN_IF_ERROR(check_data(in, path));
  const json_path data = member_path(path, "data");
  return in->late_data.at == NULL ? NULL : read_tensor(in, &in->late_data, &data);
}

static error *visit_input(void *context, json_cursor *c, const json_path *path)
{
  infer_request_json *r = context;
  if (r->input_count == REQUEST_TENSORS_MAX)
    return json_fail_text(path, "expected at most %d inputs", REQUEST_TENSORS_MAX);
  r->inputs = arena_grow_array(c->arena, r->inputs, r->input_count, sizeof(infer_json_input));
  if (r->inputs == NULL)
    return error_no_memory();
  input_context in = {.request = r};
  RETURN_IF_ERROR(json_object_read(c, path, &input_schema, &in, &in.seen));
  RETURN_IF_ERROR(finish_input(&in, path));
  r->inputs[r->input_count++] = in.input;
  return NULL;
}

// ---- outputs ----

static error *read_classification(void *output, json_cursor *c, const json_path *path)
{
  return json_take_u64(c, &((infer_json_output *)output)->classification)
             ? NULL
             : json_fail_kind_as(c, path,
                                 "Unable to set 'classification': attempt to access JSON "
                                 "non-unsigned-integer as unsigned-integer",
                                 "an integer in [0, 18446744073709551615]");
}

static const json_schema output_parameters = {
    .members = {{SLICE("classification"), read_classification, JSON_READ, 0},
                {SLICE("binary_data"), NULL, JSON_BOOL, offsetof(infer_json_output, binary)},
                SHARED_MEMORY_MEMBERS(infer_json_output)}};

static error *read_output_parameters(void *output, json_cursor *c, const json_path *path)
{
  const infer_json_output *o = output;
  unsigned seen = 0;
  char words[96];
  RETURN_IF_ERROR(read_tensor_parameters(c, path, &output_parameters, output, &seen));
  bool is_classified = (seen & 1) != 0;
  if (o->shared_memory.region == NULL || (!is_classified && !o->binary))
    return NULL;
  snprintf(words, sizeof(words), "Output can't set both 'shared_memory_region' and '%s'",
           is_classified ? "classification" : "binary_data");
  return json_fail_words(path->outer, words, "expected one of the two in its parameters");
}

static const json_schema output_schema = {
    .members = {{SLICE("name"), NULL, JSON_NAME, offsetof(infer_json_output, name)},
                {SLICE("parameters"), read_output_parameters, JSON_READ, 0}},
    .refusal = "Unable to parse 'name': attempt to access non-existing object member 'name'"};

static error *visit_output(void *context, json_cursor *c, const json_path *path)
{
  infer_request_json *r = context;
  if (r->output_count == REQUEST_TENSORS_MAX)
    return json_fail_text(path, "expected at most %d outputs", REQUEST_TENSORS_MAX);
  r->outputs = arena_grow_array(c->arena, r->outputs, r->output_count, sizeof(infer_json_output));
  if (r->outputs == NULL)
    return error_no_memory();
  infer_json_output *output = &r->outputs[r->output_count++];
  unsigned seen = 0;
  *output = (infer_json_output){0};
  RETURN_IF_ERROR(json_object_read(c, path, &output_schema, output, &seen));
  return output->name == NULL ? missing(path, "name") : NULL;
}

// ---- the request ----

static error *read_sequence_id(void *request, json_cursor *c, const json_path *path)
{
  infer_request_json *r = request;
  if (json_peek(c) == '"')
    return json_text(c, path, &r->sequence_name);
  return json_take_u64(c, &r->sequence_id)
             ? NULL
             : json_fail_kind_as(c, path,
                                 "Unable to parse 'sequence_id': attempt to access JSON non-string "
                                 "as string",
                                 "a string or an integer in [0, 18446744073709551615]");
}

static error *visit_parameter(void *request, json_cursor *c, const json_path *path, slice key)
{
  if (key.size >= 7 && memcmp(key.data, "triton_", 7) == 0)
    return json_fail_words(path,
                           "parameter keys starting with 'triton_' are reserved for Triton usage "
                           "and should not be specified.",
                           "expected another name");
  return json_parameter_read(c, path, key, &((infer_request_json *)request)->parameters);
}

#define REQUEST_FIELD(name, kind, field)                                                           \
  {                                                                                                \
    SLICE(name), NULL, kind, offsetof(infer_request_json, field)                                   \
  }
static const json_schema request_parameters = {
    .members = {{SLICE("sequence_id"), read_sequence_id, JSON_READ, 0},
                REQUEST_FIELD("sequence_start", JSON_BOOL, sequence_start),
                REQUEST_FIELD("sequence_end", JSON_BOOL, sequence_end),
                REQUEST_FIELD("priority", JSON_U64, priority),
                REQUEST_FIELD("timeout", JSON_U64, timeout_us),
                REQUEST_FIELD("binary_data_output", JSON_BOOL, binary_output)},
    .visit_other = visit_parameter,
    .refusal = "failed to get request params.: attempt to get members for non-object"};

static error *read_parameters(void *request, json_cursor *c, const json_path *path)
{
  unsigned seen = 0;
  return json_object_read(c, path, &request_parameters, request, &seen);
}

static error *read_id(void *request, json_cursor *c, const json_path *path)
{
  return json_id_read(c, path, &((infer_request_json *)request)->id);
}

static const json_schema request_schema = {
    .members = {{SLICE("inputs"), visit_input, JSON_LIST, 0},
                {SLICE("id"), read_id, JSON_READ, 0},
                {SLICE("outputs"), visit_output, JSON_LIST, 0},
                {SLICE("parameters"), read_parameters, JSON_READ, 0}},
    .refusal = "Unable to parse 'inputs': attempt to access non-existing object member 'inputs'"};

// If an input announced binary data, the error for text behind the JSON names the header that it
// needs.
static error *finish(json_cursor *c, const infer_request_json *request)
{
  const size_t size = (size_t)(c->at - c->begin);
  bool binary = false;
  AUTO_ERROR error *e = json_finish(c);
  for (size_t i = 0; e != NULL && i < request->input_count; i++)
    binary = binary || request->inputs[i].binary;
  if (e == NULL)
    return NULL;
  return error_new(ERROR_INVALID_ARG,
                   binary ? "%s: for binary data behind the JSON send the header "
                            "Inference-Header-Content-Length: %zu"
                          : "%s",
                   error_message(e), size);
}

error *infer_request_json_read(slice text, size_t max_data_size, const json_host *host, arena *a,
                               infer_request_json *out)
{
  *out = (infer_request_json){.id = "", .max_data_size = max_data_size};
  json_cursor c = json_begin(text, host, a);
  unsigned seen = 0;
  RETURN_IF_ERROR(json_object_read(&c, NULL, &request_schema, out, &seen));
  RETURN_IF_ERROR(finish(&c, out));
  return (seen & 1) == 0 ? missing(NULL, "inputs") : NULL;
}

static const json_schema timeout_parameters = {
    .members = {REQUEST_FIELD("timeout", JSON_U64, timeout_us)}};

static error *read_timeout(void *request, json_cursor *c, const json_path *path)
{
  unsigned seen = 0;
  return json_object_read(c, path, &timeout_parameters, request, &seen);
}

uint64_t infer_request_json_timeout(slice text, arena *a)
{
  static const json_schema schema = {
      .members = {{SLICE("parameters"), read_timeout, JSON_READ, 0}}};
  infer_request_json found = {0};
  json_cursor c = json_begin(text, NULL, a);
  unsigned seen = 0;
  AUTO_ERROR error *e = json_object_read(&c, NULL, &schema, &found, &seen);
  return e == NULL ? found.timeout_us : 0;
}

error *binary_tensors_split(infer_request_json *request, const char *model, slice binary)
{
  for (size_t i = 0; i < request->input_count; i++) {
    infer_json_input *input = &request->inputs[i];
    if (!input->binary)
      continue;
    if (input->binary_size > binary.size)
      return error_new(
          ERROR_INVALID_ARG,
          "unexpected size for input '%s', expecting %zu additional bytes for model "
          "'%s': binary_data_size is %zu, %zu bytes are left%s",
          input->name, input->binary_size - binary.size, model, input->binary_size, binary.size,
          binary.size > 0
              ? ""
              : " behind the JSON, whose size the header Inference-Header-Content-Length "
                "says (without it, the whole body is JSON)");
    input->data = binary.data;
    input->data_size = input->binary_size;
    if (input->binary_size == 0) // the binary part may be NULL
      continue;
    binary.data += input->binary_size;
    binary.size -= input->binary_size;
  }
  if (binary.size > 0)
    return error_new(ERROR_INVALID_ARG,
                     "unexpected additional input data for model '%s': %zu bytes are left behind "
                     "the last binary input",
                     model, binary.size);
  return NULL;
}

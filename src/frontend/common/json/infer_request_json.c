// Reading of inference requests: members in any order, each protocol key at most once. What is
// refused is so in Triton's words first; what Triton passes over is passed over.
#include "frontend/common/json/infer_request_json.h"

#include "base/checked.h"
#include "base/number.h"
#include "frontend/common/json/datatype.h"
#include "frontend/common/json/json_scan.h"
#include "frontend/common/json/json_tensor.h"
#include "frontend/common/net/request_limits.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// ---- names of tensors ----

// They stand whole in errors, so they must be short.
static error *read_name(json_cursor *c, const json_path *path, const char **name)
{
  RETURN_IF_ERROR(json_text(c, path, name));
  return strlen(*name) <= REQUEST_NAME_MAX_BYTES
             ? NULL
             : json_fail_text(path, "expected a name of at most %d bytes", REQUEST_NAME_MAX_BYTES);
}

// ---- parameters ----

// Takes the value of a parameter that the protocol defines; *known says whether it does.
typedef error *known_parameter(void *context, json_cursor *c, const json_path *path, slice key,
                               bool *known);

typedef struct parameters_context {
  json_parameters *parameters;
  size_t *count; // of the whole request
  unsigned seen; // a bit for each row of protocol_keys
  known_parameter *known;
  void *context;
} parameters_context;

// Each may stand once in an object.
static const char *const protocol_keys[] = {
    "sequence_id",    "sequence_start",       "sequence_end",         "priority",
    "timeout",        "binary_data_output",   "binary_data_size",     "binary_data",
    "classification", "shared_memory_region", "shared_memory_offset", "shared_memory_byte_size",
};

// Notes a key in the bits of `seen`; false when it was there before.
static bool note(unsigned *seen, unsigned key)
{
  bool first = (*seen & key) == 0;
  *seen |= key;
  return first;
}

static error *twice(const json_path *path)
{
  return json_fail_text(path, "expected this member once");
}

static error *note_protocol_key(parameters_context *p, const json_path *path, slice key)
{
  for (size_t i = 0; i < sizeof(protocol_keys) / sizeof(protocol_keys[0]); i++)
    if (slice_equal_text(key, protocol_keys[i]))
      return note(&p->seen, 1u << i) ? NULL : twice(path);
  return NULL;
}

static error *visit_parameter(void *context, json_cursor *c, const json_path *path, slice key)
{
  parameters_context *p = context;
  bool known = false;
  RETURN_IF_ERROR(p->known(p->context, c, path, key, &known));
  if (known)
    return note_protocol_key(p, path, key);
  return p->parameters == NULL ? json_skip(c, path)
                               : json_parameter_read(c, path, key, p->count, p->parameters);
}

// Those of a tensor that the protocol does not define mean nothing, and what is no object is as
// good as none: some clients send what they leave out as null.
static error *read_tensor_parameters(json_cursor *c, const json_path *path, known_parameter *known,
                                     void *context)
{
  parameters_context p = {.known = known, .context = context};
  return json_peek(c) == '{' ? json_members(c, path, visit_parameter, &p) : json_skip(c, path);
}

// As json_u64, where Triton refuses it in other words.
static error *read_u64_as(json_cursor *c, const json_path *path, const char *words,
                          const char *expected, uint64_t *value)
{
  json_peek(c);
  const json_cursor before = *c;
  error *e = json_u64(c, path, value);
  if (e == NULL)
    return NULL;
  error_free(e);
  return json_fail_kind_as(&before, path, words, expected);
}

// The three keys of a tensor in shared memory.
static error *read_shared_memory(json_shared_memory *m, json_cursor *c, const json_path *path,
                                 slice key, bool *known)
{
  *known = true;
  if (slice_equal_text(key, "shared_memory_region"))
    return json_text(c, path, &m->region);
  if (slice_equal_text(key, "shared_memory_offset"))
    return json_u64(c, path, &m->offset);
  if (slice_equal_text(key, "shared_memory_byte_size"))
    return json_u64(c, path, &m->byte_size);
  *known = false;
  return NULL;
}

// ---- inputs ----

enum {
  SEEN_NAME = 1,
  SEEN_DATATYPE = 2,
  SEEN_SHAPE = 4,
  SEEN_PARAMETERS = 8,
  SEEN_DATA = 16,
};

typedef struct input_context {
  infer_request_json *request;
  infer_json_input *input;
  size_t max_data_size; // of all inputs
  unsigned seen;
  size_t shape_count;
  int64_t *shape;
  slice invalid_datatype; // what stands there instead of one; at NULL: nothing
  json_cursor late_data;  // data that came before what tells how to read it; at NULL: none
} input_context;

static error *known_input_parameter(void *context, json_cursor *c, const json_path *path, slice key,
                                    bool *known)
{
  infer_json_input *input = context;
  if (!slice_equal_text(key, "binary_data_size"))
    return read_shared_memory(&input->shared_memory, c, path, key, known);
  uint64_t size;
  *known = true;
  RETURN_IF_ERROR(json_u64(c, path, &size));
  input->binary = true;
  input->binary_size = (size_t)size;
  return NULL;
}

// One that is none is refused when the input's name is known.
static error *read_datatype(input_context *in, json_cursor *c, const json_path *path)
{
  slice text;
  RETURN_IF_ERROR(json_string_view(c, path, &text));
  in->input->datatype = protocol_datatype(text);
  if (in->input->datatype == TRITONSERVER_TYPE_INVALID)
    in->invalid_datatype = text;
  return NULL;
}

static error *visit_dimension(void *context, json_cursor *c, const json_path *path)
{
  input_context *in = context;
  if (in->shape_count == REQUEST_DIMENSIONS_MAX)
    return json_fail_text(path->outer, "expected at most %d dimensions", REQUEST_DIMENSIONS_MAX);
  in->shape = arena_grow_array(c->arena, in->shape, in->shape_count, sizeof(int64_t));
  if (in->shape == NULL)
    return error_no_memory();
  int64_t *dimension = &in->shape[in->shape_count++];
  json_peek(c);
  const json_cursor before = *c;
  uint64_t value;
  RETURN_IF_ERROR(json_u64(c, path, &value));
  if (value > INT64_MAX)
    return json_fail_kind(&before, path, "non-unsigned-integer as unsigned-integer",
                          "an integer in [0, 9223372036854775807]");
  *dimension = (int64_t)value;
  uint64_t *count = &in->input->element_count;
  if (__builtin_mul_overflow(*count, (uint64_t)*dimension, count) || *count > INT64_MAX)
    return json_fail_text(
        path->outer, "causes total element count to exceed maximum size of %" PRId64, INT64_MAX);
  return NULL;
}

static error *read_shape(input_context *in, json_cursor *c, const json_path *path)
{
  in->input->element_count = 1;
  in->shape = arena_allocate(c->arena, 0); // never NULL, as a shape of no dimensions is one
  RETURN_IF_ERROR(json_elements(c, path, visit_dimension, in));
  in->input->shape = in->shape;
  in->input->shape_count = in->shape_count;
  return NULL;
}

static error *check_data_size(const input_context *in, const json_path *path, size_t size)
{
  if (size <= in->max_data_size - in->request->json_data_size)
    return NULL;
  char words[REQUEST_NAME_MAX_BYTES + 160];
  snprintf(words, sizeof(words),
           "JSON input '%s' has a byte_size (%zu bytes) that exceeds the maximum allowed value of "
           "%zu bytes",
           in->input->name != NULL ? in->input->name : "", size, in->max_data_size);
  return json_fail_words(
      path, words, "all inputs together count. Use --http-max-input-size to increase the limit.");
}

// Numbers are weighed before there is memory for them, strings when it is known how long they are.
static error *read_tensor(input_context *in, json_cursor *c, const json_path *path)
{
  infer_json_input *input = in->input;
  size_t size;
  if (input->element_count == 0) // then the elements mean nothing
    return json_peek(c) == '[' ? json_skip(c, path)
                               : json_fail_kind(c, path, "non-array as array", "an array");
  if (!checked_multiply_size(protocol_datatype_size(input->datatype), input->element_count, &size))
    size = SIZE_MAX;
  RETURN_IF_ERROR(check_data_size(in, path, size));
  RETURN_IF_ERROR(json_tensor_read(c, path, input->datatype, input->element_count, &input->data,
                                   &input->data_size));
  RETURN_IF_ERROR(check_data_size(in, path, input->data_size));
  in->request->json_data_size += input->data_size;
  return NULL;
}

static error *read_data(input_context *in, json_cursor *c, const json_path *path)
{
  const unsigned needed = SEEN_DATATYPE | SEEN_SHAPE;
  if ((in->seen & needed) == needed && in->invalid_datatype.data == NULL)
    return read_tensor(in, c, path);
  in->late_data = *c;
  return json_skip(c, path);
}

static error *visit_input_member(void *context, json_cursor *c, const json_path *path, slice key)
{
  input_context *in = context;
  if (slice_equal_text(key, "name"))
    return note(&in->seen, SEEN_NAME) ? read_name(c, path, &in->input->name) : twice(path);
  if (slice_equal_text(key, "datatype"))
    return note(&in->seen, SEEN_DATATYPE) ? read_datatype(in, c, path) : twice(path);
  if (slice_equal_text(key, "shape"))
    return note(&in->seen, SEEN_SHAPE) ? read_shape(in, c, path) : twice(path);
  if (slice_equal_text(key, "parameters"))
    return note(&in->seen, SEEN_PARAMETERS)
               ? read_tensor_parameters(c, path, known_input_parameter, in->input)
               : twice(path);
  if (slice_equal_text(key, "data"))
    return note(&in->seen, SEEN_DATA) ? read_data(in, c, path) : twice(path);
  return json_skip(c, path);
}

static error *missing(const json_path *outer, const char *key)
{
  const json_path path = {.outer = outer, .key = key, .key_size = strlen(key)};
  char words[96];
  snprintf(words, sizeof(words),
           "Unable to parse '%s': attempt to access non-existing object member '%s'", key, key);
  return json_fail_words(&path, words, "this member is missing");
}

static error *check_datatype(const input_context *in, const json_path *outer)
{
  const slice text = in->invalid_datatype;
  const json_path path = {.outer = outer, .key = "datatype", .key_size = 8};
  char words[REQUEST_NAME_MAX_BYTES + 64];
  if (text.data == NULL)
    return NULL;
  snprintf(words, sizeof(words), "invalid datatype for input %s", in->input->name);
  return json_fail_words(&path, words,
                         "expected BOOL, UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, "
                         "FP16, FP32, FP64, BF16 or BYTES, got '%.*s'",
                         (int)(text.size < 64 ? text.size : 64), text.data);
}

#define ONE_FIELD                                                                                  \
  "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', "  \
  "'shared_memory_region' in 'parameters'."

// Exactly one of JSON data, binary data and shared memory; a tensor without elements needs none.
static error *check_data(const input_context *in, const json_path *path)
{
  const infer_json_input *input = in->input;
  bool json = (in->seen & SEEN_DATA) != 0;
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
  if ((in->seen & SEEN_NAME) == 0)
    return missing(path, "name");
  if ((in->seen & SEEN_DATATYPE) == 0)
    return missing(path, "datatype");
  if ((in->seen & SEEN_SHAPE) == 0)
    return missing(path, "shape");
  RETURN_IF_ERROR(check_datatype(in, path));
  RETURN_IF_ERROR(check_data(in, path));
  if (in->late_data.at == NULL)
    return NULL;
  const json_path data = {.outer = path, .key = "data", .key_size = 4};
  return read_tensor(in, &in->late_data, &data);
}

typedef struct inputs_context {
  infer_request_json *request;
  size_t max_data_size;
} inputs_context;

static error *visit_input(void *context, json_cursor *c, const json_path *path)
{
  inputs_context *list = context;
  infer_request_json *r = list->request;
  if (r->input_count == REQUEST_TENSORS_MAX)
    return json_fail_text(path, "expected at most %d inputs", REQUEST_TENSORS_MAX);
  r->inputs = arena_grow_array(c->arena, r->inputs, r->input_count, sizeof(infer_json_input));
  if (r->inputs == NULL)
    return error_no_memory();
  infer_json_input *input = &r->inputs[r->input_count++];
  *input = (infer_json_input){0};
  if (json_peek(c) != '{')
    return json_fail_kind_as(c, path, ONE_FIELD " But no field is set", "an object");
  input_context in = {.request = r, .input = input, .max_data_size = list->max_data_size};
  RETURN_IF_ERROR(json_members(c, path, visit_input_member, &in));
  return finish_input(&in, path);
}

// ---- outputs ----

typedef struct output_context {
  infer_json_output *output;
  unsigned seen;
  bool classified; // classification was given, whatever it is
} output_context;

static error *known_output_parameter(void *context, json_cursor *c, const json_path *path,
                                     slice key, bool *known)
{
  output_context *out = context;
  *known = true;
  if (slice_equal_text(key, "binary_data"))
    return json_bool(c, path, &out->output->binary);
  if (slice_equal_text(key, "classification")) {
    out->classified = true;
    return read_u64_as(c, path,
                       "Unable to set 'classification': attempt to access JSON "
                       "non-unsigned-integer as unsigned-integer",
                       "an integer in [0, 18446744073709551615]", &out->output->classification);
  }
  return read_shared_memory(&out->output->shared_memory, c, path, key, known);
}

static error *visit_output_member(void *context, json_cursor *c, const json_path *path, slice key)
{
  output_context *out = context;
  if (slice_equal_text(key, "name"))
    return note(&out->seen, SEEN_NAME) ? read_name(c, path, &out->output->name) : twice(path);
  if (slice_equal_text(key, "parameters"))
    return note(&out->seen, SEEN_PARAMETERS)
               ? read_tensor_parameters(c, path, known_output_parameter, out)
               : twice(path);
  return json_skip(c, path);
}

static error *check_output(const output_context *out, const json_path *path)
{
  const infer_json_output *o = out->output;
  if (o->name == NULL)
    return missing(path, "name");
  if (o->shared_memory.region != NULL && out->classified)
    return json_fail_words(path,
                           "Output can't set both 'shared_memory_region' and 'classification'",
                           "expected one of the two in its parameters");
  if (o->shared_memory.region != NULL && o->binary)
    return json_fail_words(path, "Output can't set both 'shared_memory_region' and 'binary_data'",
                           "expected one of the two in its parameters");
  return NULL;
}

static error *visit_output(void *context, json_cursor *c, const json_path *path)
{
  infer_request_json *r = context;
  if (r->output_count == REQUEST_TENSORS_MAX)
    return json_fail_text(path, "expected at most %d outputs", REQUEST_TENSORS_MAX);
  r->outputs = arena_grow_array(c->arena, r->outputs, r->output_count, sizeof(infer_json_output));
  if (r->outputs == NULL)
    return error_no_memory();
  infer_json_output *output = &r->outputs[r->output_count++];
  *output = (infer_json_output){0};
  if (json_peek(c) != '{')
    return json_fail_kind_as(
        c, path, "Unable to parse 'name': attempt to access non-existing object member 'name'",
        "an object");
  output_context out = {.output = output};
  RETURN_IF_ERROR(json_members(c, path, visit_output_member, &out));
  return check_output(&out, path);
}

// ---- the request ----

enum {
  SEEN_ID = 1,
  SEEN_INPUTS = 2,
  SEEN_OUTPUTS = 4,
  SEEN_REQUEST_PARAMETERS = 8,
};

typedef struct request_context {
  infer_request_json *request;
  unsigned seen;
  inputs_context inputs;
} request_context;

static error *known_request_parameter(void *context, json_cursor *c, const json_path *path,
                                      slice key, bool *known)
{
  infer_request_json *r = context;
  *known = true;
  if (slice_equal_text(key, "sequence_id"))
    return json_peek(c) == '"'
               ? json_text(c, path, &r->sequence_name)
               : read_u64_as(c, path,
                             "Unable to parse 'sequence_id': attempt to access JSON non-string as "
                             "string",
                             "a string or an integer in [0, 18446744073709551615]",
                             &r->sequence_id);
  if (slice_equal_text(key, "sequence_start"))
    return json_bool(c, path, &r->sequence_start);
  if (slice_equal_text(key, "sequence_end"))
    return json_bool(c, path, &r->sequence_end);
  if (slice_equal_text(key, "priority"))
    return json_u64(c, path, &r->priority);
  if (slice_equal_text(key, "timeout"))
    return json_u64(c, path, &r->timeout_us);
  if (slice_equal_text(key, "binary_data_output"))
    return json_bool(c, path, &r->binary_output);
  *known = false;
  if (key.size >= 7 && memcmp(key.data, "triton_", 7) == 0)
    return json_fail_words(path,
                           "parameter keys starting with 'triton_' are reserved for Triton usage "
                           "and should not be specified.",
                           "expected another name");
  return NULL;
}

static error *read_request_parameters(infer_request_json *r, json_cursor *c, const json_path *path)
{
  parameters_context p = {.parameters = &r->parameters,
                          .count = &r->parameter_count,
                          .known = known_request_parameter,
                          .context = r};
  if (json_peek(c) != '{')
    return json_fail_kind_as(c, path,
                             "failed to get request params.: attempt to get members for non-object",
                             "an object");
  return json_members(c, path, visit_parameter, &p);
}

static error *visit_request_member(void *context, json_cursor *c, const json_path *path, slice key)
{
  request_context *r = context;
  if (slice_equal_text(key, "id"))
    return note(&r->seen, SEEN_ID) ? json_id_read(c, path, &r->request->id) : twice(path);
  if (slice_equal_text(key, "inputs"))
    return note(&r->seen, SEEN_INPUTS) ? json_elements(c, path, visit_input, &r->inputs)
                                       : twice(path);
  if (slice_equal_text(key, "outputs"))
    return note(&r->seen, SEEN_OUTPUTS) ? json_elements(c, path, visit_output, r->request)
                                        : twice(path);
  if (slice_equal_text(key, "parameters"))
    return note(&r->seen, SEEN_REQUEST_PARAMETERS) ? read_request_parameters(r->request, c, path)
                                                   : twice(path);
  return json_skip(c, path);
}

error *infer_request_json_read(slice text, size_t max_data_size, const json_host *host, arena *a,
                               infer_request_json *out)
{
  *out = (infer_request_json){.id = ""};
  json_cursor c = {
      .begin = text.data, .at = text.data, .end = text.data + text.size, .arena = a, .host = host};
  request_context r = {.request = out, .inputs = {.request = out, .max_data_size = max_data_size}};
  json_begin(&c);
  if (json_peek(&c) != '{')
    return json_fail_kind_as(
        &c, NULL, "Unable to parse 'inputs': attempt to access non-existing object member 'inputs'",
        "an object");
  RETURN_IF_ERROR(json_members(&c, NULL, visit_request_member, &r));
  RETURN_IF_ERROR(json_finish(&c));
  return (r.seen & SEEN_INPUTS) == 0 ? missing(NULL, "inputs") : NULL;
}

error *binary_tensors_split(infer_request_json *request, const char *model, slice binary)
{
  for (size_t i = 0; i < request->input_count; i++) {
    infer_json_input *input = &request->inputs[i];
    if (!input->binary)
      continue;
    if (input->binary_size > binary.size)
      return error_new(ERROR_INVALID_ARG,
                       "unexpected size for input '%s', expecting %zu additional bytes for model "
                       "'%s': binary_data_size is %zu, %zu bytes are left",
                       input->name, input->binary_size - binary.size, model, input->binary_size,
                       binary.size);
    input->data = binary.data;
    input->data_size = input->binary_size;
    if (input->binary_size == 0) // then the binary part may be NULL
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

// SPDX-License-Identifier: Apache-2.0
// Passes over the message three times: counts fields, to allocate arrays of their final size; takes
// parameters, outputs and raw contents; takes inputs, which depend on the raw contents.
#include "frontend/grpc/codec/infer_request_proto.h"

#include "base/checked.h"
#include "base/string_map.h"
#include "base/text.h"
#include "frontend/common/json/json_tensor.h"
#include "frontend/common/net/request_limits.h"
#include "frontend/grpc/codec/infer_parameter_proto.h"
#include "frontend/grpc/codec/proto_wire.h"
#include "frontend/grpc/codec/typed_contents.h"

#include <string.h>

#define EMPTY_FINAL_RESPONSE "triton_enable_empty_final_response"

// Fields of ModelInferRequest.
typedef enum request_field {
  MODEL_NAME = 1,
  MODEL_VERSION = 2,
  ID = 3,
  PARAMETERS = 4,
  INPUTS = 5,
  OUTPUTS = 6,
  RAW_INPUT_CONTENTS = 7,
} request_field;

// Fields of InferInputTensor.
typedef enum input_field {
  INPUT_NAME = 1,
  INPUT_DATATYPE = 2,
  INPUT_SHAPE = 3,
  INPUT_PARAMETERS = 4,
  INPUT_CONTENTS = 5,
} input_field;

// Fields of InferRequestedOutputTensor.
typedef enum requested_output_field {
  OUTPUT_NAME = 1,
  OUTPUT_PARAMETERS = 2,
} requested_output_field;

typedef struct reading {
  infer_request_proto *request;
  arena *arena;
  slice message;
  slice texts[ID + 1]; // by field number; the last of each counts
  const typed_room *room;
  slice *raw;
  size_t raw_count;
  size_t raw_used;                       // used by earlier inputs
  size_t counts[RAW_INPUT_CONTENTS + 1]; // by field number; parameters include those of tensors
  string_map names;                      // of the request's parameters: name → index + 1
} reading;

typedef error *field_taker(reading *r, const proto_field *f);

// Calls `take` for each field of wire type BYTES, as all known fields are.
static error *walk(reading *r, field_taker *take)
{
  proto_reader reader = proto_reader_of(r->message);
  proto_field f;
  while (proto_next(&reader, &f))
    if (f.type == PROTO_BYTES)
      RETURN_IF_ERROR(take(r, &f));
  return reader.broken ? proto_broken() : NULL;
}

static const struct {
  size_t most;
  const char *name;
} limits[] = {
    [PARAMETERS] = {REQUEST_PARAMETERS_MAX, "parameters"},
    [INPUTS] = {REQUEST_TENSORS_MAX, "inputs"},
    [OUTPUTS] = {REQUEST_TENSORS_MAX, "outputs"},
    [RAW_INPUT_CONTENTS] = {REQUEST_TENSORS_MAX, "raw contents"},
};

static error *count(reading *r, uint32_t number)
{
  return r->counts[number]++ < limits[number].most
             ? NULL
             : error_new(ERROR_INVALID_ARG, "expected at most %zu %s in a request",
                         limits[number].most, limits[number].name);
}

// ---- counting ----

static error *count_field(reading *r, const proto_field *f)
{
  if (f->number > RAW_INPUT_CONTENTS)
    return NULL;
  if (f->number > ID)
    return count(r, f->number);
  r->texts[f->number] = f->bytes;
  return proto_check_text(f->bytes);
}

// Even for a message that cannot be read on, because the error reply names its request.
static error *copy_texts(reading *r)
{
  infer_request_proto *q = r->request;
  if (r->texts[ID].size > REQUEST_ID_MAX_BYTES)
    return error_new(ERROR_INVALID_ARG, "expected an id of at most %d bytes", REQUEST_ID_MAX_BYTES);
  RETURN_IF_ERROR(proto_text(r->texts[MODEL_NAME], r->arena, &q->model_name));
  RETURN_IF_ERROR(proto_text(r->texts[MODEL_VERSION], r->arena, &q->model_version));
  return proto_text(r->texts[ID], r->arena, &q->id);
}

static error *count_all(reading *r)
{
  error *e = walk(r, count_field);
  error *of_texts = copy_texts(r);
  if (e == NULL)
    return of_texts;
  error_free(of_texts);
  return e;
}

// Allocates arrays for what was counted.
static error *allocate(reading *r)
{
  infer_request_proto *q = r->request;
  q->parameters = arena_allocate_array(r->arena, r->counts[PARAMETERS], sizeof(*q->parameters));
  q->inputs = arena_allocate_array(r->arena, r->counts[INPUTS], sizeof(*q->inputs));
  q->outputs = arena_allocate_array(r->arena, r->counts[OUTPUTS], sizeof(*q->outputs));
  r->raw = arena_allocate_array(r->arena, r->counts[RAW_INPUT_CONTENTS], sizeof(*r->raw));
  bool done = q->parameters != NULL && q->inputs != NULL && q->outputs != NULL && r->raw != NULL;
  return done ? NULL : error_no_memory();
}

// ---- parameters ----

// The last of several equal keys counts.
static error *add_parameter(reading *r, const request_parameter *p)
{
  infer_request_proto *q = r->request;
  const slice name = slice_of(p->name);
  uintptr_t place = (uintptr_t)string_map_get(&r->names, name);
  if (place == 0) {
    place = ++q->parameter_count;
    if (!string_map_put(&r->names, name, (void *)place))
      return error_no_memory();
  }
  q->parameters[place - 1] = *p;
  return NULL;
}

// The server reserves "triton_…"; a client may set only this one.
static error *take_reserved(reading *r, const request_parameter *p)
{
  if (strcmp(p->name, EMPTY_FINAL_RESPONSE) != 0)
    return error_new(
        ERROR_INVALID_ARG,
        "parameter keys starting with 'triton_' are reserved for Triton usage. Only "
        "the following keys starting with 'triton_' are allowed: " EMPTY_FINAL_RESPONSE);
  if (p->type != REQUEST_PARAMETER_BOOL)
    return error_new(ERROR_INVALID_ARG,
                     "invalid value type for '%s' parameter, expected bool_param.", p->name);
  r->request->empty_final_response = p->value.boolean;
  return NULL;
}

static error *take_parameter(reading *r, slice entry)
{
  request_parameter p;
  RETURN_IF_ERROR(infer_parameter_proto_read(entry, r->arena, &p));
  return text_starts_with(p.name, "triton_") ? take_reserved(r, &p) : add_parameter(r, &p);
}

static error *take_tensor_parameter(reading *r, slice entry, tensor_parameters *parameters)
{
  request_parameter p;
  RETURN_IF_ERROR(count(r, PARAMETERS));
  RETURN_IF_ERROR(infer_parameter_proto_read(entry, r->arena, &p));
  tensor_parameters_record(parameters, &p);
  return NULL;
}

static error *take_name(reading *r, slice bytes, const char **name)
{
  if (bytes.size > REQUEST_NAME_MAX_BYTES)
    return error_new(ERROR_INVALID_ARG, "expected a tensor's name of at most %d bytes",
                     REQUEST_NAME_MAX_BYTES);
  return proto_text(bytes, r->arena, name);
}

static error *record_name(slice bytes, slice *name)
{
  *name = bytes;
  return proto_check_text(bytes);
}

// ---- outputs ----

static error *take_output(reading *r, slice message)
{
  infer_json_output *output = &r->request->outputs[r->request->output_count++];
  tensor_parameters parameters = {0};
  slice name = {0};
  proto_reader reader = proto_reader_of(message);
  proto_field f;
  *output = (infer_json_output){.name = "", .binary = true};
  while (proto_next(&reader, &f)) {
    if (f.type != PROTO_BYTES)
      continue;
    if (f.number == OUTPUT_NAME)
      RETURN_IF_ERROR(record_name(f.bytes, &name));
    else if (f.number == OUTPUT_PARAMETERS)
      RETURN_IF_ERROR(take_tensor_parameter(r, f.bytes, &parameters));
  }
  if (reader.broken)
    return proto_broken();
  RETURN_IF_ERROR(take_name(r, name, &output->name));
  RETURN_IF_ERROR(
      tensor_parameters_shared_memory(&parameters, output->name, &output->shared_memory));
  RETURN_IF_ERROR(tensor_parameters_classification(&parameters, &output->classification));
  if (output->shared_memory.region != NULL && output->classification > 0)
    return error_new(ERROR_INVALID_ARG,
                     "output can't set both 'shared_memory_region' and 'classification'");
  return NULL;
}

static error *take_but_inputs(reading *r, const proto_field *f)
{
  switch (f->number) {
  case PARAMETERS:
    return take_parameter(r, f->bytes);
  case OUTPUTS:
    return take_output(r, f->bytes);
  case RAW_INPUT_CONTENTS:
    r->raw[r->raw_count++] = f->bytes;
    return NULL;
  default:
    return NULL;
  }
}

// ---- inputs ----

// An input's fields, before they are used.
typedef struct input_parts {
  slice message;
  slice name;
  size_t shape_count;
  tensor_parameters parameters;
  bool has_contents;
  typed_contents contents;
} input_parts;

static size_t count_dimensions(const proto_field *f)
{
  return f->type == PROTO_BYTES ? proto_count_varints(f->bytes) : 1;
}

static error *count_input_field(reading *r, const proto_field *f, infer_json_input *input,
                                input_parts *parts)
{
  if (f->number == INPUT_SHAPE && (f->type == PROTO_VARINT || f->type == PROTO_BYTES)) {
    parts->shape_count += count_dimensions(f);
    return NULL;
  }
  if (f->type != PROTO_BYTES)
    return NULL;
  switch (f->number) {
  case INPUT_NAME:
    return record_name(f->bytes, &parts->name);
  case INPUT_DATATYPE:
    RETURN_IF_ERROR(proto_check_text(f->bytes));
    input->datatype = datatype_named(f->bytes);
    return NULL;
  case INPUT_PARAMETERS:
    return take_tensor_parameter(r, f->bytes, &parts->parameters);
  case INPUT_CONTENTS:
    parts->has_contents = true;
    return typed_contents_count(f->bytes, &parts->contents);
  default:
    return NULL;
  }
}

static error *read_dimensions(slice packed, int64_t **next)
{
  proto_reader reader = proto_reader_of(packed);
  uint64_t dimension;
  while (reader.at < reader.end) {
    if (!proto_next_varint(&reader, &dimension))
      return proto_broken();
    *(*next)++ = (int64_t)dimension;
  }
  return NULL;
}

static error *take_shape(reading *r, const input_parts *parts, infer_json_input *input)
{
  if (parts->shape_count > REQUEST_DIMENSIONS_MAX)
    return error_new(ERROR_INVALID_ARG, "input '%s': expected at most %d dimensions", input->name,
                     REQUEST_DIMENSIONS_MAX);
  int64_t *shape = arena_allocate_array(r->arena, parts->shape_count, sizeof(*shape));
  if (shape == NULL)
    return error_no_memory();
  input->shape = shape;
  input->shape_count = parts->shape_count;
  proto_reader reader = proto_reader_of(parts->message);
  proto_field f;
  while (proto_next(&reader, &f)) {
    if (f.number != INPUT_SHAPE)
      continue;
    if (f.type == PROTO_VARINT)
      *shape++ = (int64_t)f.value;
    else if (f.type == PROTO_BYTES)
      RETURN_IF_ERROR(read_dimensions(f.bytes, &shape));
  }
  return NULL;
}

// Allocates aligned memory for a tensor that cannot stay in the message.
static error *allocate_typed(reading *r, const infer_json_input *input, size_t size, char **memory)
{
  infer_request_proto *q = r->request;
  if (size > r->room->most - q->typed_size)
    return error_new(
        ERROR_INVALID_ARG,
        "input '%s': typed contents of %zu bytes exceed the %zu bytes that a request's "
        "typed contents may have together",
        input->name, size, r->room->most);
  if (r->room->take != NULL)
    RETURN_IF_ERROR(r->room->take(r->room->context, q->typed_size + size));
  *memory = arena_allocate_tensor(r->arena, size);
  if (*memory == NULL)
    return error_no_memory();
  q->typed_size += size;
  return NULL;
}

static error *write_typed(const input_parts *parts, TRITONSERVER_DataType datatype, uint32_t field,
                          char *to)
{
  proto_reader reader = proto_reader_of(parts->message);
  proto_field f;
  while (proto_next(&reader, &f))
    if (f.number == INPUT_CONTENTS && f.type == PROTO_BYTES)
      RETURN_IF_ERROR(typed_contents_write(f.bytes, datatype, field, &to));
  return NULL;
}

static error *take_typed(reading *r, const input_parts *parts, infer_json_input *input)
{
  uint32_t field;
  const typed_contents *contents = &parts->contents;
  RETURN_IF_ERROR(
      typed_contents_field(contents, input->datatype, input->name, r->request->model_name, &field));
  if (field == 0)
    return NULL;
  slice in_place = typed_contents_in_place(contents, input->datatype, field);
  if (in_place.data != NULL) {
    input->data = in_place.data;
    input->data_size = in_place.size;
    return NULL;
  }
  char *memory;
  input->data_size = typed_contents_size(contents, input->datatype, field);
  RETURN_IF_ERROR(allocate_typed(r, input, input->data_size, &memory));
  input->data = memory;
  return write_typed(parts, input->datatype, field, memory);
}

// Takes the data from exactly one of shared memory, typed contents and raw contents.
static error *take_data(reading *r, const input_parts *parts, infer_json_input *input)
{
  const char *model = r->request->model_name;
  if (input->shared_memory.region != NULL)
    return !parts->has_contents
               ? NULL
               : error_new(ERROR_INVALID_ARG,
                           "unexpected 'content' provided when using shared memory for input "
                           "tensor '%s' for model '%s'",
                           input->name, model);
  if (parts->has_contents && r->raw_count > 0)
    return error_new(ERROR_INVALID_ARG,
                     "contents field must not be specified when using raw_input_contents for '%s' "
                     "for model '%s'",
                     input->name, model);
  if (parts->has_contents)
    return take_typed(r, parts, input);
  if (r->raw_used == r->raw_count)
    return error_new(ERROR_INVALID_ARG,
                     "unable to find data for input tensor '%s' for model '%s' in request.",
                     input->name, model);
  input->binary = true;
  input->data = r->raw[r->raw_used].data;
  input->data_size = input->binary_size = r->raw[r->raw_used].size;
  r->raw_used++;
  return NULL;
}

static error *take_input(reading *r, const proto_field *field)
{
  if (field->number != INPUTS)
    return NULL;
  infer_json_input *input = &r->request->inputs[r->request->input_count++];
  input_parts parts = {.message = field->bytes};
  proto_reader reader = proto_reader_of(field->bytes);
  proto_field f;
  *input = (infer_json_input){.name = ""};
  while (proto_next(&reader, &f))
    RETURN_IF_ERROR(count_input_field(r, &f, input, &parts));
  if (reader.broken)
    return proto_broken();
  RETURN_IF_ERROR(take_name(r, parts.name, &input->name));
  RETURN_IF_ERROR(take_shape(r, &parts, input));
  RETURN_IF_ERROR(
      tensor_parameters_shared_memory(&parts.parameters, input->name, &input->shared_memory));
  return take_data(r, &parts, input);
}

// ---- the request ----

static error *read_request(reading *r)
{
  RETURN_IF_ERROR(count_all(r));
  RETURN_IF_ERROR(allocate(r));
  RETURN_IF_ERROR(walk(r, take_but_inputs));
  return walk(r, take_input);
}

#define FIELD_LEAST_BYTES 2

bool infer_request_proto_is_long(slice message, size_t most)
{
  proto_reader reader = proto_reader_of(message);
  proto_field f;
  size_t size = 0;
  while (size <= most) {
    // The tag's low bits are the wire type. A group has no length, so it may be long.
    if (reader.at < reader.end && (*reader.at & 7) == PROTO_GROUP)
      return true;
    if (!proto_next(&reader, &f))
      return false;
    size += FIELD_LEAST_BYTES;
    if (f.type == PROTO_BYTES && f.number != RAW_INPUT_CONTENTS)
      size += f.bytes.size;
  }
  return true;
}

void infer_request_proto_peek(slice begin, slice *model_name, slice *model_version)
{
  proto_reader reader = proto_reader_of(begin);
  proto_field f;
  *model_name = *model_version = (slice){NULL, 0};
  while (proto_next(&reader, &f) && f.type == PROTO_BYTES && f.number <= MODEL_VERSION)
    *(f.number == MODEL_NAME ? model_name : model_version) = f.bytes;
}

error *infer_request_proto_read(slice message, const typed_room *room, arena *a,
                                infer_request_proto *out)
{
  *out = (infer_request_proto){.model_name = "", .model_version = "", .id = ""};
  reading r = {.request = out, .arena = a, .message = message, .room = room};
  error *e = read_request(&r);
  string_map_fini(&r.names);
  return e;
}

// SPDX-License-Identifier: Apache-2.0
// Writes fields in the order of their numbers, as protobuf's own writers do; the numbers are those
// of proto/grpc_service.proto.
#include "frontend/grpc/codec/infer_response_proto.h"

#include "base/number.h"
#include "frontend/grpc/codec/infer_parameter_proto.h"
#include "frontend/grpc/codec/proto_wire.h"

// Fields of ModelInferResponse.
typedef enum response_field {
  MODEL_NAME = 1,
  MODEL_VERSION = 2,
  ID = 3,
  PARAMETERS = 4,
  OUTPUTS = 5,
  RAW_OUTPUT_CONTENTS = 6,
} response_field;

// Fields of InferOutputTensor.
typedef enum output_field {
  OUTPUT_NAME = 1,
  OUTPUT_DATATYPE = 2,
  OUTPUT_SHAPE = 3,
} output_field;

// Fields of ModelStreamInferResponse.
typedef enum stream_response_field {
  ERROR_MESSAGE = 1,
  INFER_RESPONSE = 2,
} stream_response_field;

static void append_value(buffer *out, const request_parameter *p)
{
  switch (p->type) { // a oneof's member is written even if it is zero
  case REQUEST_PARAMETER_BOOL:
    proto_append_integer(out, BOOL_PARAM, p->value.boolean);
    return;
  case REQUEST_PARAMETER_INT64:
    proto_append_integer(out, INT64_PARAM, (uint64_t)p->value.integer);
    return;
  case REQUEST_PARAMETER_DOUBLE:
    proto_append_double(out, DOUBLE_PARAM, p->value.real);
    return;
  default:
    proto_append_bytes(out, STRING_PARAM, slice_of(p->value.string));
  }
}

static void append_parameter(buffer *out, const request_parameter *p)
{
  size_t entry = proto_begin(out, PARAMETERS);
  proto_append_text(out, ENTRY_KEY, p->name);
  size_t value = proto_begin(out, ENTRY_VALUE);
  append_value(out, p);
  proto_end(out, value);
  proto_end(out, entry);
}

static void append_parameters(buffer *out, const infer_response_json *r, final_response final)
{
  for (size_t i = 0; i < r->parameter_count; i++)
    append_parameter(out, &r->parameters[i]);
  const request_parameter said = {.name = "triton_final_response",
                                  .type = REQUEST_PARAMETER_BOOL,
                                  .value.boolean = final == FINAL_RESPONSE_TRUE};
  if (final != FINAL_RESPONSE_UNSAID)
    append_parameter(out, &said);
}

static void append_output(buffer *out, const response_output_json *o)
{
  size_t output = proto_begin(out, OUTPUTS);
  proto_append_text(out, OUTPUT_NAME, o->name);
  proto_append_text(out, OUTPUT_DATATYPE, TRITONSERVER_DataTypeString(o->datatype));
  if (o->shape_count > 0) {
    size_t shape = proto_begin(out, OUTPUT_SHAPE);
    for (size_t i = 0; i < o->shape_count; i++)
      proto_append_varint(out, (uint64_t)o->shape[i]);
    proto_end(out, shape);
  }
  proto_end(out, output);
}

static void append_contents(message_parts *out, const response_output_json *o)
{
  slice data = {o->data, o->form == RESPONSE_DATA_SHARED_MEMORY ? 0 : o->data_size};
  proto_append_tag(&out->text, RAW_OUTPUT_CONTENTS, PROTO_BYTES);
  proto_append_varint(&out->text, data.size);
  message_parts_append(out, data);
}

// An error's reply has no version if the client named none.
static void append_version(buffer *out, int64_t version)
{
  char number[NUMBER_TEXT_BYTES];
  if (version >= 0)
    proto_append_bytes(out, MODEL_VERSION, (slice){number, number_print_i64(number, version)});
}

void infer_response_proto_write(const infer_response_json *r, final_response final,
                                message_parts *out)
{
  buffer *text = &out->text;
  proto_append_text(text, MODEL_NAME, r->model_name);
  append_version(text, r->model_version);
  if (r->id != NULL)
    proto_append_text(text, ID, r->id);
  append_parameters(text, r, final);
  for (size_t i = 0; i < r->output_count; i++)
    append_output(text, &r->outputs[i]);
  for (size_t i = 0; i < r->output_count; i++)
    append_contents(out, &r->outputs[i]);
}

void infer_stream_response_proto_write(const infer_response_json *response, final_response final,
                                       const char *error_message, message_parts *out)
{
  AUTO_BUFFER buffer head = BUFFER_EMPTY;
  infer_response_proto_write(response, final, out);
  proto_append_text(&head, ERROR_MESSAGE, error_message);
  proto_append_tag(&head, INFER_RESPONSE, PROTO_BYTES);
  proto_append_varint(&head, message_parts_size(out));
  message_parts_prepend(out, buffer_view(&head));
  out->failed = out->failed || head.failed;
}

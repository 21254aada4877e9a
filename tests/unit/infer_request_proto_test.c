// Inference requests in protobuf's wire format: what protobuf-c packs must read back the same, and
// what it cannot pack (pieces, unknown fields, broken messages) is written by hand.
#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "frontend/grpc/infer_request_proto.h"
#include "frontend/grpc/model_version.h"
#include "frontend/grpc/proto/grpc_service.pb-c.h"
#include "frontend/grpc/proto_wire.h"
#include "frontend/protocol/request_limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef Inference__ModelInferRequest request_message;
typedef Inference__ModelInferRequest__InferInputTensor input_message;
typedef Inference__ModelInferRequest__InferRequestedOutputTensor output_message;
typedef Inference__InferTensorContents contents_message;

#define COUNT(array)  (sizeof(array) / sizeof((array)[0]))
#define TEXT(literal) ((char *)"" literal) // protobuf-c's fields are not const
#define MAX_TYPED     4096

// One message and what is read from it; the message is copied to memory of exactly its size.
typedef struct fixture {
  arena a;
  char *message;
  size_t size;
  infer_request_proto request;
} fixture;

static int set_up(void **state)
{
  fixture *f = calloc(1, sizeof(*f));
  arena_init(&f->a, NULL, 0);
  *state = f;
  return 0;
}

static int tear_down(void **state)
{
  fixture *f = *state;
  arena_fini(&f->a);
  free(f->message);
  free(f);
  return 0;
}

static error *read_bytes(fixture *f, const void *data, size_t size)
{
  free(f->message);
  f->message = malloc(size > 0 ? size : 1);
  f->size = size;
  if (size > 0)
    memcpy(f->message, data, size);
  return infer_request_proto_read((slice){f->message, size}, MAX_TYPED, &f->a, &f->request);
}

static error *read_buffer(fixture *f, const buffer *b)
{
  return read_bytes(f, b->data, b->size);
}

static error *read_message(fixture *f, const request_message *m)
{
  size_t size = inference__model_infer_request__get_packed_size(m);
  uint8_t *packed = malloc(size + 1);
  inference__model_infer_request__pack(m, packed);
  error *e = read_bytes(f, packed, size);
  free(packed);
  return e;
}

static void assert_ok(error *e)
{
  if (e != NULL)
    fail_msg("refused: %s", error_message(e));
}

static void assert_refused(error *e, const char *text)
{
  assert_non_null(e);
  assert_int_equal(error_get_code(e), ERROR_INVALID_ARG);
  assert_string_equal(error_message(e), text);
  error_free(e);
}

#define BROKEN "Unable to parse request: it is not a message in protobuf's wire format"

// ---- the request ----

static void reads_names_id_and_parameters(void **state)
{
  fixture *f = *state;
  request_message m = INFERENCE__MODEL_INFER_REQUEST__INIT;
  m.model_name = TEXT("resnet");
  m.model_version = TEXT("3");
  m.id = TEXT("j\xc3\xbcrgen");
  Inference__InferParameter values[5];
  Inference__ModelInferRequest__ParametersEntry entries[5], *list[5];
  static const char *const keys[] = {"flag", "big", "text", "real", "priority"};
  for (size_t i = 0; i < COUNT(list); i++) {
    inference__infer_parameter__init(&values[i]);
    inference__model_infer_request__parameters_entry__init(&entries[i]);
    entries[i].key = (char *)keys[i];
    entries[i].value = &values[i];
    list[i] = &entries[i];
    values[i].parameter_choice_case = (Inference__InferParameter__ParameterChoiceCase)(i + 1);
  }
  values[0].bool_param = 1;
  values[1].int64_param = INT64_MIN;
  values[2].string_param = TEXT("");
  values[3].double_param = -0.5;
  values[4].uint64_param = UINT64_MAX;
  m.parameters = list;
  m.n_parameters = COUNT(list);
  assert_ok(read_message(f, &m));
  const infer_request_proto *r = &f->request;
  assert_string_equal(r->model_name, "resnet");
  assert_string_equal(r->model_version, "3");
  assert_string_equal(r->id, "j\xc3\xbcrgen");
  assert_int_equal(r->parameter_count, 5);
  for (size_t i = 0; i < COUNT(list); i++)
    assert_string_equal(r->parameters[i].name, keys[i]);
  assert_int_equal(r->parameters[0].type, REQUEST_PARAMETER_BOOL);
  assert_true(r->parameters[0].value.boolean);
  assert_int_equal(r->parameters[1].type, REQUEST_PARAMETER_INT64);
  assert_int_equal(r->parameters[1].value.integer, INT64_MIN);
  assert_int_equal(r->parameters[2].type, REQUEST_PARAMETER_STRING);
  assert_string_equal(r->parameters[2].value.string, "");
  assert_int_equal(r->parameters[3].type, REQUEST_PARAMETER_DOUBLE);
  assert_true(r->parameters[3].value.real == -0.5);
  assert_int_equal(r->parameters[4].type, REQUEST_PARAMETER_UINT64);
  assert_true(r->parameters[4].value.number == UINT64_MAX);
}

static void append_parameter(buffer *b, uint32_t number, const char *key, uint32_t choice,
                             uint64_t value)
{
  size_t entry = proto_begin(b, number);
  proto_append_text(b, 1, key);
  size_t choice_begin = proto_begin(b, 2);
  proto_append_integer(b, choice, value);
  proto_end(b, choice_begin);
  proto_end(b, entry);
}

static void a_key_that_comes_again_replaces_the_first_value(void **state)
{
  AUTO_BUFFER buffer b = BUFFER_EMPTY;
  append_parameter(&b, 4, "a", 2, 1);
  append_parameter(&b, 4, "b", 2, 2);
  append_parameter(&b, 4, "a", 1, 1);
  fixture *f = *state;
  assert_ok(read_buffer(f, &b));
  assert_int_equal(f->request.parameter_count, 2);
  assert_string_equal(f->request.parameters[0].name, "a");
  assert_int_equal(f->request.parameters[0].type, REQUEST_PARAMETER_BOOL);
  assert_string_equal(f->request.parameters[1].name, "b");
}

static void the_last_of_a_scalar_and_of_a_oneof_counts(void **state)
{
  AUTO_BUFFER buffer b = BUFFER_EMPTY;
  proto_append_text(&b, 1, "first");
  proto_append_text(&b, 1, "second");
  size_t entry = proto_begin(&b, 4);
  proto_append_text(&b, 1, "p");
  for (uint32_t choice = 2; choice >= 1; choice--) { // two pieces of the value: they are one
    size_t value = proto_begin(&b, 2);
    proto_append_integer(&b, choice, 1);
    proto_end(&b, value);
  }
  proto_end(&b, entry);
  fixture *f = *state;
  assert_ok(read_buffer(f, &b));
  assert_string_equal(f->request.model_name, "second");
  assert_int_equal(f->request.parameters[0].type, REQUEST_PARAMETER_BOOL);
}

static void the_empty_final_response_is_an_option_and_no_parameter(void **state)
{
  AUTO_BUFFER buffer b = BUFFER_EMPTY;
  append_parameter(&b, 4, "triton_enable_empty_final_response", 1, 1);
  fixture *f = *state;
  assert_ok(read_buffer(f, &b));
  assert_true(f->request.empty_final_response);
  assert_int_equal(f->request.parameter_count, 0);
  b.size = 0;
  append_parameter(&b, 4, "triton_enable_empty_final_response", 2, 1);
  assert_refused(read_buffer(f, &b), "invalid value type for 'triton_enable_empty_final_response' "
                                     "parameter, expected bool_param.");
}

static void an_empty_message_is_an_empty_request(void **state)
{
  fixture *f = *state;
  assert_ok(read_bytes(f, NULL, 0));
  assert_string_equal(f->request.model_name, "");
  assert_int_equal(f->request.input_count + f->request.output_count, 0);
}

// ---- inputs ----

static input_message input_of(const char *name, const char *datatype)
{
  input_message input = INFERENCE__MODEL_INFER_REQUEST__INFER_INPUT_TENSOR__INIT;
  input.name = (char *)name;
  input.datatype = (char *)datatype;
  return input;
}

// Reads a request of model "m" with one input.
static error *read_input(fixture *f, input_message *input)
{
  request_message m = INFERENCE__MODEL_INFER_REQUEST__INIT;
  input_message *inputs[] = {input};
  m.model_name = TEXT("m");
  m.inputs = inputs;
  m.n_inputs = 1;
  return read_message(f, &m);
}

static error *read_contents(fixture *f, const char *datatype, contents_message *contents)
{
  input_message input = input_of("in", datatype);
  input.contents = contents;
  return read_input(f, &input);
}

static void assert_data(const fixture *f, const void *bytes, size_t size)
{
  assert_int_equal(f->request.input_count, 1);
  const infer_json_input *input = &f->request.inputs[0];
  assert_int_equal(input->data_size, size);
  assert_memory_equal(input->data, bytes, size);
}

static bool is_view(const fixture *f, const void *data)
{
  return (const char *)data >= f->message && (const char *)data < f->message + f->size;
}

static void raw_contents_are_views_of_the_message_in_the_order_of_inputs(void **state)
{
  fixture *f = *state;
  input_message one = input_of("one", "INT8"), two = input_of("two", "UINT8");
  input_message *inputs[] = {&one, &two};
  ProtobufCBinaryData raw[] = {{3, (uint8_t *)"abc"}, {0, NULL}, {1, (uint8_t *)"x"}};
  int64_t shape[] = {1, 3, -1, INT64_MAX};
  one.shape = shape;
  one.n_shape = COUNT(shape);
  request_message m = INFERENCE__MODEL_INFER_REQUEST__INIT;
  m.inputs = inputs;
  m.n_inputs = 2;
  m.raw_input_contents = raw;
  m.n_raw_input_contents = 3; // one too many is not looked at
  assert_ok(read_message(f, &m));
  const infer_json_input *got = f->request.inputs;
  assert_int_equal(f->request.input_count, 2);
  assert_string_equal(got[0].name, "one");
  assert_int_equal(got[0].datatype, TRITONSERVER_TYPE_INT8);
  assert_int_equal(got[0].shape_count, 4);
  assert_memory_equal(got[0].shape, shape, sizeof(shape));
  assert_int_equal(got[0].data_size, 3);
  assert_true(is_view(f, got[0].data));
  assert_memory_equal(got[0].data, "abc", 3);
  assert_string_equal(got[1].name, "two");
  assert_int_equal(got[1].shape_count, 0);
  assert_int_equal(got[1].data_size, 0);
}

static void an_input_without_data_is_refused(void **state)
{
  input_message input = input_of("in", "INT8");
  assert_refused(read_input(*state, &input),
                 "unable to find data for input tensor 'in' for model 'm' in request.");
}

static void typed_contents_become_bytes_of_the_datatype(void **state)
{
  fixture *f = *state;
  contents_message c = INFERENCE__INFER_TENSOR_CONTENTS__INIT;
  protobuf_c_boolean flags[] = {1, 0, 1};
  c.bool_contents = flags;
  c.n_bool_contents = 3;
  assert_ok(read_contents(f, "BOOL", &c));
  assert_data(f, "\1\0\1", 3);

  contents_message i = INFERENCE__INFER_TENSOR_CONTENTS__INIT;
  int32_t integers[] = {-1, 127, 300, INT32_MIN};
  i.int_contents = integers;
  i.n_int_contents = 4;
  assert_ok(read_contents(f, "INT32", &i));
  assert_data(f, integers, sizeof(integers));
  assert_ok(read_contents(f, "INT16", &i));
  assert_data(f, (int16_t[]){-1, 127, 300, 0}, 8); // as Triton: the lower bytes
  assert_ok(read_contents(f, "INT8", &i));
  assert_data(f, (int8_t[]){-1, 127, 44, 0}, 4);

  contents_message u = INFERENCE__INFER_TENSOR_CONTENTS__INIT;
  uint32_t naturals[] = {0, 255, UINT32_MAX};
  u.uint_contents = naturals;
  u.n_uint_contents = 3;
  assert_ok(read_contents(f, "UINT32", &u));
  assert_data(f, naturals, sizeof(naturals));
  assert_ok(read_contents(f, "UINT16", &u));
  assert_data(f, (uint16_t[]){0, 255, UINT16_MAX}, 6);
  assert_ok(read_contents(f, "UINT8", &u));
  assert_data(f, (uint8_t[]){0, 255, 255}, 3);

  contents_message l = INFERENCE__INFER_TENSOR_CONTENTS__INIT;
  int64_t longs[] = {INT64_MIN, -1, 0, INT64_MAX};
  l.int64_contents = longs;
  l.n_int64_contents = 4;
  assert_ok(read_contents(f, "INT64", &l));
  assert_data(f, longs, sizeof(longs));

  contents_message w = INFERENCE__INFER_TENSOR_CONTENTS__INIT;
  uint64_t words[] = {0, 1, UINT64_MAX};
  w.uint64_contents = words;
  w.n_uint64_contents = 3;
  assert_ok(read_contents(f, "UINT64", &w));
  assert_data(f, words, sizeof(words));
}

static void floats_and_bytes_become_bytes_of_the_datatype(void **state)
{
  fixture *f = *state;
  contents_message s = INFERENCE__INFER_TENSOR_CONTENTS__INIT;
  float floats[] = {0.0f, -1.5f, 3e38f};
  s.fp32_contents = floats;
  s.n_fp32_contents = 3;
  assert_ok(read_contents(f, "FP32", &s));
  assert_data(f, floats, sizeof(floats));

  contents_message d = INFERENCE__INFER_TENSOR_CONTENTS__INIT;
  double doubles[] = {-0.0, 1e300};
  d.fp64_contents = doubles;
  d.n_fp64_contents = 2;
  assert_ok(read_contents(f, "FP64", &d));
  assert_data(f, doubles, sizeof(doubles));

  contents_message b = INFERENCE__INFER_TENSOR_CONTENTS__INIT;
  ProtobufCBinaryData elements[] = {{2, (uint8_t *)"ab"}, {0, NULL}, {1, (uint8_t *)"\xff"}};
  b.bytes_contents = elements;
  b.n_bytes_contents = 3;
  assert_ok(read_contents(f, "BYTES", &b));
  assert_data(f, "\2\0\0\0ab\0\0\0\0\1\0\0\0\xff", 15);
}

static void floats_in_one_aligned_piece_are_not_copied(void **state)
{
  fixture *f = *state;
  contents_message s = INFERENCE__INFER_TENSOR_CONTENTS__INIT;
  float floats[] = {1, 2, 3, 4};
  s.fp32_contents = floats;
  s.n_fp32_contents = 4;
  unsigned views = 0;
  for (size_t pad = 1; pad <= 4; pad++) { // one name of four puts them on a round address
    input_message input = input_of(&"aaaa"[4 - pad], "FP32");
    input.contents = &s;
    assert_ok(read_input(f, &input));
    assert_data(f, floats, sizeof(floats));
    assert_int_equal((uintptr_t)f->request.inputs[0].data % sizeof(float), 0);
    assert_int_equal(f->request.typed_size, is_view(f, f->request.inputs[0].data) ? 0 : 16);
    views += is_view(f, f->request.inputs[0].data);
  }
  assert_int_equal(views, 1);
}

static void elements_may_come_in_pieces_packed_and_not(void **state)
{
  AUTO_BUFFER buffer b = BUFFER_EMPTY;
  size_t input = proto_begin(&b, 5);
  proto_append_text(&b, 1, "in");
  proto_append_text(&b, 2, "INT16");
  proto_append_integer(&b, 3, 1); // a dimension that is not packed
  proto_append_bytes(&b, 3, SLICE("\5\6"));
  size_t first = proto_begin(&b, 5);
  proto_append_integer(&b, 2, 7);
  proto_append_bytes(&b, 2, SLICE("\1\2"));
  proto_end(&b, first);
  size_t second = proto_begin(&b, 5); // contents twice are one
  proto_append_bytes(&b, 2, SLICE(""));
  proto_append_bytes(&b, 2, SLICE("\x80\1")); // 128
  proto_end(&b, second);
  proto_end(&b, input);
  fixture *f = *state;
  assert_ok(read_buffer(f, &b));
  assert_data(f, (int16_t[]){7, 1, 2, 128}, 8);
  assert_int_equal(f->request.inputs[0].shape_count, 3);
  assert_memory_equal(f->request.inputs[0].shape, ((int64_t[]){1, 5, 6}), 24);
}

static void contents_of_another_type_are_refused(void **state)
{
  fixture *f = *state;
  contents_message c = INFERENCE__INFER_TENSOR_CONTENTS__INIT;
  float floats[] = {1};
  c.fp32_contents = floats;
  c.n_fp32_contents = 1;
  assert_refused(read_contents(f, "INT32", &c),
                 "unexpected explicit tensor data for input tensor 'in' for model 'm' of type "
                 "'FP32', expected datatype 'INT32'");
  assert_refused(read_contents(f, "FP16", &c),
                 "unexpected explicit tensor data for input tensor 'in' for model 'm' of type "
                 "'FP32', expected datatype 'FP16'");
  int32_t integers[] = {1};
  c.int_contents = integers;
  c.n_int_contents = 1;
  assert_refused(read_contents(f, "INT8", &c),
                 "unexpected explicit tensor data for input tensor 'in' for model 'm', binary data "
                 "was already supplied.");
}

static void contents_and_raw_contents_together_are_refused(void **state)
{
  input_message input = input_of("in", "INT8");
  contents_message c = INFERENCE__INFER_TENSOR_CONTENTS__INIT;
  input_message *inputs[] = {&input};
  ProtobufCBinaryData raw = {0, NULL};
  input.contents = &c;
  request_message m = INFERENCE__MODEL_INFER_REQUEST__INIT;
  m.model_name = TEXT("m");
  m.inputs = inputs;
  m.n_inputs = 1;
  m.raw_input_contents = &raw;
  m.n_raw_input_contents = 1;
  assert_refused(
      read_message(*state, &m),
      "contents field must not be specified when using raw_input_contents for 'in' for model 'm'");
}

static void an_unknown_datatype_is_left_to_the_core(void **state)
{
  fixture *f = *state;
  contents_message c = INFERENCE__INFER_TENSOR_CONTENTS__INIT;
  assert_ok(read_contents(f, "FP8", &c));
  assert_int_equal(f->request.inputs[0].datatype, TRITONSERVER_TYPE_INVALID);
}

static void typed_contents_have_a_limit_together(void **state)
{
  fixture *f = *state;
  AUTO_BUFFER buffer b = BUFFER_EMPTY;
  for (int i = 0; i < 2; i++) {
    size_t input = proto_begin(&b, 5);
    proto_append_text(&b, 1, i == 0 ? "fits" : "over");
    proto_append_text(&b, 2, "UINT64");
    size_t contents = proto_begin(&b, 5);
    char ones[MAX_TYPED / 8];
    memset(ones, 1, sizeof(ones));
    proto_append_bytes(&b, 5, (slice){ones, i == 0 ? sizeof(ones) : 1});
    proto_end(&b, contents);
    proto_end(&b, input);
  }
  assert_refused(read_buffer(f, &b), "input 'over': typed contents of 8 bytes exceed the 4096 "
                                     "bytes that a request's typed contents may have together");
}

// ---- shared memory and classification ----

static void append_text_parameter(buffer *b, uint32_t number, const char *key, const char *value)
{
  size_t entry = proto_begin(b, number);
  proto_append_text(b, 1, key);
  size_t choice = proto_begin(b, 2);
  proto_append_bytes(b, 3, slice_of(value));
  proto_end(b, choice);
  proto_end(b, entry);
}

static void an_input_in_shared_memory_takes_no_raw_contents(void **state)
{
  fixture *f = *state;
  AUTO_BUFFER buffer b = BUFFER_EMPTY;
  size_t shared = proto_begin(&b, 5);
  proto_append_text(&b, 1, "shared");
  append_text_parameter(&b, 4, "shared_memory_region", "region");
  append_parameter(&b, 4, "shared_memory_offset", 2, 16);
  append_parameter(&b, 4, "shared_memory_byte_size", 2, 32);
  proto_end(&b, shared);
  size_t raw = proto_begin(&b, 5);
  proto_append_text(&b, 1, "raw");
  proto_end(&b, raw);
  proto_append_bytes(&b, 7, SLICE("data"));
  assert_ok(read_buffer(f, &b));
  const infer_json_input *got = f->request.inputs;
  assert_string_equal(got[0].shared_memory.region, "region");
  assert_int_equal(got[0].shared_memory.offset, 16);
  assert_int_equal(got[0].shared_memory.byte_size, 32);
  assert_null(got[0].data);
  assert_null(got[1].shared_memory.region);
  assert_int_equal(got[1].data_size, 4);
}

// A request of one output "o" with what `number` parameters say.
static error *read_output_with(fixture *f, void (*append)(buffer *b))
{
  AUTO_BUFFER buffer b = BUFFER_EMPTY;
  size_t output = proto_begin(&b, 6);
  proto_append_text(&b, 1, "o");
  append(&b);
  proto_end(&b, output);
  return read_buffer(f, &b);
}

static void append_class_3(buffer *b)
{
  append_parameter(b, 2, "classification", 2, 3);
}

static void append_class_bool(buffer *b)
{
  append_parameter(b, 2, "classification", 1, 1);
}

static void append_class_0(buffer *b)
{
  append_parameter(b, 2, "classification", 2, 0);
}

static void append_region(buffer *b)
{
  append_text_parameter(b, 2, "shared_memory_region", "r");
}

static void append_region_number(buffer *b)
{
  append_parameter(b, 2, "shared_memory_region", 2, 1);
}

static void append_offset(buffer *b)
{
  append_parameter(b, 2, "shared_memory_offset", 2, 1);
}

static void append_size(buffer *b)
{
  append_parameter(b, 2, "shared_memory_byte_size", 2, 1);
}

static void append_region_and_class(buffer *b)
{
  append_region(b);
  append_size(b);
  append_class_3(b);
}

static void append_region_and_negative_offset(buffer *b)
{
  append_region(b);
  append_size(b);
  append_parameter(b, 2, "shared_memory_offset", 2, (uint64_t)-1);
}

static void append_region_and_bool_size(buffer *b)
{
  append_region(b);
  append_parameter(b, 2, "shared_memory_byte_size", 1, 1);
}

static void outputs_have_a_classification(void **state)
{
  fixture *f = *state;
  assert_ok(read_output_with(f, append_class_3));
  assert_int_equal(f->request.output_count, 1);
  assert_string_equal(f->request.outputs[0].name, "o");
  assert_true(f->request.outputs[0].binary);
  assert_int_equal(f->request.outputs[0].classification, 3);
}

static void parameters_of_tensors_that_cannot_be_are_refused(void **state)
{
  static const struct {
    void (*append)(buffer *b);
    const char *text;
  } rows[] = {
      {append_class_bool,
       "invalid value type for 'classification' parameter, expected int64_param"},
      {append_class_0, "invalid value for 'classification' parameter, expected >= 0"},
      {append_region_number, "invalid value type for 'shared_memory_region' parameter for tensor "
                             "'o', expected string_param."},
      {append_offset, "'shared_memory_offset' can not be specified without 'shared_memory_region' "
                      "parameter for tensor 'o'"},
      {append_size, "'shared_memory_byte_size' can not be specified without "
                    "'shared_memory_region' parameter for tensor 'o'"},
      {append_region, "'shared_memory_byte_size' must be specified along with "
                      "'shared_memory_region' parameter for tensor 'o'"},
      {append_region_and_class,
       "output can't set both 'shared_memory_region' and 'classification'"},
      {append_region_and_negative_offset, "invalid value for 'shared_memory_offset' parameter for "
                                          "tensor 'o', expected value >= 0."},
      {append_region_and_bool_size, "invalid value type for 'shared_memory_byte_size' parameter "
                                    "for tensor 'o', expected int64_param."},
  };
  for (size_t i = 0; i < COUNT(rows); i++)
    assert_refused(read_output_with(*state, rows[i].append), rows[i].text);
}

// ---- what is no request ----

static void broken_messages_are_refused(void **state)
{
  static const slice rows[] = {
      SLICE("\x0a"),                                         // no size
      SLICE("\x0a\x02m"),                                    // cut off
      SLICE("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), // longer than can be
      SLICE("\x0a\x80"),                                     // half a varint
      SLICE("\x02\x00"),                                     // field number 0
      SLICE("\x0e"),                                         // wire type 6
      SLICE("\x0c"),                                         // the end of no group
      SLICE("\x0b\x14"),                                     // the end of another group
      SLICE("\x0b"),                                         // a group without end
      SLICE("\x09\x01"),                                     // half a fixed64
      SLICE("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), // a varint of eleven bytes
      SLICE("\xff\xff\xff\xff\x7f\x00"),                     // a tag above 32 bits
      SLICE("\x2a\x02\x0a\x05"),                             // within an input
      SLICE("\x2a\x03\x1a\x01\x80"),                         // within a packed shape
      SLICE("\x2a\x05\x2a\x03\x12\x01\x80"),                 // within packed contents
      SLICE("\x2a\x07\x2a\x05\x32\x03"
            "abc"),                      // half a float
      SLICE("\x32\x02\x12\x01"),         // within an output
      SLICE("\x22\x02\x12\x05"),         // within a parameter
      SLICE("\x22\x04\x12\x02\x1a\x05"), // within its value
  };
  for (size_t i = 0; i < COUNT(rows); i++)
    assert_refused(read_bytes(*state, rows[i].data, rows[i].size), BROKEN);
}

static void texts_that_are_not_utf8_are_refused(void **state)
{
  const char *not_utf8 = "Unable to parse request: a string is not UTF-8";
  assert_refused(read_bytes(*state, "\x0a\x01\xff", 3), not_utf8);
  assert_refused(read_bytes(*state, "\x2a\x03\x0a\x01\xc3", 5), not_utf8);
  assert_refused(read_bytes(*state, "\x22\x03\x0a\x01\xff", 5), not_utf8);
  assert_refused(read_bytes(*state, "\x22\x05\x12\x03\x1a\x01\xff", 7), not_utf8);
  assert_refused(read_bytes(*state, "\x0a\x02m\0", 4),
                 "Unable to parse request: a string has a NUL character");
}

static void unknown_fields_and_wire_types_are_skipped(void **state)
{
  AUTO_BUFFER buffer b = BUFFER_EMPTY;
  proto_append_integer(&b, 1, 5); // model_name as a number
  proto_append_double(&b, 99, 1);
  proto_append_bytes(&b, 1000, SLICE("\xff\xff"));
  for (int i = 0; i < PROTO_GROUP_DEPTH; i++)
    proto_append_tag(&b, 50, PROTO_GROUP);
  proto_append_integer(&b, 1, 1);
  for (int i = 0; i < PROTO_GROUP_DEPTH; i++)
    proto_append_tag(&b, 50, PROTO_GROUP_END);
  proto_append_text(&b, 1, "m");
  fixture *f = *state;
  assert_ok(read_buffer(f, &b));
  assert_string_equal(f->request.model_name, "m");
}

static void groups_that_nest_too_deep_are_refused(void **state)
{
  AUTO_BUFFER buffer b = BUFFER_EMPTY;
  for (int i = 0; i <= PROTO_GROUP_DEPTH; i++)
    proto_append_tag(&b, 50, PROTO_GROUP);
  for (int i = 0; i <= PROTO_GROUP_DEPTH; i++)
    proto_append_tag(&b, 50, PROTO_GROUP_END);
  assert_refused(read_buffer(*state, &b), BROKEN);
}

static void names_and_id_are_known_after_a_refusal(void **state)
{
  AUTO_BUFFER buffer b = BUFFER_EMPTY;
  proto_append_text(&b, 1, "m");
  proto_append_text(&b, 3, "i");
  proto_append_bytes(&b, 5, SLICE("\x0a\x05"));
  proto_append_tag(&b, 7, PROTO_BYTES); // cut off
  fixture *f = *state;
  assert_refused(read_buffer(f, &b), BROKEN);
  assert_string_equal(f->request.model_name, "m");
  assert_string_equal(f->request.model_version, "");
  assert_string_equal(f->request.id, "i");
}

// ---- limits ----

static void append_many(buffer *b, uint32_t number, size_t count)
{
  for (size_t i = 0; i < count; i++)
    proto_append_bytes(b, number, SLICE(""));
}

static void counts_of_fields_have_limits(void **state)
{
  static const struct {
    uint32_t number;
    const char *text;
  } rows[] = {{4, "expected at most 4096 parameters in a request"},
              {5, "expected at most 4096 inputs in a request"},
              {6, "expected at most 4096 outputs in a request"},
              {7, "expected at most 4096 raw contents in a request"}};
  for (size_t i = 0; i < COUNT(rows); i++) {
    AUTO_BUFFER buffer b = BUFFER_EMPTY;
    append_many(&b, rows[i].number, REQUEST_TENSORS_MAX + 1);
    assert_refused(read_buffer(*state, &b), rows[i].text);
  }
  AUTO_BUFFER buffer fits = BUFFER_EMPTY;
  append_many(&fits, 5, REQUEST_TENSORS_MAX);
  append_many(&fits, 6, REQUEST_TENSORS_MAX);
  append_many(&fits, 7, REQUEST_TENSORS_MAX);
  fixture *f = *state;
  assert_ok(read_buffer(f, &fits));
  assert_int_equal(f->request.input_count, REQUEST_TENSORS_MAX);
  assert_int_equal(f->request.output_count, REQUEST_TENSORS_MAX);
}

static void parameters_of_tensors_count_with_the_requests(void **state)
{
  AUTO_BUFFER buffer b = BUFFER_EMPTY;
  append_many(&b, 4, REQUEST_PARAMETERS_MAX);
  size_t output = proto_begin(&b, 6);
  append_many(&b, 2, 1);
  proto_end(&b, output);
  assert_refused(read_buffer(*state, &b), "expected at most 4096 parameters in a request");
}

static void ranks_names_and_ids_have_limits(void **state)
{
  char text[REQUEST_ID_MAX_BYTES + 1];
  memset(text, 'x', sizeof(text));
  AUTO_BUFFER buffer b = BUFFER_EMPTY;
  proto_append_bytes(&b, 3, (slice){text, sizeof(text)});
  assert_refused(read_buffer(*state, &b), "expected an id of at most 65536 bytes");
  b.size = 0;
  size_t input = proto_begin(&b, 5);
  proto_append_bytes(&b, 1, (slice){text, REQUEST_NAME_MAX_BYTES + 1});
  proto_end(&b, input);
  assert_refused(read_buffer(*state, &b), "expected a tensor's name of at most 255 bytes");
  b.size = 0;
  input = proto_begin(&b, 5);
  proto_append_text(&b, 1, "in");
  proto_append_bytes(&b, 3, (slice){text, REQUEST_DIMENSIONS_MAX + 1});
  proto_end(&b, input);
  assert_refused(read_buffer(*state, &b), "input 'in': expected at most 64 dimensions");
}

// Row 17: 10^6 repeated fields cost no multiple of the message.
static void repeated_fields_are_not_kept(void **state)
{
  fixture *f = *state;
  static char memory[65536];
  for (uint32_t number = 1; number <= 3; number++) {
    arena_fini(&f->a);
    arena_init(&f->a, memory, sizeof(memory));
    AUTO_BUFFER buffer b = BUFFER_EMPTY;
    append_many(&b, number, 1000000);
    size_t input = proto_begin(&b, 5);
    append_many(&b, 1, 1000000); // names
    append_many(&b, 3, 1000000); // shapes
    append_many(&b, 5, 1000000); // contents
    proto_end(&b, input);
    assert_ok(read_buffer(f, &b));
    assert_null(f->a.blocks); // it needed no more
  }
}

// ---- versions ----

static void versions_are_numbers(void **state)
{
  (void)state;
  int64_t version;
  assert_ok(model_version_read("", &version));
  assert_int_equal(version, -1);
  assert_ok(model_version_read("12", &version));
  assert_int_equal(version, 12);
  assert_refused(model_version_read("x", &version),
                 "failed to get model version from specified version string 'x' (details: stol), "
                 "version should be an integral value > 0");
  assert_refused(model_version_read("-1", &version),
                 "invalid model version specified '-1' , version should be an integral value > 0");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(reads_names_id_and_parameters),
      TEST(a_key_that_comes_again_replaces_the_first_value),
      TEST(the_last_of_a_scalar_and_of_a_oneof_counts),
      TEST(the_empty_final_response_is_an_option_and_no_parameter),
      TEST(an_empty_message_is_an_empty_request),
      TEST(raw_contents_are_views_of_the_message_in_the_order_of_inputs),
      TEST(an_input_without_data_is_refused),
      TEST(typed_contents_become_bytes_of_the_datatype),
      TEST(floats_and_bytes_become_bytes_of_the_datatype),
      TEST(floats_in_one_aligned_piece_are_not_copied),
      TEST(elements_may_come_in_pieces_packed_and_not),
      TEST(contents_of_another_type_are_refused),
      TEST(contents_and_raw_contents_together_are_refused),
      TEST(an_unknown_datatype_is_left_to_the_core),
      TEST(typed_contents_have_a_limit_together),
      TEST(an_input_in_shared_memory_takes_no_raw_contents),
      TEST(outputs_have_a_classification),
      TEST(parameters_of_tensors_that_cannot_be_are_refused),
      TEST(broken_messages_are_refused),
      TEST(texts_that_are_not_utf8_are_refused),
      TEST(unknown_fields_and_wire_types_are_skipped),
      TEST(groups_that_nest_too_deep_are_refused),
      TEST(names_and_id_are_known_after_a_refusal),
      TEST(counts_of_fields_have_limits),
      TEST(parameters_of_tensors_count_with_the_requests),
      TEST(ranks_names_and_ids_have_limits),
      TEST(repeated_fields_are_not_kept),
      TEST(versions_are_numbers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// Inference requests in protobuf's wire format: what protobuf-c packs must read back the same, and
// what it cannot pack (pieces, unknown fields, broken messages) is written by hand.
#include "proto_request.h"

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
  b.size = 0;
  append_parameter(&b, 4, "triton_other", 1, 1);
  assert_refused(read_buffer(f, &b),
                 "parameter keys starting with 'triton_' are reserved for Triton usage. Only the "
                 "following keys starting with 'triton_' are allowed: "
                 "triton_enable_empty_final_response");
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

static void the_begin_of_a_message_names_the_model(void **state)
{
  (void)state;
  AUTO_BUFFER buffer b = BUFFER_EMPTY;
  proto_append_text(&b, 1, "model");
  size_t named = b.size;
  proto_append_text(&b, 2, "17");
  size_t versioned = b.size;
  proto_append_text(&b, 3, "the id");
  proto_append_text(&b, 1, "too late");
  for (size_t size = 0; size <= b.size; size++) {
    slice model, version;
    char *begin = malloc(size > 0 ? size : 1); // the sanitizer sees where it ends
    if (size > 0)
      memcpy(begin, b.data, size);
    infer_request_proto_peek((slice){begin, size}, &model, &version);
    assert_true(slice_equal_text(model, size < named ? "" : "model"));
    assert_true(slice_equal_text(version, size < versioned ? "" : "17"));
    free(begin);
  }
}

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
      TEST(the_begin_of_a_message_names_the_model),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

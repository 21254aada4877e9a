// SPDX-License-Identifier: Apache-2.0
// Inference replies in protobuf's wire format: protobuf-c must read what was written, and large
// tensors must be sent from where they are.
#include "base/arena.h"
#include "frontend/grpc/codec/infer_response_proto.h"
#include "frontend/grpc/proto/grpc_service.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SHAPE(...) (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / 8

typedef struct fixture {
  arena a;
  message_parts parts;
} fixture;

static int set_up(void **state)
{
  fixture *f = calloc(1, sizeof(*f));
  arena_init(&f->a, NULL, 0);
  f->parts.arena = &f->a;
  *state = f;
  return 0;
}

static int tear_down(void **state)
{
  fixture *f = *state;
  buffer_fini(&f->parts.text);
  arena_fini(&f->a);
  free(f);
  return 0;
}

// The whole message in one piece, for free().
static uint8_t *joined(fixture *f)
{
  assert_true(message_parts_finish(&f->parts));
  uint8_t *message = malloc(f->parts.size + 1);
  size_t size = 0;
  for (size_t i = 0; i < f->parts.count; i++) {
    const slice part = f->parts.items[i];
    if (part.size > 0)
      memcpy(message + size, part.data, part.size);
    size += part.size;
  }
  assert_int_equal(size, f->parts.size);
  return message;
}

static Inference__ModelInferResponse *written(fixture *f)
{
  uint8_t *message = joined(f);
  Inference__ModelInferResponse *got =
      inference__model_infer_response__unpack(NULL, f->parts.size, message);
  free(message);
  assert_non_null(got);
  return got;
}

static Inference__ModelStreamInferResponse *written_stream(fixture *f)
{
  uint8_t *message = joined(f);
  Inference__ModelStreamInferResponse *got =
      inference__model_stream_infer_response__unpack(NULL, f->parts.size, message);
  free(message);
  assert_non_null(got);
  return got;
}

static void names_parameters_and_outputs_read_back(void **state)
{
  fixture *f = *state;
  const request_parameter parameters[] = {
      {"b", REQUEST_PARAMETER_BOOL, {.boolean = false}},
      {"i", REQUEST_PARAMETER_INT64, {.integer = -5}},
      {"s", REQUEST_PARAMETER_STRING, {.string = ""}},
      {"d", REQUEST_PARAMETER_DOUBLE, {.real = 2.5}},
  };
  const response_output_json outputs[] = {
      {.name = "one",
       .datatype = TRITONSERVER_TYPE_FP32,
       SHAPE(2, 300),
       .data = "12345678",
       .data_size = 8,
       .form = RESPONSE_DATA_BINARY},
      {.name = "shared",
       .datatype = TRITONSERVER_TYPE_BYTES,
       SHAPE(1),
       .data = "xxxx",
       .data_size = 4,
       .form = RESPONSE_DATA_SHARED_MEMORY},
      {.name = "scalar",
       .datatype = TRITONSERVER_TYPE_INT8,
       .data = "y",
       .data_size = 1,
       .form = RESPONSE_DATA_BINARY},
  };
  const infer_response_json reply = {.id = "id",
                                     .model_name = "m",
                                     .model_version = 7,
                                     .parameters = parameters,
                                     .parameter_count = 4,
                                     .outputs = outputs,
                                     .output_count = 3};
  infer_response_proto_write(&reply, FINAL_RESPONSE_UNSAID, &f->parts);
  Inference__ModelInferResponse *got = written(f);
  assert_string_equal(got->id, "id");
  assert_string_equal(got->model_name, "m");
  assert_string_equal(got->model_version, "7");
  assert_int_equal(got->n_parameters, 4);
  assert_string_equal(got->parameters[0]->key, "b");
  assert_int_equal(got->parameters[0]->value->parameter_choice_case,
                   INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_BOOL_PARAM);
  assert_false(got->parameters[0]->value->bool_param);
  assert_int_equal(got->parameters[1]->value->int64_param, -5);
  assert_int_equal(got->parameters[2]->value->parameter_choice_case,
                   INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_STRING_PARAM);
  assert_string_equal(got->parameters[2]->value->string_param, "");
  assert_true(got->parameters[3]->value->double_param == 2.5);
  assert_int_equal(got->n_outputs, 3);
  assert_string_equal(got->outputs[0]->name, "one");
  assert_string_equal(got->outputs[0]->datatype, "FP32");
  assert_int_equal(got->outputs[0]->n_shape, 2);
  assert_memory_equal(got->outputs[0]->shape, ((int64_t[]){2, 300}), 16);
  assert_int_equal(got->outputs[2]->n_shape, 0);
  assert_int_equal(got->n_raw_output_contents, 3);
  assert_int_equal(got->raw_output_contents[0].len, 8);
  assert_memory_equal(got->raw_output_contents[0].data, "12345678", 8);
  assert_int_equal(got->raw_output_contents[1].len, 0);
  assert_int_equal(got->raw_output_contents[2].len, 1);
  assert_int_equal(f->parts.count, 1); // small tensors are copied
  inference__model_infer_response__free_unpacked(got, NULL);
}

static void large_tensors_are_sent_from_where_they_are(void **state)
{
  fixture *f = *state;
  static char large[100000];
  memset(large, 'L', sizeof(large));
  response_output_json outputs[40];
  for (size_t i = 0; i < 40; i++)
    outputs[i] = (response_output_json){.name = "o",
                                        .datatype = TRITONSERVER_TYPE_UINT8,
                                        .data = large,
                                        .data_size = i % 2 == 0 ? sizeof(large) : i,
                                        .form = RESPONSE_DATA_BINARY};
  const infer_response_json reply = {
      .model_name = "m", .model_version = 1, .outputs = outputs, .output_count = 40};
  infer_stream_response_proto_write(&reply, FINAL_RESPONSE_TRUE, "", &f->parts);
  Inference__ModelStreamInferResponse *got = written_stream(f);
  assert_string_equal(got->error_message, "");
  const Inference__ModelInferResponse *response = got->infer_response;
  assert_int_equal(response->n_raw_output_contents, 40);
  for (size_t i = 0; i < 40; i++) {
    assert_int_equal(response->raw_output_contents[i].len, outputs[i].data_size);
    if (i > 0)
      assert_memory_equal(response->raw_output_contents[i].data, large, outputs[i].data_size);
  }
  size_t references = 0;
  for (size_t i = 0; i < f->parts.count; i++)
    references += f->parts.items[i].data == large;
  assert_int_equal(references, 20);
  assert_true(f->parts.text.size < 4096);
  assert_int_equal(response->n_parameters, 1);
  assert_string_equal(response->parameters[0]->key, "triton_final_response");
  assert_true(response->parameters[0]->value->bool_param);
  inference__model_stream_infer_response__free_unpacked(got, NULL);
}

static void an_error_in_a_stream_says_whose_it_is(void **state)
{
  fixture *f = *state;
  const infer_response_json reply = {.id = "42", .model_name = "m", .model_version = -1};
  infer_stream_response_proto_write(&reply, FINAL_RESPONSE_FALSE, "went wrong", &f->parts);
  Inference__ModelStreamInferResponse *got = written_stream(f);
  assert_string_equal(got->error_message, "went wrong");
  assert_string_equal(got->infer_response->id, "42");
  assert_string_equal(got->infer_response->model_name, "m");
  assert_string_equal(got->infer_response->model_version, "");
  assert_int_equal(got->infer_response->n_parameters, 1);
  assert_false(got->infer_response->parameters[0]->value->bool_param);
  inference__model_stream_infer_response__free_unpacked(got, NULL);
}

static void an_empty_reply_is_an_empty_message(void **state)
{
  fixture *f = *state;
  const infer_response_json reply = {.model_name = "", .model_version = -1};
  infer_response_proto_write(&reply, FINAL_RESPONSE_UNSAID, &f->parts);
  assert_true(message_parts_finish(&f->parts));
  assert_int_equal(f->parts.size, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(names_parameters_and_outputs_read_back),
      TEST(large_tensors_are_sent_from_where_they_are),
      TEST(an_error_in_a_stream_says_whose_it_is),
      TEST(an_empty_reply_is_an_empty_message),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// What the kinds of batch_input and batch_output make of a batch, by the worked examples of
// Triton's documentation and the definitions in model_config.proto.
#include "backend_batch_tensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAX_REQUESTS 8

static json_t *config_of(const char *text)
{
  json_error_t problem;
  json_t *config = json_loads(text, 0, &problem);
  assert_non_null(config);
  return config;
}

// Source inputs of the shapes "1,3 1,4"; "-" is an absent one.
typedef struct batch {
  backend_input sources[MAX_REQUESTS];
  int64_t dims[MAX_REQUESTS][8];
  uint32_t count;
} batch;

static batch *batch_of(const char *shapes)
{
  static batch made;
  memset(&made, 0, sizeof(made));
  while (*shapes != '\0') {
    assert_true(made.count < MAX_REQUESTS);
    backend_input *source = &made.sources[made.count];
    int64_t *dims = made.dims[made.count++];
    if (*shapes == '-')
      shapes++;
    else
      source->input = (TRITONBACKEND_Input *)&made; // not looked at
    source->name = "X";
    source->dims = dims;
    while (*shapes != '\0' && *shapes != ' ') {
      char *end;
      dims[source->rank++] = strtoll(shapes, &end, 10);
      shapes = *end == ',' ? end + 1 : end;
    }
    shapes += *shapes == ' ';
    assert_true(backend_element_count(dims, source->rank, &source->element_count));
  }
  return &made;
}

static void assert_refused(TRITONSERVER_Error *error, const char *text)
{
  assert_non_null(error);
  assert_string_equal(TRITONSERVER_ErrorMessage(error), text);
  assert_int_equal(TRITONSERVER_ErrorCode(error), TRITONSERVER_ERROR_INVALID_ARG);
  TRITONSERVER_ErrorDelete(error);
}

static void assert_none(TRITONSERVER_Error *error)
{
  if (error != NULL)
    fail_msg("%s", TRITONSERVER_ErrorMessage(error));
}

// "[3] 3 7 12": the shape and the values.
static const char *made_of(backend_batch_kind kind, TRITONSERVER_DataType datatype,
                           const char *shapes)
{
  static char text[512];
  char shape_text[BACKEND_SHAPE_TEXT];
  backend_batch_input input = {.kind = kind, .datatype = datatype, .source = "X"};
  backend_buffer buffer = {0};
  backend_shape shape;
  size_t size = 0;
  const batch *b = batch_of(shapes);
  assert_none(backend_batch_input_make(&input, b->sources, b->count, &buffer, &shape, &size));
  int used = snprintf(text, sizeof(text), "%s", backend_shape_text(&shape, shape_text));
  for (size_t i = 0; i < size / 4; i++) {
    double value = datatype == TRITONSERVER_TYPE_FP32 ? (double)((float *)buffer.data)[i]
                                                      : (double)((int32_t *)buffer.data)[i];
    used += snprintf(text + used, sizeof(text) - (size_t)used, " %g", value);
  }
  backend_buffer_fini(&buffer);
  return text;
}

static void each_kind_is_as_documented(void **state)
{
  (void)state;
  const struct {
    backend_batch_kind kind;
    const char *shapes, *made;
  } cases[] = {
      {BATCH_ELEMENT_COUNT, "1,3 1,4 1,5", "[3] 3 4 5"},
      {BATCH_ELEMENT_COUNT, "2,3 1,4", "[2] 6 4"}, // of a request, not of a row
      {BATCH_ACCUMULATED_ELEMENT_COUNT, "1,3 1,4 1,5", "[3] 3 7 12"},
      {BATCH_ACCUMULATED_ELEMENT_COUNT, "1,2 1,0 1,1", "[3] 2 2 3"},
      {BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO, "1,2 1,4 1,1 1,3", "[5] 0 2 6 7 10"},
      {BATCH_MAX_ELEMENT_COUNT_AS_SHAPE, "1,2 1,4 1,1", "[4] 0 0 0 0"},
      {BATCH_MAX_ELEMENT_COUNT_AS_SHAPE, "1,0", "[0]"},
      {BATCH_ITEM_SHAPE, "2,1,2 1,1,2 1,2,2", "[4,2] 1 2 1 2 1 2 2 2"},
      {BATCH_ITEM_SHAPE, "1,7", "[1,1] 7"},
      {BATCH_ITEM_SHAPE, "3", "[3,0]"},
      {BATCH_ITEM_SHAPE_FLATTEN, "1,4,1 1,1,2 1,1,2 1,2,2", "[8] 4 1 1 2 1 2 2 2"},
      // What is absent has no elements and no rows.
      {BATCH_ELEMENT_COUNT, "1,3 - 1,5", "[3] 3 0 5"},
      {BATCH_ACCUMULATED_ELEMENT_COUNT, "- 1,3", "[2] 0 3"},
      {BATCH_ITEM_SHAPE, "1,3 -", "[1,1] 3"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    assert_string_equal(made_of(cases[i].kind, TRITONSERVER_TYPE_INT32, cases[i].shapes),
                        cases[i].made);
    assert_string_equal(made_of(cases[i].kind, TRITONSERVER_TYPE_FP32, cases[i].shapes),
                        cases[i].made);
  }
}

static void assert_not_made(backend_batch_kind kind, const char *shapes, const char *text)
{
  backend_batch_input input = {.kind = kind, .datatype = TRITONSERVER_TYPE_INT32, .source = "X"};
  backend_buffer buffer = {0};
  backend_shape shape;
  size_t size;
  const batch *b = batch_of(shapes);
  assert_refused(backend_batch_input_make(&input, b->sources, b->count, &buffer, &shape, &size),
                 text);
  backend_buffer_fini(&buffer);
}

static void numbers_and_shapes_that_do_not_fit_are_refused(void **state)
{
  (void)state;
  assert_not_made(BATCH_ELEMENT_COUNT, "1,2147483648",
                  "batch input of 'X': a number of elements does not fit in INT32");
  assert_not_made(BATCH_ACCUMULATED_ELEMENT_COUNT, "1,2147483647 1,1",
                  "batch input of 'X': a number of elements does not fit in INT32");
  assert_not_made(BATCH_ITEM_SHAPE, "1,2 1,2,2",
                  "input 'X' has 3 dimensions, its rows have no common shape");
  // Nothing in it, and yet more shapes than memory has.
  assert_not_made(BATCH_ITEM_SHAPE_FLATTEN, "4611686018427387904,0,1,1,1", // wraps to 0
                  "the shapes of 4611686018427387904 rows are too many");
  assert_not_made(BATCH_ITEM_SHAPE, "4611686018427387904,0,1,1",
                  "the batch input of 'X' has an impossible shape");
}

static void the_configuration_is_read(void **state)
{
  (void)state;
  json_t *config = config_of("{\"batch_input\": [{\"kind\": \"BATCH_ITEM_SHAPE\", \"target_name\": "
                             "[\"A\", \"B\"], \"data_type\": \"TYPE_FP32\", \"source_input\": "
                             "[\"X\"]}, {\"kind\": \"BATCH_ELEMENT_COUNT\", \"target_name\": [], "
                             "\"data_type\": \"TYPE_INT32\", \"source_input\": []}]}");
  backend_batch_input *inputs;
  size_t count;
  assert_none(backend_batch_inputs(config, &inputs, &count));
  assert_int_equal(count, 2);
  assert_int_equal(inputs[0].kind, BATCH_ITEM_SHAPE);
  assert_int_equal(inputs[0].datatype, TRITONSERVER_TYPE_FP32);
  assert_string_equal(inputs[0].source, "X");
  assert_int_equal(inputs[0].target_count, 2);
  assert_string_equal(backend_batch_target(&inputs[0], 1), "B");
  assert_int_equal(inputs[1].datatype, TRITONSERVER_TYPE_INT32);
  assert_string_equal(inputs[1].source, "");
  assert_int_equal(inputs[1].target_count, 0);
  free(inputs);
  json_decref(config);
  config = config_of("{\"batch_input\": [{\"kind\": \"BATCH_X\"}]}");
  assert_refused(backend_batch_inputs(config, &inputs, &count),
                 "unexpected batch input kind 'BATCH_X'");
  json_decref(config);
  config = config_of(
      "{\"batch_input\": [{\"kind\": \"BATCH_ELEMENT_COUNT\", \"data_type\": \"TYPE_INT64\"}]}");
  assert_refused(backend_batch_inputs(config, &inputs, &count),
                 "unexpected batch input data type 'TYPE_INT64'");
  assert_null(inputs);
  json_decref(config);
}

#define OUTPUTS                                                                                    \
  "\"output\": [{\"name\": \"O\", \"data_type\": \"TYPE_FP32\", \"dims\": [-1, 7]}, {\"name\": "   \
  "\"P\", \"data_type\": \"TYPE_FP32\", \"dims\": [1], \"reshape\": {\"shape\": []}}]"

static void outputs_have_the_shape_of_their_source(void **state)
{
  (void)state;
  json_t *config = config_of("{\"max_batch_size\": 4, " OUTPUTS
                             ", \"batch_output\": [{\"kind\": \"BATCH_SCATTER_WITH_INPUT_SHAPE\", "
                             "\"target_name\": [\"O\", \"P\"], \"source_input\": [\"X\"]}]}");
  backend_batch_output *outputs;
  backend_shape shape;
  size_t count;
  char text[BACKEND_SHAPE_TEXT];
  assert_none(backend_batch_outputs(config, &outputs, &count));
  assert_int_equal(count, 2);
  assert_string_equal(outputs[1].name, "P");
  assert_string_equal(backend_shape_text(&outputs[0].dims, text), "[-1,-1,7]");
  assert_string_equal(backend_shape_text(&outputs[1].dims, text), "[-1]");
  assert_none(backend_scatter_shape(&outputs[0], &batch_of("2,5")->sources[0], &shape));
  assert_string_equal(backend_shape_text(&shape, text), "[2,5,7]");
  assert_refused(backend_scatter_shape(&outputs[0], &batch_of("2")->sources[0], &shape),
                 "batch output 'O': dimension 1 is that of input 'X', which has 1");
  assert_refused(backend_scatter_shape(&outputs[1], &batch_of("-")->sources[0], &shape),
                 "batch output 'P': dimension 0 is that of input 'X', which has 0");
  free(outputs);
  json_object_set_new(config, "max_batch_size", json_integer(0));
  assert_none(backend_batch_outputs(config, &outputs, &count));
  assert_string_equal(backend_shape_text(&outputs[0].dims, text), "[-1,7]");
  free(outputs);
  json_decref(config);
  config = config_of("{\"batch_output\": [{\"kind\": \"X\", \"target_name\": [\"O\"]}]}");
  assert_refused(backend_batch_outputs(config, &outputs, &count),
                 "unexpected batch output kind 'X'");
  assert_null(outputs);
  json_decref(config);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_kind_is_as_documented),
      cmocka_unit_test(numbers_and_shapes_that_do_not_fit_are_refused),
      cmocka_unit_test(the_configuration_is_read),
      cmocka_unit_test(outputs_have_the_shape_of_their_source),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

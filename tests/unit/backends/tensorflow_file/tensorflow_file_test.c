// SPDX-License-Identifier: Apache-2.0
// What a SavedModel and a GraphDef say, read without TensorFlow. The messages are put together
// here; tests/e2e/frameworks/test_tensorflow.py has files of TensorFlow's own.
#include "base/proto_write.h"
#include "tf_dtype.h"
#include "tf_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct reading {
  framework_signature signature;
  tf_file file;
  char error[512]; // "" is none
} reading;

static void keep_error(reading *self, TRITONSERVER_Error *error)
{
  snprintf(self->error, sizeof(self->error), "%s",
           error == NULL ? "" : TRITONSERVER_ErrorMessage(error));
  TRITONSERVER_ErrorDelete(error);
}

static reading read_model(const buffer *bytes, const char *tag, const char *signature)
{
  static reading self;
  const tf_choice choice = {.model = "m", .tag = tag, .signature = signature};
  self = (reading){.file = {.signature = &self.signature}};
  assert_false(bytes->failed);
  keep_error(&self, tf_file_read_saved_model(&self.file, buffer_view(bytes), &choice));
  return self;
}

static void end(reading *self)
{
  framework_tensors_clear(&self->signature.inputs);
  framework_tensors_clear(&self->signature.outputs);
  tf_file_fini(&self->file);
}

#define SCALAR  NULL, 0
#define UNKNOWN NULL, SIZE_MAX

// A tensor's entry in field `number` of a signature.
static void put_tensor(buffer *out, uint32_t number, const char *name, const char *node,
                       uint64_t dtype, const int64_t *dims, size_t rank)
{
  const size_t entry = proto_begin(out, number);
  proto_append_text(out, 1, name);
  const size_t info = proto_begin(out, 2);
  proto_append_text(out, 1, node);
  proto_append_integer(out, 2, dtype);
  proto_append_integer(out, 77, 1); // a field that nobody knows
  const size_t shape = proto_begin(out, 3);
  if (rank == SIZE_MAX)
    proto_append_integer(out, 3, 1);
  for (size_t i = 0; rank != SIZE_MAX && i < rank; i++) {
    const size_t dim = proto_begin(out, 2);
    proto_append_integer(out, 1, (uint64_t)dims[i]);
    proto_end(out, dim);
  }
  proto_end(out, shape);
  proto_end(out, info);
  proto_end(out, entry);
}

// A part of a SavedModel with an input x of its own, whose graph has an operator of the name.
static void put_part(buffer *out, const char *tag, const char *signature, const char *input,
                     const char *operator_name)
{
  const size_t part = proto_begin(out, 2), info = proto_begin(out, 1);
  proto_append_text(out, 4, tag);
  proto_end(out, info);
  const size_t graph = proto_begin(out, 2), library = proto_begin(out, 2);
  const size_t function = proto_begin(out, 1), node = proto_begin(out, 3);
  proto_append_text(out, 2, operator_name);
  proto_end(out, node);
  proto_end(out, function);
  proto_end(out, library);
  proto_end(out, graph);
  const size_t entry = proto_begin(out, 5);
  proto_append_text(out, 1, signature);
  const size_t definition = proto_begin(out, 2);
  const int64_t dims[] = {-1, 4};
  put_tensor(out, 1, input, "x:0", 1, dims, 2);
  proto_end(out, definition);
  proto_end(out, entry);
  proto_end(out, part);
}

static void test_tensors_have_type_shape_and_place(void **state)
{
  (void)state;
  AUTO_BUFFER buffer b = BUFFER_EMPTY;
  const int64_t dims[] = {-1, 3};
  const size_t part = proto_begin(&b, 2), info = proto_begin(&b, 1);
  proto_append_text(&b, 4, "serve");
  proto_end(&b, info);
  const size_t entry = proto_begin(&b, 5);
  proto_append_text(&b, 1, "serving_default");
  const size_t definition = proto_begin(&b, 2);
  put_tensor(&b, 1, "x", "call_x:0", 1, dims, 2);
  put_tensor(&b, 1, "scalar", "call_s:1", 7, SCALAR);
  put_tensor(&b, 2, "any", "call:2", 9, UNKNOWN);
  put_tensor(&b, 2, "odd", "call:3", 20, SCALAR);
  proto_end(&b, definition);
  proto_end(&b, entry);
  proto_end(&b, part);
  reading r = read_model(&b, "", "");
  assert_string_equal(r.error, "");
  const framework_tensor *in = r.signature.inputs.list, *out = r.signature.outputs.list;
  assert_int_equal(r.signature.inputs.count, 2);
  assert_string_equal(in[0].name, "x");
  assert_int_equal(in[0].datatype, TRITONSERVER_TYPE_FP32);
  assert_int_equal(in[0].shape.rank, 2);
  assert_int_equal(in[0].shape.dims[0], -1);
  assert_int_equal(in[0].shape.dims[1], 3);
  assert_false(in[0].any_rank);
  assert_string_equal(r.file.inputs.names[in[1].position], "call_s:1");
  assert_int_equal(in[1].datatype, TRITONSERVER_TYPE_BYTES);
  assert_int_equal(in[1].shape.rank, 0);
  assert_true(out[0].any_rank);
  assert_int_equal(out[0].shape.rank, 1);
  assert_null(out[0].refusal);
  assert_string_equal(out[1].refusal,
                      "unable to process output 'odd' for 'm', unsupported datatype 'DT_RESOURCE'");
  assert_false(r.file.keeps_inputs);
  end(&r);
}

static void test_tags_and_signatures_are_chosen(void **state)
{
  (void)state;
  AUTO_BUFFER buffer b = BUFFER_EMPTY;
  put_part(&b, "serve", "__saved_model_init_op", "init", "Add");
  put_part(&b, "other", "score", "x", "Add");
  static const struct {
    const char *tag, *signature, *result;
  } cases[] = {
      {"other", "", "x"},
      {"other", "score", "x"},
      {"other", "rank", "unable to load model 'm', expected 'rank' signature"},
      {"", "", "unable to load model 'm', expected 'serving_default' signature"},
      {"serve", "__saved_model_init_op", "init"},
      {"gpu", "", "unable to load model 'm', expected 'gpu' tag"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    reading r = read_model(&b, cases[i].tag, cases[i].signature);
    assert_string_equal(r.signature.inputs.count == 1 ? r.signature.inputs.list[0].name : r.error,
                        cases[i].result);
    end(&r);
  }
}

static void test_what_may_keep_an_input_is_found_in_functions(void **state)
{
  (void)state;
  static const struct {
    const char *operator_name;
    bool keeps;
  } cases[] = {{"MatMul", false},         {"BatchMatMulV2", false}, {"AssignVariableOp", true},
               {"QueueEnqueueV2", true},  {"Stage", true},          {"ReadVariableOp", false},
               {"MapUnstageNoKey", true}, {"Pack", false},          {"Unbatch", true}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    AUTO_BUFFER buffer b = BUFFER_EMPTY;
    put_part(&b, "serve", "serving_default", "x", cases[i].operator_name);
    reading r = read_model(&b, "", "");
    assert_int_equal(r.file.keeps_inputs, cases[i].keeps);
    end(&r);
  }
}

// Each beginning of a file is refused or has less in it; none is read past its end.
static void test_every_truncation_ends_well(void **state)
{
  (void)state;
  AUTO_BUFFER buffer b = BUFFER_EMPTY;
  put_part(&b, "serve", "serving_default", "x", "Add");
  for (size_t size = 0; size < b.size; size++) {
    buffer cut = BUFFER_EMPTY;
    buffer_append(&cut, b.data, size);
    reading r = read_model(&cut, "", "");
    assert_string_not_equal(r.error, "");
    end(&r);
    buffer_fini(&cut);
  }
}

static void test_the_number_of_tensors_is_bounded(void **state)
{
  (void)state;
  AUTO_BUFFER buffer b = BUFFER_EMPTY;
  char name[32];
  reading r = {.file = {.signature = &r.signature}};
  json_t *wanted = json_object();
  for (int i = 0; i <= TF_FILE_TENSORS_MAX; i++) {
    const size_t node = proto_begin(&b, 1);
    snprintf(name, sizeof(name), "n%d", i);
    proto_append_text(&b, 1, name);
    proto_append_text(&b, 2, "Placeholder");
    proto_end(&b, node);
  }
  keep_error(&r, tf_file_read_graph(&r.file, buffer_view(&b), "m", wanted));
  assert_string_equal(r.error, "it has more than 4096 inputs or outputs");
  assert_int_equal(r.signature.inputs.count, TF_FILE_TENSORS_MAX);
  json_decref(wanted);
  end(&r);
}

static void test_a_graph_has_placeholders_and_what_is_wanted(void **state)
{
  (void)state;
  AUTO_BUFFER buffer b = BUFFER_EMPTY;
  static const char *const nodes[][2] = {{"in", "Placeholder"}, {"sum", "AddV2"}, {"other", "Sub"}};
  reading r = {.file = {.signature = &r.signature}};
  json_t *wanted = json_pack("{s:b}", "sum", 1);
  for (size_t i = 0; i < 3; i++) {
    const size_t node = proto_begin(&b, 1);
    proto_append_text(&b, 1, nodes[i][0]);
    proto_append_text(&b, 2, nodes[i][1]);
    proto_end(&b, node);
  }
  keep_error(&r, tf_file_read_graph(&r.file, buffer_view(&b), "m", wanted));
  assert_string_equal(r.error, "");
  assert_true(r.signature.open);
  assert_int_equal(r.signature.inputs.count, 1);
  assert_int_equal(r.signature.outputs.count, 1);
  assert_string_equal(r.signature.outputs.list[0].name, "sum");
  assert_true(r.signature.inputs.list[0].any_type && r.signature.inputs.list[0].any_rank);
  json_decref(wanted);
  end(&r);
}

// What protobuf leaves out is an empty text.
static void test_a_node_may_have_no_operator(void **state)
{
  (void)state;
  AUTO_BUFFER buffer b = BUFFER_EMPTY;
  reading r = {.file = {.signature = &r.signature}};
  json_t *wanted = json_pack("{s:b}", "sum", 1);
  const size_t node = proto_begin(&b, 1);
  proto_append_text(&b, 1, "sum");
  proto_end(&b, node);
  keep_error(&r, tf_file_read_graph(&r.file, buffer_view(&b), "m", wanted));
  assert_string_equal(r.error, "");
  assert_int_equal(r.signature.outputs.count, 1);
  assert_false(r.file.keeps_inputs);
  json_decref(wanted);
  end(&r);
}

static void test_types_go_both_ways(void **state)
{
  (void)state;
  for (int dtype = -2; dtype < 200; dtype++) {
    const TRITONSERVER_DataType datatype = tf_datatype(dtype);
    if (datatype != TRITONSERVER_TYPE_INVALID)
      assert_int_equal(tf_dtype(datatype), dtype);
  }
  assert_int_equal(tf_dtype(TRITONSERVER_TYPE_INVALID), 0);
  assert_int_equal(tf_dtype(TRITONSERVER_TYPE_BYTES), TF_DTYPE_STRING);
  assert_string_equal(tf_dtype_name(14), "DT_BFLOAT16");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tensors_have_type_shape_and_place),
      cmocka_unit_test(test_tags_and_signatures_are_chosen),
      cmocka_unit_test(test_what_may_keep_an_input_is_found_in_functions),
      cmocka_unit_test(test_every_truncation_ends_well),
      cmocka_unit_test(test_the_number_of_tensors_is_bounded),
      cmocka_unit_test(test_a_graph_has_placeholders_and_what_is_wanted),
      cmocka_unit_test(test_a_node_may_have_no_operator),
      cmocka_unit_test(test_types_go_both_ways),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

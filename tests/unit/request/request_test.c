// SPDX-License-Identifier: Apache-2.0
// Requests against a model's signature: what is accepted, what is refused and in which words.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "request/request.h"

#include <stdlib.h>
#include <string.h>

typedef struct fixture {
  request_target target;
  int unreferenced;
  int released;
} fixture;

static void count_unreferenced(request_target *target)
{
  ((fixture *)target)->unreferenced++;
}

static void count_release(TRITONSERVER_InferenceRequest *r, const uint32_t flags, void *context)
{
  (void)r;
  (void)flags;
  ((fixture *)context)->released++;
}

static void ignore_response(TRITONSERVER_InferenceResponse *r, const uint32_t flags, void *context)
{
  (void)flags;
  (void)context;
  response_free((response *)r);
}

static fixture *make_fixture(const char *config_text)
{
  fixture *f = calloc(1, sizeof(*f));
  AUTO_CONFIG Inference__ModelConfig *config = NULL;
  error *e = config_read_text(slice_of(config_text), "test", &config);
  if (e != NULL)
    fail_msg("%s", error_message(e));
  assert_null(signature_init(&f->target.signature, config));
  assert_null(statistics_init(&f->target.shared_statistics, 8));
  f->target.name = "m";
  f->target.version = 1;
  f->target.unreferenced = count_unreferenced;
  refcount_init(&f->target.references);
  return f;
}

static void free_fixture(fixture *f)
{
  request_target_unref(&f->target);
  assert_int_equal(f->unreferenced, 1);
  assert_int_equal(f->target.inflight, 0);
  signature_fini(&f->target.signature);
  statistics_fini(&f->target.shared_statistics);
  free(f);
}

static request *make_request(fixture *f)
{
  request *r;
  assert_null(request_new(&f->target, &r));
  r->response_callback = ignore_response;
  r->release_callback = count_release;
  r->release_context = f;
  return r;
}

static const char zeros[256];

static void add_input(request *r, const char *name, TRITONSERVER_DataType type, const int64_t *dims,
                      size_t dim_count, const void *data, size_t size)
{
  assert_null(request_add_input(r, name, type, dims, dim_count, false));
  assert_null(request_append_input_data(r, name, (input_segment){.base = data, .size = size}));
}

static void expect_refusal(request *r, const char *message)
{
  error *e = request_prepare(r);
  assert_non_null(e);
  assert_int_equal(error_get_code(e), ERROR_INVALID_ARG);
  assert_string_equal(error_message(e), message);
  error_free(e);
}

#define BATCHED_CONFIG                                                                             \
  "max_batch_size: 4 input { name: 'A' data_type: TYPE_FP32 dims: [-1, 2] } "                      \
  "input { name: 'B' data_type: TYPE_INT8 dims: 3 optional: true } output { name: 'Y' data_type: " \
  "TYPE_FP32 dims: 2 }"

// The key of a request with X of the shape [length], the shape tensor S, and Z where it has a
// length.
static slice key_of(request *r, int64_t length, const int32_t *content, int64_t optional_length)
{
  request_remove_inputs(r);
  add_input(r, "X", TRITONSERVER_TYPE_INT8, (int64_t[]){1, length}, 2, zeros, (size_t)length);
  add_input(r, "S", TRITONSERVER_TYPE_INT32, (int64_t[]){1}, 1, content, sizeof(*content));
  if (optional_length > 0)
    add_input(r, "Z", TRITONSERVER_TYPE_INT8, (int64_t[]){1, optional_length}, 2, zeros,
              (size_t)optional_length);
  assert_null(request_prepare(r));
  return r->item.batch_key;
}

static void ragged_inputs_are_not_compared_and_others_beside_them_are(void **state)
{
  (void)state;
  fixture *f = make_fixture("max_batch_size: 4 "
                            "input { name: 'X' data_type: TYPE_INT8 dims: -1 allow_ragged_batch: "
                            "true } input { name: 'S' data_type: TYPE_INT32 dims: 1 "
                            "is_shape_tensor: true } input { name: 'Z' data_type: TYPE_INT8 dims: "
                            "-1 optional: true allow_ragged_batch: true }");
  request *first = make_request(f), *other = make_request(f);
  const int32_t five = 5, six = 6;
  slice key = key_of(first, 3, &five, 0);
  assert_true(slice_equal(key, key_of(other, 7, &five, 0)));
  assert_false(slice_equal(key, key_of(other, 3, &six, 0)));  // content of a shape tensor
  assert_false(slice_equal(key, key_of(other, 3, &five, 2))); // an optional input
  key = key_of(first, 3, &five, 1);
  assert_true(slice_equal(key, key_of(other, 3, &five, 2)));
  request_free(first);
  request_free(other);
  free_fixture(f);
}

// Its memory cannot be read on the host: such a request shares a batch with no other.
static void a_shape_tensor_on_a_gpu_is_not_compared_by_its_content(void **state)
{
  (void)state;
  fixture *f =
      make_fixture("max_batch_size: 4 input { name: 'X' data_type: TYPE_INT8 dims: 2 } "
                   "input { name: 'S' data_type: TYPE_INT32 dims: 1 is_shape_tensor: true }");
  request *requests[2];
  for (int i = 0; i < 2; i++) {
    request *r = requests[i] = make_request(f);
    add_input(r, "X", TRITONSERVER_TYPE_INT8, (int64_t[]){1, 2}, 2, zeros, 2);
    assert_null(request_add_input(r, "S", TRITONSERVER_TYPE_INT32, (int64_t[]){1}, 1, false));
    assert_null(request_append_input_data(
        r, "S",
        (input_segment){.base = (void *)4096, .size = 4, .memory_type = TRITONSERVER_MEMORY_GPU}));
    assert_null(request_prepare(r));
    assert_int_equal(r->batch_size, 1);
  }
  assert_false(slice_equal(requests[0]->item.batch_key, requests[1]->item.batch_key));
  for (int i = 0; i < 2; i++)
    request_free(requests[i]);
  free_fixture(f);
}

static void a_good_request_gets_its_batch_size_shapes_and_key(void **state)
{
  (void)state;
  fixture *f = make_fixture(BATCHED_CONFIG);
  request *r = make_request(f);
  add_input(r, "A", TRITONSERVER_TYPE_FP32, (int64_t[]){3, 5, 2}, 3, zeros, 3 * 5 * 2 * 4);
  assert_null(request_prepare(r));
  assert_int_equal(r->batch_size, 3);
  assert_int_equal(r->inputs[0].dim_count, 3);
  assert_memory_equal(r->inputs[0].dims, ((int64_t[]){3, 5, 2}), 24);
  request *other = make_request(f);
  add_input(other, "A", TRITONSERVER_TYPE_FP32, (int64_t[]){1, 5, 2}, 3, zeros, 40);
  assert_null(request_prepare(other));
  assert_true(slice_equal(r->item.batch_key, other->item.batch_key));
  request *longer = make_request(f);
  add_input(longer, "A", TRITONSERVER_TYPE_FP32, (int64_t[]){1, 6, 2}, 3, zeros, 48);
  assert_null(request_prepare(longer));
  assert_false(slice_equal(r->item.batch_key, longer->item.batch_key));
  add_input(other, "B", TRITONSERVER_TYPE_INT8, (int64_t[]){1, 3}, 2, zeros, 3);
  assert_null(request_prepare(other));
  assert_false(slice_equal(r->item.batch_key, other->item.batch_key));
  request_free(r);
  request_free(other);
  request_free(longer);
  free_fixture(f);
}

static void each_mistake_is_named_in_tritons_words(void **state)
{
  (void)state;
  static const struct {
    const char *name;
    TRITONSERVER_DataType type;
    int64_t dims[4];
    size_t dim_count;
    size_t bytes;
    const char *message;
  } cases[] = {
      {"A",
       TRITONSERVER_TYPE_INT32,
       {1, 5, 2},
       3,
       40,
       "[request id: r7] inference input 'A' data-type is 'INT32', but model 'm' expects 'FP32'"},
      {"A",
       TRITONSERVER_TYPE_FP32,
       {1, 5, 3},
       3,
       60,
       "[request id: r7] unexpected shape for input 'A' for model 'm'. Expected [-1,-1,2], got "
       "[1,5,3]. NOTE: Setting a "
       "non-zero max_batch_size in the model config requires a batch dimension to be prepended to "
       "each input shape. If you "
       "want to specify the full shape including the batch dim in your input dims config, try "
       "setting max_batch_size to "
       "zero. See the model configuration docs for more info on max_batch_size."},
      {"A",
       TRITONSERVER_TYPE_FP32,
       {1, -5, 2},
       3,
       40,
       "[request id: r7] All input dimensions should be specified for input 'A' for model 'm', got "
       "[1,-5,2]"},
      {"A",
       TRITONSERVER_TYPE_FP32,
       {5, 5, 2},
       3,
       200,
       "[request id: r7] inference request batch-size must be <= 4 for 'm', got 5"},
      {"A",
       TRITONSERVER_TYPE_FP32,
       {1, 5, 2},
       3,
       36,
       "[request id: r7] input byte size mismatch for input 'A' for model 'm'. Expected 40, got "
       "36"},
      {"A",
       TRITONSERVER_TYPE_FP32,
       {0, 5, 2},
       3,
       0,
       "[request id: r7] input byte size mismatch for input 'A' for model 'm'. Expected 40, got "
       "0: its batch dimension is 0, expected at least 1"},
      {"A",
       TRITONSERVER_TYPE_FP32,
       {0, 5, 2},
       3,
       40,
       "[request id: r7] inference request batch-size must be >= 1 for 'm', got 0 for input 'A'"},
      {"A",
       TRITONSERVER_TYPE_FP32,
       {0, 0, 2},
       3,
       0,
       "[request id: r7] inference request batch-size must be >= 1 for 'm', got 0 for input 'A'"},
      {"A",
       TRITONSERVER_TYPE_FP32,
       {1, INT64_MAX, 2},
       3,
       40,
       "[request id: r7] the shape of input 'A' for model 'm' has more elements than fit in 64 "
       "bits"},
      {"A",
       TRITONSERVER_TYPE_FP32,
       {1, INT64_MAX / 4, 2},
       3,
       40,
       "[request id: r7] the shape of input 'A' for model 'm' needs more bytes than fit in 64 "
       "bits"},
      {"A",
       TRITONSERVER_TYPE_FP32,
       {0},
       0,
       40,
       "[request id: r7] input 'A' has no shape but model requires batch dimension for 'm'"},
      {"C",
       TRITONSERVER_TYPE_FP32,
       {1, 5, 2},
       3,
       40,
       "unexpected inference input 'C' for model 'm'"},
  };
  fixture *f = make_fixture(BATCHED_CONFIG);
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    request *r = make_request(f);
    assert_null(request_set_id(r, "r7"));
    add_input(r, cases[i].name, cases[i].type, cases[i].dims, cases[i].dim_count, zeros,
              cases[i].bytes);
    expect_refusal(r, cases[i].message);
    request_free(r);
  }
  free_fixture(f);
}

static void a_request_needs_as_many_inputs_as_are_required(void **state)
{
  (void)state;
  const int64_t shape[] = {1, 3};
  fixture *f = make_fixture(BATCHED_CONFIG);
  request *r = make_request(f);
  assert_null(request_set_id(r, "r7"));
  expect_refusal(r, "[request id: r7] expected number of inputs between 1 and 2 but got 0 inputs "
                    "for model 'm'. Got "
                    "input(s) [], but missing required input(s) ['A']. Please provide all required "
                    "input(s).");
  request_free(r);
  r = make_request(f);
  add_input(r, "B", TRITONSERVER_TYPE_INT8, shape, 2, zeros, 3); // optional, A is not
  assert_null(request_prepare(r));
  assert_int_equal(r->batch_size, 1);
  request_free(r);
  free_fixture(f);
}

static void inputs_and_outputs_are_named_once_and_exist(void **state)
{
  (void)state;
  fixture *f = make_fixture(BATCHED_CONFIG);
  request *r = make_request(f);
  add_input(r, "A", TRITONSERVER_TYPE_FP32, (int64_t[]){1, 5, 2}, 3, zeros, 40);
  error *e = request_add_input(r, "A", TRITONSERVER_TYPE_FP32, NULL, 0, false);
  assert_string_equal(error_message(e),
                      "[request id: <id_unknown>] input 'A' already exists in request");
  error_free(e);
  assert_null(request_add_output(r, "Y"));
  assert_null(request_add_output(r, "Y")); // once more is once
  assert_int_equal(r->requested_output_count, 1);
  assert_null(request_add_output(r, "Z"));
  expect_refusal(r, "unexpected inference output 'Z' for model 'm'");
  assert_null(request_remove_output(r, "Z"));
  assert_null(request_prepare(r));
  request_free(r);
  free_fixture(f);
}

static void lying_string_lengths_are_refused(void **state)
{
  (void)state;
  fixture *f = make_fixture("input { name: 'S' data_type: TYPE_STRING dims: 2 } output { name: 'Y' "
                            "data_type: TYPE_INT8 dims: 1 }");
  static const struct {
    const char *data;
    size_t size;
    const char *message; // NULL: good
  } cases[] = {
      {"\1\0\0\0a\0\0\0\0", 9, NULL},
      {"\1\0\0\0a\2\0\0\0b", 10,
       "[request id: <id_unknown>] element 1 of inference input 'S' for model 'm' claims 2 bytes, "
       "more than the tensor holds: before the bytes of each element stands their number, 4 bytes, "
       "little-endian"},
      {"\1\0\0\0a", 5,
       "[request id: <id_unknown>] expected 2 string elements for inference input 'S' for model "
       "'m', got 1"},
      {"\0\0\0\0\0\0\0\0\0\0\0\0", 12,
       "[request id: <id_unknown>] unexpected number of string elements 3 for inference input 'S' "
       "for model 'm', expecting 2"},
      {"\0\0\0\0\0\0\0", 7,
       "[request id: <id_unknown>] incomplete string length indicator for inference input 'S' for "
       "model 'm', expecting 4 bytes "
       "but only 3 bytes available. Please make sure the string length indicator is in one "
       "buffer."},
      {"\xff\xff\xff\xff"
       "a",
       5,
       "[request id: <id_unknown>] element 0 of inference input 'S' for model 'm' claims "
       "4294967295 bytes, more than the tensor holds: before the bytes of each element stands "
       "their "
       "number, 4 bytes, little-endian"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    char *copy =
        malloc(cases[i].size); // exactly as long as the data, so that a read past it is seen
    memcpy(copy, cases[i].data, cases[i].size);
    request *r = make_request(f);
    add_input(r, "S", TRITONSERVER_TYPE_BYTES, (int64_t[]){2}, 1, copy, cases[i].size);
    if (cases[i].message == NULL)
      assert_null(request_prepare(r));
    else
      expect_refusal(r, cases[i].message);
    request_free(r);
    free(copy);
  }
  free_fixture(f);
}

static void a_raw_input_takes_type_and_shape_from_the_model(void **state)
{
  (void)state;
  fixture *f =
      make_fixture("max_batch_size: 2 input { name: 'A' data_type: TYPE_INT16 dims: [2, -1] } "
                   "output { name: 'Y' data_type: TYPE_INT8 dims: 1 }");
  request *r = make_request(f);
  assert_null(request_add_input(r, "A", TRITONSERVER_TYPE_INVALID, NULL, 0, true));
  assert_null(request_append_input_data(r, "A", (input_segment){.base = zeros, .size = 12}));
  assert_null(request_prepare(r));
  assert_memory_equal(r->inputs[0].dims, ((int64_t[]){1, 2, 3}), 24);
  request_free(r);
  r = make_request(f);
  assert_null(request_add_input(r, "A", TRITONSERVER_TYPE_INVALID, NULL, 0, true));
  assert_null(request_append_input_data(r, "A", (input_segment){.base = zeros, .size = 13}));
  expect_refusal(r, "[request id: <id_unknown>] input byte size mismatch for input 'A' for model "
                    "'m'. Expected 12, got 13");
  request_free(r);
  free_fixture(f);
  f = make_fixture("input { name: 'S' data_type: TYPE_STRING dims: 1 } output { name: 'Y' "
                   "data_type: TYPE_INT8 dims: 1 }");
  r = make_request(f);
  assert_null(request_add_input(r, "S", TRITONSERVER_TYPE_INVALID, NULL, 0, true));
  assert_null(request_append_input_data(r, "S", (input_segment){.base = "hello", .size = 5}));
  assert_null(request_prepare(r));
  assert_int_equal(r->inputs[0].data.segment_count, 2);
  assert_int_equal(r->inputs[0].data.byte_size, 9);
  assert_memory_equal(r->inputs[0].data.segments[0].base, "\5\0\0\0", 4);
  request_free(r);
  free_fixture(f);
}

static void a_reshape_shows_the_backend_another_shape(void **state)
{
  (void)state;
  fixture *f = make_fixture(
      "max_batch_size: 8 input { name: 'A' data_type: TYPE_INT8 dims: [1, -1] reshape { shape: "
      "[-1] } } "
      "output { name: 'Y' data_type: TYPE_INT8 dims: [-1, 1] reshape { shape: [-1] } }");
  request *r = make_request(f);
  add_input(r, "A", TRITONSERVER_TYPE_INT8, (int64_t[]){2, 1, 7}, 3, zeros, 14);
  assert_null(request_prepare(r));
  assert_int_equal(r->inputs[0].dim_count, 2);
  assert_memory_equal(r->inputs[0].dims, ((int64_t[]){2, 7}), 16);
  response *answer;
  response_output *output;
  assert_null(response_new(r->factory, &answer));
  assert_null(
      response_add_output(answer, "Y", TRITONSERVER_TYPE_INT8, (int64_t[]){2, 5}, 2, &output));
  assert_int_equal(output->dim_count, 3);
  assert_memory_equal(output->dims, ((int64_t[]){2, 5, 1}), 24);
  // what it does not fit is left alone; a scalar has no batch
  assert_null(
      response_add_output(answer, "Y", TRITONSERVER_TYPE_INT8, (int64_t[]){2, 5, 3}, 3, &output));
  assert_int_equal(output->dim_count, 3);
  assert_memory_equal(output->dims, ((int64_t[]){2, 5, 3}), 24);
  assert_null(response_add_output(answer, "Y", TRITONSERVER_TYPE_INT8, NULL, 0, &output));
  assert_int_equal(output->dim_count, 0);
  response_free(answer);
  request_free(r);
  free_fixture(f);
}

static void add_output(response *answer, const char *name, TRITONSERVER_DataType type,
                       const int64_t *dims, uint32_t dim_count, const char *refusal)
{
  response_output *output = NULL;
  AUTO_ERROR error *e = response_add_output(answer, name, type, dims, dim_count, &output);
  if (refusal == NULL) {
    assert_null(e);
    assert_int_equal(output->datatype, type);
    assert_int_equal(output->dim_count, dim_count);
    return;
  }
  assert_non_null(e);
  assert_string_equal(error_message(e), refusal);
}

static uint64_t count_of(const fixture *f, size_t output)
{
  return f->target.signature.output_mismatches->counts[output];
}

static void outputs_of_another_type_or_shape_are_taken_and_counted(void **state)
{
  (void)state;
  fixture *f = make_fixture("max_batch_size: 8 input { name: 'A' data_type: TYPE_INT8 dims: 1 } "
                            "output { name: 'Y' data_type: TYPE_FP32 dims: [2, -1] } "
                            "output { name: 'Z' data_type: TYPE_STRING dims: 1 }");
  const int64_t fits[] = {3, 2, 7}, other[] = {3, 4, 7};
  request *r = make_request(f);
  add_input(r, "A", TRITONSERVER_TYPE_INT8, (int64_t[]){1, 1}, 2, zeros, 1);
  assert_null(request_prepare(r));
  response *answer;
  assert_null(response_new(r->factory, &answer));
  add_output(answer, "Z", TRITONSERVER_TYPE_BYTES, (int64_t[]){1, 1}, 2, NULL);
  add_output(answer, "Y", TRITONSERVER_TYPE_FP32, fits, 3, NULL);
  assert_int_equal(count_of(f, 0), 0);
  add_output(answer, "Y", TRITONSERVER_TYPE_FP32, fits, 3, NULL); // twice
  assert_int_equal(count_of(f, 0), 1);
  add_output(answer, "Y", TRITONSERVER_TYPE_FP64, other, 3, NULL);
  add_output(answer, "Y", (TRITONSERVER_DataType)99, fits, 1, NULL);
  assert_int_equal(count_of(f, 0), 5); // each of these two is there twice, and of another form
  assert_int_equal(count_of(f, 1), 0);
  add_output(answer, "W", TRITONSERVER_TYPE_FP32, fits, 3,
             "unexpected inference output 'W' for model 'm'");
  assert_int_equal(count_of(f, 2), 1);
  response_free(answer);
  request_free(r);
  free_fixture(f);
}

// The first is what the identity backend answers. A block of its own would cost each request more
// than the rest of its answer.
static void a_small_answer_fits_into_the_memory_that_it_has(void **state)
{
  (void)state;
  fixture *f = make_fixture("max_batch_size: 8 input { name: 'A' data_type: TYPE_INT8 dims: 1 } "
                            "output { name: 'Y' data_type: TYPE_FP32 dims: [2, -1] } "
                            "output { name: 'Z' data_type: TYPE_FP32 dims: 1 }");
  const int64_t dims[] = {3, 2, 7};
  request *r = make_request(f);
  add_input(r, "A", TRITONSERVER_TYPE_INT8, (int64_t[]){1, 1}, 2, zeros, 1);
  assert_null(request_prepare(r));
  response *answer;
  assert_null(response_new(r->factory, &answer));
  add_output(answer, "Y", TRITONSERVER_TYPE_FP32, dims, 3, NULL);
  assert_null(
      response_set_parameter(answer, "param0", parameter_of_string("an example string parameter")));
  for (int64_t i = 0; i < 3; i++)
    assert_null(response_set_parameter(
        answer, ((const char *[]){"param1", "param2", "param3"})[i],
        (parameter){.type = TRITONSERVER_PARAMETER_INT, .value.integer = i}));
  assert_null(answer->memory.blocks);
  response_free(answer);
  assert_null(response_new(r->factory, &answer));
  add_output(answer, "Y", TRITONSERVER_TYPE_FP32, dims, 3, NULL);
  add_output(answer, "Z", TRITONSERVER_TYPE_FP32, (int64_t[]){3, 1}, 2, NULL);
  assert_null(answer->memory.blocks);
  response_free(answer);
  request_free(r);
  free_fixture(f);
}

static void strict_outputs_refuse_what_is_not_as_configured(void **state)
{
  (void)state;
  fixture *f = make_fixture("max_batch_size: 8 input { name: 'A' data_type: TYPE_INT8 dims: 1 } "
                            "output { name: 'Y' data_type: TYPE_FP32 dims: [2, -1] }");
  const int64_t fits[] = {3, 2, 7}, other[] = {3, 4, 7};
  f->target.signature.strict_outputs = true;
  request *r = make_request(f);
  add_input(r, "A", TRITONSERVER_TYPE_INT8, (int64_t[]){1, 1}, 2, zeros, 1);
  assert_null(request_prepare(r));
  response *answer;
  assert_null(response_new(r->factory, &answer));
  add_output(answer, "Y", TRITONSERVER_TYPE_FP32, other, 3,
             "output 'Y' of model 'm' is FP32 [3,4,7], the model's configuration says FP32 "
             "[-1,2,-1]");
  add_output(answer, "Y", (TRITONSERVER_DataType)99, NULL, 0,
             "output 'Y' of model 'm' is <invalid> [], the model's configuration says FP32 "
             "[-1,2,-1]");
  add_output(answer, "W", TRITONSERVER_TYPE_FP32, fits, 3,
             "model 'm' gave the output 'W', its configuration has none of that name");
  add_output(answer, "Y", TRITONSERVER_TYPE_FP32, fits, 3, NULL);
  add_output(answer, "Y", TRITONSERVER_TYPE_FP32, fits, 3,
             "model 'm' gave the output 'Y' twice in one response");
  assert_int_equal(answer->output_count, 1);
  assert_int_equal(count_of(f, 0), 3);
  assert_int_equal(count_of(f, 1), 1);
  response_free(answer);
  request_free(r);
  free_fixture(f);
}

// Releases a request as if it had been queued.
static void release_sent(request *r)
{
  request_set_state(r, REQUEST_PENDING);
  request_release(r, TRITONSERVER_REQUEST_RELEASE_ALL);
}

static void a_second_final_response_is_dropped(void **state)
{
  (void)state;
  fixture *f = make_fixture("input { name: 'A' data_type: TYPE_INT8 dims: 1 } output { name: 'Y' "
                            "data_type: TYPE_INT8 dims: 1 }");
  request *r = make_request(f);
  add_input(r, "A", TRITONSERVER_TYPE_INT8, (int64_t[]){1}, 1, zeros, 1);
  assert_null(request_prepare(r));
  response *first, *second;
  assert_null(response_new(r->factory, &first));
  assert_null(response_new(r->factory, &second));
  assert_null(response_send(first, TRITONSERVER_RESPONSE_COMPLETE_FINAL, NULL));
  error *e = response_send(second, TRITONSERVER_RESPONSE_COMPLETE_FINAL, NULL);
  assert_non_null(e);
  error_free(e);
  e = response_factory_send_flags(r->factory, TRITONSERVER_RESPONSE_COMPLETE_FINAL);
  assert_non_null(e);
  error_free(e);
  release_sent(r);
  assert_int_equal(f->released, 1);
  request_free(r);
  free_fixture(f);
}

static void a_policys_data_stands_beside_the_usual_data(void **state)
{
  (void)state;
  fixture *f = make_fixture("input { name: 'A' data_type: TYPE_INT8 dims: -1 } output { name: 'Y' "
                            "data_type: TYPE_INT8 dims: 1 }");
  request *r = make_request(f);
  add_input(r, "A", TRITONSERVER_TYPE_INT8, (int64_t[]){3}, 1, zeros, 3);
  error *e = request_append_policy_data(r, "B", (input_segment){.base = "x", .size = 1}, "p");
  assert_non_null(e);
  error_free(e);
  for (int i = 0; i < 20; i++)
    assert_null(request_append_policy_data(r, "A", (input_segment){.base = "xy", .size = 2}, "p"));
  assert_null(request_append_policy_data(r, "A", (input_segment){.base = "", .size = 0}, "empty"));
  assert_null(request_prepare(r));
  const request_input *input = &r->inputs[0];
  assert_int_equal(input->data.byte_size, 3);
  assert_ptr_equal(request_input_data(input, NULL), &input->data);
  assert_ptr_equal(request_input_data(input, "q"), &input->data);
  const input_data *data = request_input_data(input, "p");
  assert_true(data != &input->data && data->byte_size == 40 && data->segment_count == 20);
  assert_memory_equal(data->segments[19].base, "xy", 2);
  data = request_input_data(input, "empty");
  assert_true(data != &input->data && data->byte_size == 0 && data->segment_count == 0);
  assert_null(request_remove_input_data(r, "A"));
  assert_ptr_equal(request_input_data(&r->inputs[0], "p"), &r->inputs[0].data);
  request_free(r);
  free_fixture(f);
}

static void data_in_many_pieces_adds_up(void **state)
{
  (void)state;
  fixture *f = make_fixture("input { name: 'A' data_type: TYPE_INT8 dims: -1 } output { name: 'Y' "
                            "data_type: TYPE_INT8 dims: 1 }");
  request *r = make_request(f);
  assert_null(request_add_input(r, "A", TRITONSERVER_TYPE_INT8, (int64_t[]){100}, 1, false));
  for (int i = 0; i < 50; i++)
    assert_null(request_append_input_data(r, "A", (input_segment){.base = zeros + i, .size = 2}));
  assert_null(request_prepare(r));
  assert_int_equal(r->inputs[0].data.segment_count, 50);
  for (int i = 0; i < 50; i++)
    assert_ptr_equal(r->inputs[0].data.segments[i].base, zeros + i);
  assert_null(request_remove_input_data(r, "A"));
  assert_null(request_append_input_data(r, "A", (input_segment){.base = zeros, .size = 100}));
  assert_null(request_prepare(r));
  assert_int_equal(r->inputs[0].data.segment_count, 1);
  request_free(r);
  free_fixture(f);
}

static void remember_failure(TRITONSERVER_InferenceResponse *r, const uint32_t flags, void *context)
{
  assert_int_equal(flags, TRITONSERVER_RESPONSE_COMPLETE_FINAL);
  *(char **)context = strdup(error_message(((response *)r)->failure));
  response_free((response *)r);
}

static void keep_first_answer(TRITONSERVER_InferenceResponse *r, const uint32_t flags,
                              void *context)
{
  if (flags == 0)
    *(response **)context = (response *)r; // kept: the client waits for the end
  else
    response_free((response *)r);
}

static void an_answer_without_an_end_gets_one_although_the_client_keeps_it(void **state)
{
  (void)state;
  fixture *f = make_fixture("input { name: 'A' data_type: TYPE_INT8 dims: 1 } output { name: 'Y' "
                            "data_type: TYPE_INT8 dims: 1 }");
  response *kept = NULL, *answer;
  request *r = make_request(f);
  r->response_callback = keep_first_answer;
  r->response_context = &kept;
  add_input(r, "A", TRITONSERVER_TYPE_INT8, (int64_t[]){1}, 1, zeros, 1);
  assert_null(request_prepare(r));
  r->factory->answer_owed = true;
  response_factory *factory = response_factory_ref(r->factory);
  assert_null(response_new(r->factory, &answer));
  assert_null(response_send(answer, 0, NULL));
  assert_ptr_equal(kept, answer);
  release_sent(r);
  request_free(r);
  assert_false(factory->finished); // the backend may still end it
  response_factory_unref(factory);
  assert_true(factory->finished); // `kept` holds it
  response_free(kept);
  free_fixture(f);
}

// A request that is to be answered; an answer that is an error becomes *answer.
static request *make_owed_request(fixture **f, char **answer)
{
  *f = make_fixture("input { name: 'A' data_type: TYPE_INT8 dims: 1 } output { name: 'Y' "
                    "data_type: TYPE_INT8 dims: 1 }");
  request *r = make_request(*f);
  r->response_callback = remember_failure;
  r->response_context = answer;
  add_input(r, "A", TRITONSERVER_TYPE_INT8, (int64_t[]){1}, 1, zeros, 1);
  assert_null(request_prepare(r));
  r->factory->answer_owed = true;
  return r;
}

static void a_request_that_nobody_can_answer_any_more_is_answered_with_an_error(void **state)
{
  (void)state;
  fixture *f;
  char *answer = NULL;
  request *r = make_owed_request(&f, &answer);
  response_factory *kept = response_factory_ref(r->factory);
  release_sent(r);
  request_free(r);
  assert_null(answer); // the backend may still answer through its factory
  response_factory_unref(kept);
  assert_non_null(answer);
  assert_string_equal(
      answer,
      "[request id: <id_unknown>] the backend of model 'm' released the request without an answer");
  free(answer);
  free_fixture(f);
}

static void a_released_request_can_be_cancelled_but_not_answer(void **state)
{
  (void)state;
  fixture *f;
  char *answer = NULL;
  request *r = make_owed_request(&f, &answer);
  response_factory *backends = response_factory_ref(r->factory);
  release_sent(r);
  atomic_store(&r->factory->cancelled, true); // the client keeps the request for this
  assert_true(response_factory_is_cancelled(backends));
  assert_null(answer);
  response_factory_unref(backends);
  assert_non_null(answer); // although the request is still there
  free(answer);
  assert_null(request_prepare(r)); // and may be sent again
  assert_false(request_is_cancelled(r));
  release_sent(r);
  request_free(r);
  free_fixture(f);
}

static void a_request_that_is_sent_again_is_not_cancelled_any_more(void **state)
{
  (void)state;
  fixture *f = make_fixture("input { name: 'A' data_type: TYPE_INT8 dims: 1 } output { name: 'Y' "
                            "data_type: TYPE_INT8 dims: 1 }");
  request *r = make_request(f);
  add_input(r, "A", TRITONSERVER_TYPE_INT8, (int64_t[]){1}, 1, zeros, 1);
  assert_null(request_prepare(r));
  atomic_store(&r->factory->cancelled, true);
  assert_true(request_is_cancelled(r));
  assert_null(request_prepare(r));
  assert_false(request_is_cancelled(r));
  request_free(r);
  free_fixture(f);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_request_needs_as_many_inputs_as_are_required),
      cmocka_unit_test(a_good_request_gets_its_batch_size_shapes_and_key),
      cmocka_unit_test(ragged_inputs_are_not_compared_and_others_beside_them_are),
      cmocka_unit_test(a_shape_tensor_on_a_gpu_is_not_compared_by_its_content),
      cmocka_unit_test(each_mistake_is_named_in_tritons_words),
      cmocka_unit_test(inputs_and_outputs_are_named_once_and_exist),
      cmocka_unit_test(lying_string_lengths_are_refused),
      cmocka_unit_test(a_raw_input_takes_type_and_shape_from_the_model),
      cmocka_unit_test(a_reshape_shows_the_backend_another_shape),
      cmocka_unit_test(outputs_of_another_type_or_shape_are_taken_and_counted),
      cmocka_unit_test(a_small_answer_fits_into_the_memory_that_it_has),
      cmocka_unit_test(strict_outputs_refuse_what_is_not_as_configured),
      cmocka_unit_test(a_second_final_response_is_dropped),
      cmocka_unit_test(a_policys_data_stands_beside_the_usual_data),
      cmocka_unit_test(data_in_many_pieces_adds_up),
      cmocka_unit_test(an_answer_without_an_end_gets_one_although_the_client_keeps_it),
      cmocka_unit_test(a_released_request_can_be_cancelled_but_not_answer),
      cmocka_unit_test(a_request_that_is_sent_again_is_not_cancelled_any_more),
      cmocka_unit_test(a_request_that_nobody_can_answer_any_more_is_answered_with_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

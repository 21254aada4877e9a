// SPDX-License-Identifier: Apache-2.0
// Two texts with a zero between them: a model's metadata, and a generate request for it. Without a
// zero the request is for a model with an input of each kind. What is accepted must be whole, fit
// the model and come back the same when it is written as a reply and read as a request again.
#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "frontend/common/json/generate_json.h"
#include "fuzz.h"

#include <string.h>

#define MAX_DATA (1u << 16)

static const char fixed_model[] =
    "{\"inputs\":[{\"name\":\"T\",\"datatype\":\"BYTES\",\"shape\":[-1,-1]},"
    "{\"name\":\"I\",\"datatype\":\"INT64\",\"shape\":[1]},"
    "{\"name\":\"F\",\"datatype\":\"FP32\",\"shape\":[-1,2]},"
    "{\"name\":\"B\",\"datatype\":\"BOOL\",\"shape\":[-1]}]}";

static void check_input(const infer_json_input *input)
{
  uint64_t count = 1;
  CHECK(input->name != NULL);
  for (size_t i = 0; i < input->shape_count; i++)
    CHECK(!__builtin_mul_overflow(count, (uint64_t)input->shape[i], &count));
  CHECK(count == input->element_count);
  CHECK(input->data != NULL);
  if (input->datatype != TRITONSERVER_TYPE_BYTES)
    CHECK(input->data_size == count * TRITONSERVER_DataTypeByteSize(input->datatype));
}

// The inputs as the outputs of a reply; which is then a request with the same inputs.
static void check_round_trip(const generate_inputs *inputs, const infer_request_json *request,
                             arena *a)
{
  AUTO_BUFFER buffer out = BUFFER_EMPTY;
  response_output_json *outputs =
      arena_allocate_array(a, request->input_count + 1, sizeof(*outputs));
  CHECK(outputs != NULL);
  for (size_t i = 0; i < request->input_count; i++) {
    const infer_json_input *in = &request->inputs[i];
    if (in->element_count == 0 || strcmp(in->name, "id") == 0 ||
        strcmp(in->name, "model_name") == 0 || strcmp(in->name, "model_version") == 0 ||
        (in->datatype == TRITONSERVER_TYPE_BYTES &&
         fuzz_count_strings(in->data, in->data_size) != in->element_count))
      return;
    outputs[i] = (response_output_json){.name = in->name,
                                        .datatype = in->datatype,
                                        .shape = in->shape,
                                        .shape_count = in->shape_count,
                                        .data = in->data,
                                        .data_size = in->data_size};
  }
  const infer_response_json response = {.model_name = "m",
                                        .model_version = 1,
                                        .outputs = outputs,
                                        .output_count = request->input_count};
  CHECK(generate_response_json_write(&response, a, &out) == NULL);
  char *text = fuzz_copy_with_zeroes(out.data, out.size);
  infer_request_json again;
  error *e = generate_request_json_read((slice){text, out.size}, inputs, MAX_DATA, a, &again);
  CHECK(e == NULL);
  CHECK(again.input_count == request->input_count);
  CHECK(again.json_data_size == request->json_data_size);
  free(text);
}

static void check_request(const generate_inputs *inputs, slice body, arena *a)
{
  infer_request_json request;
  char *text = fuzz_copy_with_zeroes(body.data, body.size);
  error *e = generate_request_json_read((slice){text, body.size}, inputs, MAX_DATA, a, &request);
  if (e != NULL) {
    CHECK(error_get_code(e) == ERROR_INVALID_ARG && error_message(e)[0] != '\0');
    error_free(e);
  } else {
    CHECK(request.id != NULL);
    CHECK(request.json_data_size <= MAX_DATA);
    CHECK(request.input_count <= inputs->count);
    for (size_t i = 0; i < request.input_count; i++)
      check_input(&request.inputs[i]);
    if (inputs->count == 4)
      check_round_trip(inputs, &request, a);
  }
  free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  const uint8_t *zero = size == 0 ? NULL : memchr(data, 0, size);
  slice model =
      zero == NULL ? slice_of(fixed_model) : (slice){(const char *)data, (size_t)(zero - data)};
  slice body = zero == NULL ? (slice){(const char *)data, size}
                            : (slice){(const char *)zero + 1, size - model.size - 1};
  arena a;
  generate_inputs inputs;
  char *text = fuzz_copy_with_zeroes(model.data, model.size);
  arena_init(&a, NULL, 0);
  error *e = generate_inputs_read((slice){text, model.size}, &a, &inputs);
  if (e == NULL)
    check_request(&inputs, body, &a);
  error_free(e);
  arena_fini(&a);
  free(text);
  return 0;
}

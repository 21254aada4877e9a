// An inference request as JSON, then the binary tensors behind it; what was read is printed again.
// The first two bytes say how much of the input is JSON.
#include "frontend/protocol/infer_request_json.h"
#include "frontend/protocol/infer_response_json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void print_input(const infer_json_input *input)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  const response_output_json output = {.name = input->name,
                                       .datatype = input->datatype,
                                       .shape = input->shape,
                                       .shape_count = input->shape_count,
                                       .data = input->data,
                                       .data_size = input->data_size};
  const infer_response_json response = {.model_name = "m", .outputs = &output, .output_count = 1};
  error_free(infer_response_json_write(&response, &text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (size < 2)
    return 0;
  size_t json_size = (data[0] | (size_t)data[1] << 8) % (size - 1);
  char *body = calloc(size + 64, 1); // zeroes behind, as body_finish puts them
  if (body == NULL)
    return 0;
  memcpy(body, data + 2, size - 2);
  arena a;
  infer_request_json request;
  arena_init(&a, NULL, 0);
  error *e = infer_request_json_read((slice){body, json_size}, &a, &request);
  if (e == NULL)
    e = binary_tensors_split(&request, (slice){body + json_size, size - 2 - json_size});
  for (size_t i = 0; e == NULL && i < request.input_count; i++)
    if (request.inputs[i].data != NULL)
      print_input(&request.inputs[i]);
  error_free(e);
  arena_fini(&a);
  free(body);
  return 0;
}

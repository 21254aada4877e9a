// SPDX-License-Identifier: Apache-2.0
// Any bytes as the JSON part of an inference request. What is accepted must be whole, aligned and
// consistent, and each tensor must come back the same when it is printed and read again.
#include "base/arena.h"
#include "base/blocks.h"
#include "base/buffer.h"
#include "base/error.h"
#include "frontend/common/json/infer_request_json.h"
#include "frontend/common/json/json_tensor.h"
#include "fuzz.h"

#include <string.h>

#define MAX_DATA (1u << 20)

static void check_round_trip(const infer_json_input *input)
{
  AUTO_BUFFER buffer printed = BUFFER_EMPTY;
  error *e = json_tensor_write(input->datatype, input->data, input->data_size, input->element_count,
                               NULL, &printed);
  CHECK(e == NULL);
  char *text = fuzz_copy_with_zeroes(printed.data, printed.size);
  arena a;
  arena_init(&a, NULL, 0);
  json_cursor c = {.begin = text, .at = text, .end = text + printed.size, .arena = &a};
  const void *data;
  size_t size;
  CHECK(json_tensor_read(&c, NULL, input->datatype, input->element_count, &data, &size) == NULL);
  CHECK(c.at == c.end);
  CHECK(size == input->data_size);
  CHECK(size == 0 || memcmp(data, input->data, size) == 0);
  arena_fini(&a);
  free(text);
}

static void check_input(const infer_json_input *input)
{
  CHECK(input->name != NULL);
  CHECK(input->datatype != TRITONSERVER_TYPE_INVALID);
  uint64_t count = 1;
  for (size_t i = 0; i < input->shape_count; i++) {
    CHECK(input->shape[i] >= 0);
    count *= (uint64_t)input->shape[i];
  }
  CHECK(count == input->element_count);
  if (input->data == NULL)
    return;
  CHECK(!input->binary);
  CHECK(input->shared_memory.region == NULL);
  CHECK((uintptr_t)input->data % BLOCK_ALIGNMENT == 0);
  if (input->datatype != TRITONSERVER_TYPE_BYTES)
    CHECK(input->data_size ==
          input->element_count * TRITONSERVER_DataTypeByteSize(input->datatype));
  if (input->datatype != TRITONSERVER_TYPE_BYTES ||
      fuzz_count_strings(input->data, input->data_size) == input->element_count)
    check_round_trip(input); // else the core will refuse it
}

static void check_parameters(const json_parameters *parameters)
{
  for (size_t i = 0; i < parameters->count; i++) {
    const request_parameter *p = &parameters->items[i];
    CHECK(p->name != NULL);
    CHECK(p->type != REQUEST_PARAMETER_STRING || p->value.string != NULL);
    CHECK(p->type != REQUEST_PARAMETER_NONE);
  }
}

static void check_request(const infer_request_json *r)
{
  CHECK(r->id != NULL);
  check_parameters(&r->parameters);
  for (size_t i = 0; i < r->input_count; i++)
    check_input(&r->inputs[i]);
  for (size_t i = 0; i < r->output_count; i++)
    CHECK(r->outputs[i].name != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  char *text = fuzz_copy_with_zeroes(data, size);
  arena a;
  arena_init(&a, NULL, 0);
  infer_request_json request;
  error *e = infer_request_json_read((slice){text, size}, MAX_DATA, NULL, &a, &request);
  if (e == NULL)
    check_request(&request);
  else
    CHECK(error_get_code(e) == ERROR_INVALID_ARG && error_message(e)[0] != '\0');
  error_free(e);
  arena_fini(&a);
  free(text);
  return 0;
}

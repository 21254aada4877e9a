// SPDX-License-Identifier: Apache-2.0
// A whole request body: JSON, a NUL byte, then the binary part, in one run of memory as they come
// over HTTP. Inputs that are accepted must share the binary part out in order, each byte once.
#include "base/arena.h"
#include "base/error.h"
#include "frontend/common/json/infer_request_json.h"
#include "fuzz.h"

#include <string.h>

#define BYTES_BEHIND 16 // readable bytes that the reader asks for
#define MAX_DATA     (1u << 20)

static void check_shares(const infer_request_json *r, slice binary)
{
  const char *at = binary.data;
  for (size_t i = 0; i < r->input_count; i++) {
    const infer_json_input *input = &r->inputs[i];
    if (!input->binary)
      continue;
    CHECK(input->data == at);
    CHECK(input->data_size == input->binary_size);
    at += input->data_size;
  }
  CHECK(at == binary.data + binary.size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  const uint8_t *separator = size > 0 ? memchr(data, '\0', size) : NULL;
  if (separator == NULL)
    return 0;
  size_t json_size = (size_t)(separator - data);
  size_t body_size = size - 1;
  char *body = calloc(1, body_size + BYTES_BEHIND);
  CHECK(body != NULL);
  memcpy(body, data, json_size);
  memcpy(body + json_size, separator + 1, body_size - json_size);
  const slice binary = {body + json_size, body_size - json_size};

  arena a;
  arena_init(&a, NULL, 0);
  infer_request_json request;
  error *e = infer_request_json_read((slice){body, json_size}, MAX_DATA, NULL, &a, &request);
  if (e == NULL)
    e = binary_tensors_split(&request, "m", binary);
  if (e == NULL)
    check_shares(&request, binary);
  else
    CHECK(error_get_code(e) == ERROR_INVALID_ARG);
  error_free(e);
  arena_fini(&a);
  free(body);
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// A count and any bytes as a BYTES tensor that a backend answers with. The printer must refuse what
// is malformed, and what it prints must read back to the same bytes.
#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "frontend/common/json/infer_response_json.h"
#include "frontend/common/json/json_tensor.h"
#include "fuzz.h"

#include <string.h>

#define BYTES_BEHIND 16 // readable bytes that the reader asks for

static void check_reads_back(const buffer *printed, const uint8_t *tensor, size_t tensor_size,
                             uint64_t count)
{
  char *text = calloc(1, printed->size + BYTES_BEHIND);
  CHECK(text != NULL);
  memcpy(text, printed->data, printed->size);
  arena a;
  arena_init(&a, NULL, 0);
  json_cursor c = {.begin = text, .at = text, .end = text + printed->size, .arena = &a};
  const void *data;
  size_t size;
  CHECK(json_tensor_read(&c, NULL, TRITONSERVER_TYPE_BYTES, count, &data, &size) == NULL);
  CHECK(c.at == c.end);
  CHECK(size == tensor_size);
  CHECK(size == 0 || memcmp(data, tensor, size) == 0);
  arena_fini(&a);
  free(text);
}

static error *write_whole_reply(const uint8_t *tensor, size_t size, uint64_t count)
{
  const int64_t shape[] = {1, (int64_t)count};
  const response_output_json output = {
      .name = "text",
      .datatype = TRITONSERVER_TYPE_BYTES,
      .shape = shape,
      .shape_count = 2,
      .data = tensor,
      .data_size = size,
      .form = RESPONSE_DATA_JSON,
  };
  const infer_response_json reply = {
      .model_name = "m", .model_version = 1, .outputs = &output, .output_count = 1};
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  return infer_response_json_write(&reply, NULL, &text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (size == 0)
    return 0;
  const uint64_t count = data[0];
  const uint8_t *tensor = data + 1;
  AUTO_BUFFER buffer printed = BUFFER_EMPTY;
  error *e = json_tensor_write(TRITONSERVER_TYPE_BYTES, tensor, size - 1, count, NULL, &printed);
  if (e == NULL)
    check_reads_back(&printed, tensor, size - 1, count);
  error *whole = write_whole_reply(tensor, size - 1, count);
  CHECK((whole == NULL) == (e == NULL));
  error_free(whole);
  error_free(e);
  return 0;
}

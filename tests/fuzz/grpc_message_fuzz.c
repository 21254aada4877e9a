// SPDX-License-Identifier: Apache-2.0
// Any bytes as the request messages of a gRPC call. Whatever pieces they come in, the messages and
// the fault are the same; what was taken from the budget comes back.
#include "frontend/grpc/call/grpc_message.h"
#include "fuzz.h"

#define BUDGET_BYTES ((size_t)16 << 20)

// What comes out of one reading, as a sum that the next one must give too.
typedef struct outcome {
  message_fault fault;
  size_t messages;
  size_t bytes;
  uint64_t sum; // FNV-1a over all messages
  bool inside;
} outcome;

static void add(outcome *o, const grpc_message *m)
{
  CHECK(m->size == 0 || ((uintptr_t)m->data + m->size) % BODY_ALIGNMENT == 0);
  o->messages++;
  o->bytes += m->size;
  for (size_t i = 0; i < m->size; i++)
    o->sum = (o->sum ^ (uint8_t)m->data[i]) * UINT64_C(1099511628211);
}

// Reads `text` in pieces of `step` bytes.
static outcome read_all(slice text, content_coding coding, size_t step)
{
  byte_budget budget = {.limit = BUDGET_BYTES};
  message_reader reader = {.budget = &budget};
  outcome o = {.sum = UINT64_C(14695981039346656037)};
  while (text.size > 0 && o.fault == MESSAGE_OK) {
    size_t taken;
    grpc_message *complete;
    size_t size = step < text.size ? step : text.size;
    o.fault = message_reader_take(&reader, coding, text.data, size, &taken, &complete);
    if (o.fault == MESSAGE_OK && message_reader_is_unpacking(&reader)) {
      CHECK(complete == NULL);
      o.fault = message_reader_unpack(&reader, &complete);
      CHECK((complete != NULL) == (o.fault == MESSAGE_OK));
    }
    CHECK(taken <= size && (taken > 0 || o.fault != MESSAGE_OK));
    if (complete != NULL)
      add(&o, complete);
    grpc_message_free(complete);
    text = (slice){text.data + taken, text.size - taken};
  }
  o.inside = message_reader_is_inside(&reader);
  message_reader_fini(&reader);
  CHECK(budget.used == 0);
  return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  fuzz_input input = {data, size};
  const content_coding coding = (content_coding)(fuzz_byte(&input) % CODING_UNKNOWN);
  const size_t step = (size_t)fuzz_byte(&input) + 1;
  char *copy = fuzz_copy((slice){(const char *)input.data, input.size}, 0);
  const slice text = {copy, input.size};
  const outcome whole = read_all(text, coding, SIZE_MAX);
  const outcome pieces = read_all(text, coding, step);
  CHECK(whole.fault == pieces.fault && whole.messages == pieces.messages);
  CHECK(whole.bytes == pieces.bytes && whole.sum == pieces.sum);
  CHECK(whole.fault != MESSAGE_OK || whole.inside == pieces.inside);
  free(copy);
  return 0;
}

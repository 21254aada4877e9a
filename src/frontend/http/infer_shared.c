// Inputs and outputs in the client's memory (frontend/protocol/shared_memory.h). A backend reads
// and writes there directly, except for what a client could harm others with: see is_copied. Loop
// and worker threads.
#include "frontend/http/infer.h"

#include "base/blocks.h"
#include "base/checked.h"
#include "frontend/http/exchange.h"
#include "frontend/http/server.h"

#include <string.h>

// The client can change a tensor while a model reads it. Lengths, indices, counts and masks are
// what models look at twice, first to check and then to use: of the types that can hold them the
// model gets a copy. The other ones hold pixels, samples and weights: a value that changes gives
// another answer, to that client.
static bool is_copied(TRITONSERVER_DataType datatype)
{
  switch (datatype) {
  case TRITONSERVER_TYPE_BYTES:
  case TRITONSERVER_TYPE_BOOL:
  case TRITONSERVER_TYPE_INT32:
  case TRITONSERVER_TYPE_INT64:
  case TRITONSERVER_TYPE_UINT32:
  case TRITONSERVER_TYPE_UINT64:
    return true;
  default:
    return false;
  }
}

static bool overlaps(const shared_span *a, const shared_span *b)
{
  const char *a_begin = a->base, *b_begin = b->base;
  return a->region == b->region && a_begin < b_begin + b->byte_size &&
         b_begin < a_begin + a->byte_size;
}

// Backends expect that what they read stays as it is while they write.
static bool is_overwritten(const inference *i, const shared_span *input)
{
  for (size_t k = 0; k < i->choice_count; k++)
    if (i->choices[k].span != NULL && overlaps(i->choices[k].span, input))
      return true;
  return false;
}

static size_t count_shared(const infer_request_json *json)
{
  size_t count = 0;
  for (size_t k = 0; k < json->input_count; k++)
    count += json->inputs[k].shared_memory.region != NULL;
  for (size_t k = 0; k < json->output_count; k++)
    count += json->outputs[k].shared_memory.region != NULL;
  return count;
}

// Sums saturate: whoever asks compares.
static void add_bytes(size_t *sum, const json_shared_memory *memory)
{
  if (memory->region != NULL && !checked_add_size(*sum, memory->byte_size, sum))
    *sum = SIZE_MAX;
}

size_t infer_shared_bytes(const infer_request_json *json)
{
  size_t sum = 0;
  for (size_t k = 0; k < json->input_count && sum < SIZE_MAX; k++)
    add_bytes(&sum, &json->inputs[k].shared_memory);
  for (size_t k = 0; k < json->output_count && sum < SIZE_MAX; k++)
    add_bytes(&sum, &json->outputs[k].shared_memory);
  return sum;
}

static bool no_memory(exchange *x)
{
  exchange_fail(x, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory");
  return false;
}

bool infer_reserve_shared(exchange *x, inference *i, const infer_request_json *json)
{
  size_t count = count_shared(json);
  if (count == 0)
    return true;
  i->spans = arena_allocate_array(&x->arena, count, sizeof(*i->spans));
  i->copies = arena_allocate_array(&x->arena, count, sizeof(*i->copies));
  return (i->spans != NULL && i->copies != NULL) || no_memory(x);
}

// NULL when the exchange has failed.
static const shared_span *take_span(exchange *x, inference *i, const json_shared_memory *memory)
{
  shared_span *span = &i->spans[i->span_count];
  if (exchange_fail_if_error(x, shared_memory_take(x->http->options.shared_memory, memory->region,
                                                   memory->offset, memory->byte_size, span)))
    return NULL;
  i->span_count++;
  return span;
}

// Memory of our own for the span's bytes; they come later (infer_copy_shared).
static void *note_copy(exchange *x, inference *i, const shared_span *span)
{
  if (span->byte_size >= EXCHANGE_ARENA_BYTES &&
      exchange_fail_if_body(x, body_reserve_work(&x->body, span->byte_size)))
    return NULL;
  char *memory = arena_allocate(&x->arena, span->byte_size + BLOCK_ALIGNMENT);
  if (memory == NULL) {
    no_memory(x);
    return NULL;
  }
  memory += (BLOCK_ALIGNMENT - (uintptr_t)memory % BLOCK_ALIGNMENT) % BLOCK_ALIGNMENT;
  i->copies[i->copy_count++] = (shared_copy){memory, span->base, span->byte_size};
  i->copy_bytes += span->byte_size;
  return memory;
}

bool infer_add_shared_input(exchange *x, inference *i, const infer_json_input *input)
{
  const shared_span *span = take_span(x, i, &input->shared_memory);
  if (span == NULL || span->byte_size == 0)
    return span != NULL;
  bool copied = is_copied(input->datatype) || is_overwritten(i, span);
  void *base = copied ? note_copy(x, i, span) : span->base;
  return base != NULL && !exchange_fail_if(x, TRITONSERVER_InferenceRequestAppendInputData(
                                                  i->request, input->name, base, span->byte_size,
                                                  span->memory_type, span->memory_type_id));
}

bool infer_choose_shared_output(exchange *x, inference *i, const infer_json_output *output,
                                output_choice *choice)
{
  if (output->shared_memory.region == NULL)
    return true;
  choice->span = take_span(x, i, &output->shared_memory);
  return choice->span != NULL;
}

void infer_copy_shared(exchange *x)
{
  inference *i = x->inference;
  for (size_t k = 0; k < i->copy_count; k++)
    memcpy(i->copies[k].to, i->copies[k].from, i->copies[k].size);
  i->copy_count = 0;
}

bool infer_check_shared(exchange *x, const inference *i)
{
  for (size_t k = 0; k < i->span_count; k++)
    if (exchange_fail_if_error(x, shared_span_check(&i->spans[k])))
      return false;
  return true;
}

void infer_release_shared(inference *i)
{
  while (i->span_count > 0)
    shared_span_give_back(&i->spans[--i->span_count]);
}

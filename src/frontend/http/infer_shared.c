// Inputs and outputs of an inference in the client's memory (frontend/protocol/shared_tensors.h).
// Loop and worker threads.
#include "frontend/http/infer.h"

#include "base/checked.h"
#include "frontend/http/exchange.h"
#include "frontend/http/server.h"

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

bool infer_reserve_shared(exchange *x, inference *i, const infer_request_json *json)
{
  return !exchange_fail_if_error(x, shared_tensors_init(&i->shared, x->http->options.shared_memory,
                                                        count_shared(json), &x->arena));
}

bool infer_choose_shared_output(exchange *x, inference *i, const infer_json_output *output,
                                output_choice *choice)
{
  const json_shared_memory *m = &output->shared_memory;
  return m->region == NULL ||
         !exchange_fail_if_error(x, shared_tensors_take_output(&i->shared, m->region, m->offset,
                                                               m->byte_size, &choice->span));
}

// Copies count like the body, but for those that the exchange's own memory holds.
static void *note_copy(exchange *x, inference *i, const shared_span *span)
{
  if (span->byte_size >= EXCHANGE_ARENA_BYTES &&
      exchange_fail_if_body(x, body_reserve_work(&x->body, span->byte_size)))
    return NULL;
  void *memory = shared_tensors_copy(&i->shared, span, &x->arena);
  if (memory == NULL)
    exchange_fail(x, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory");
  return memory;
}

bool infer_add_shared_input(exchange *x, inference *i, const infer_json_input *input)
{
  const json_shared_memory *m = &input->shared_memory;
  const shared_span *span;
  bool copied;
  if (exchange_fail_if_error(x, shared_tensors_take_input(&i->shared, input->datatype, m->region,
                                                          m->offset, m->byte_size, &span, &copied)))
    return false;
  if (span->byte_size == 0)
    return true;
  const void *base = copied ? note_copy(x, i, span) : span->base;
  return base != NULL && !exchange_fail_if(x, TRITONSERVER_InferenceRequestAppendInputData(
                                                  i->request, input->name, base, span->byte_size,
                                                  span->memory_type, span->memory_type_id));
}

void infer_copy_shared(exchange *x)
{
  shared_tensors_make_copies(&x->inference->shared);
}

// What is read in place and what is copied is decided here, for all front ends.
#include "frontend/common/tensor/shared_tensors.h"

#include "base/blocks.h"

#include <string.h>

// The client can change a tensor while a model reads it. Lengths, indices, counts and masks are
// what models look at twice, first to check and then to use: of the types that can hold them the
// model gets a copy. The other ones hold pixels, samples and weights: a value that changes gives
// another answer, to that client.
static bool may_change(TRITONSERVER_DataType datatype)
{
  switch (datatype) {
  case TRITONSERVER_TYPE_UINT8:
  case TRITONSERVER_TYPE_UINT16:
  case TRITONSERVER_TYPE_INT8:
  case TRITONSERVER_TYPE_INT16:
  case TRITONSERVER_TYPE_FP16:
  case TRITONSERVER_TYPE_BF16:
  case TRITONSERVER_TYPE_FP32:
  case TRITONSERVER_TYPE_FP64:
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
static bool is_overwritten(const shared_tensors *t, const shared_span *input)
{
  for (size_t i = 0; i < t->output_count; i++)
    if (overlaps(&t->spans[i], input))
      return true;
  return false;
}

error *shared_tensors_init(shared_tensors *t, shared_memory *memory, size_t capacity, arena *a)
{
  *t = (shared_tensors){.memory = memory};
  if (capacity == 0)
    return NULL;
  t->spans = arena_allocate_array(a, capacity, sizeof(*t->spans));
  t->copies = arena_allocate_array(a, capacity, sizeof(*t->copies));
  return t->spans == NULL || t->copies == NULL ? error_no_memory() : NULL;
}

static error *take(shared_tensors *t, const char *region, uint64_t offset, uint64_t byte_size,
                   const shared_span **result)
{
  shared_span *span = &t->spans[t->span_count];
  RETURN_IF_ERROR(shared_memory_take(t->memory, region, offset, byte_size, span));
  t->span_count++;
  *result = span;
  return NULL;
}

error *shared_tensors_take_output(shared_tensors *t, const char *region, uint64_t offset,
                                  uint64_t byte_size, const shared_span **span)
{
  RETURN_IF_ERROR(take(t, region, offset, byte_size, span));
  t->output_count++;
  return NULL;
}

error *shared_tensors_take_input(shared_tensors *t, TRITONSERVER_DataType datatype,
                                 const char *region, uint64_t offset, uint64_t byte_size,
                                 const shared_span **span, bool *copied)
{
  RETURN_IF_ERROR(take(t, region, offset, byte_size, span));
  *copied = !may_change(datatype) || is_overwritten(t, *span);
  return NULL;
}

void *shared_tensors_copy(shared_tensors *t, const shared_span *span, arena *a)
{
  char *memory = arena_allocate(a, span->byte_size + BLOCK_ALIGNMENT);
  if (memory == NULL)
    return NULL;
  memory += (BLOCK_ALIGNMENT - (uintptr_t)memory % BLOCK_ALIGNMENT) % BLOCK_ALIGNMENT;
  t->copies[t->copy_count++] = (shared_copy){memory, span->base, span->byte_size};
  t->copy_bytes += span->byte_size;
  return memory;
}

void shared_tensors_make_copies(shared_tensors *t)
{
  for (size_t i = 0; i < t->copy_count; i++)
    memcpy(t->copies[i].to, t->copies[i].from, t->copies[i].size);
  t->copy_count = 0;
}

error *shared_tensors_check(const shared_tensors *t)
{
  for (size_t i = 0; i < t->span_count; i++)
    RETURN_IF_ERROR(shared_span_check(&t->spans[i]));
  return NULL;
}

void shared_tensors_release(shared_tensors *t)
{
  while (t->span_count > 0)
    shared_span_give_back(&t->spans[--t->span_count]);
}

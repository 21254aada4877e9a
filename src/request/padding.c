// SPDX-License-Identifier: Apache-2.0
// See padding.h. The client's inputs stay unchanged: the request gets a copy of its list of inputs
// in one block with the padded data, and its own list back at its release.
#include "request/padding.h"

#include "base/checked.h"
#include "request/padding_runs.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64 // of the data that backends read
// Limit for a request without data to pad, whose other dimensions cost its client nothing.
#define MOST_EMPTY_BYTES ((size_t)64 << 20)

// ---- inputs ----

typedef struct padded_inputs {
  given_inputs given; // must be first: request.c restores them
  size_t size;        // of this block
  request_input inputs[];
} padded_inputs;

static uint32_t batch_dims(const request *r)
{
  return r->target->signature.max_batch_size > 0;
}

static uint32_t padded_dim(const request *r, const request_input *input)
{
  return input->signature->padded->dim + batch_dims(r);
}

error *padding_measure(request *r)
{
  const padding_config *p = r->target->signature.padding;
  const request_input *first = NULL;
  for (uint32_t i = 0; i < r->input_count; i++) {
    const request_input *input = &r->inputs[i];
    if (p->length_name != NULL && slice_equal_text(input->name, p->length_name))
      return request_error(r, ERROR_INVALID_ARG,
                           "unexpected inference input '%s' for model '%s': the lengths are given "
                           "by the server, expected no such input",
                           input->name.data, r->target->name);
    if (input->signature->padded == NULL)
      continue;
    int64_t length = input->dims[padded_dim(r, input)];
    if (first == NULL)
      r->padding_length = length;
    else if (length != r->padding_length)
      return request_error(r, ERROR_INVALID_ARG,
                           "inputs '%s' and '%s' of model '%s' are padded together and have the "
                           "lengths %" PRId64 " and %" PRId64 ", expected the same",
                           first->name.data, input->name.data, r->target->name, r->padding_length,
                           length);
    first = first == NULL ? input : first;
  }
  if (first == NULL)
    r->padding_length = 0;
  if (p->length_name != NULL && !p->length_is_int64 && r->padding_length > INT32_MAX)
    return request_error(r, ERROR_INVALID_ARG,
                         "input '%s' of model '%s' has the length %" PRId64
                         ", which does not fit into the lengths' INT32",
                         first->name.data, r->target->name, r->padding_length);
  return NULL;
}

// A block laid out twice in the same order: first to count its size, then to take its parts.
typedef struct block {
  char *base; // NULL while counting
  size_t used;
  bool failed;
} block;

static void *take(block *b, size_t count, size_t size)
{
  size_t bytes, begin, end;
  if (!checked_add_size(b->used, ALIGNMENT - 1, &begin) ||
      !checked_multiply_size(count, size, &bytes) ||
      !checked_add_size(begin / ALIGNMENT * ALIGNMENT, bytes, &end) || end > PTRDIFF_MAX) {
    b->failed = true;
    return NULL;
  }
  b->used = end;
  return b->base != NULL ? b->base + begin / ALIGNMENT * ALIGNMENT : NULL;
}

static void pad_input(block *b, request_input *input, uint32_t dim, int64_t target,
                      const char *policy)
{
  padding_runs runs;
  const padded_tensor *padded = input->signature->padded;
  if (!padding_find_runs(input->dims, input->dim_count, dim, target, padded->element_size, &runs)) {
    b->failed = true;
    return;
  }
  int64_t *dims = take(b, input->dim_count, sizeof(*dims));
  input_segment *segment = take(b, 1, sizeof(*segment));
  char *data = take(b, runs.outer, runs.to);
  if (b->base == NULL)
    return;
  padding_fill(data, request_input_data(input, policy), &runs, padded->value, padded->element_size);
  memcpy(dims, input->dims, input->dim_count * sizeof(*dims));
  dims[dim] = target;
  *segment = (input_segment){.base = data, .size = runs.outer * runs.to};
  input->dims = dims;
  input->policies = NULL;
  input->data = (input_data){segment, segment->size > 0 ? 1 : 0, segment->size};
}

// Adds the input of lengths, one for each row.
static void add_lengths(block *b, request *r, request_input *input)
{
  const padding_config *p = r->target->signature.padding;
  const tensor_signature *t = signature_find_input(&r->target->signature, slice_of(p->length_name));
  uint32_t batched = batch_dims(r), own = t == NULL        ? 1
                                          : t->has_reshape ? t->reshape_count
                                                           : t->dim_count;
  size_t size = p->length_is_int64 ? sizeof(int64_t) : sizeof(int32_t), rows = request_rows(r);
  int64_t *dims = take(b, batched + own, sizeof(*dims));
  input_segment *segment = take(b, 1, sizeof(*segment));
  char *data = take(b, rows, size);
  if (b->base == NULL)
    return;
  for (uint32_t i = 0; i < batched + own; i++)
    dims[i] = i < batched ? (int64_t)rows : 1;
  for (size_t i = 0; i < rows; i++)
    memcpy(data + i * size, &r->padding_length, size); // little endian
  *segment = (input_segment){.base = data, .size = rows * size};
  *input = (request_input){
      .name = slice_of(p->length_name),
      .datatype = p->length_is_int64 ? TRITONSERVER_TYPE_INT64 : TRITONSERVER_TYPE_INT32,
      .given_dims = dims,
      .given_dim_count = batched + own,
      .dims = dims,
      .dim_count = batched + own,
      .data = {segment, 1, segment->size},
      .signature = t,
  };
}

// Counts or fills the whole block. Counting does not change the inputs.
static void lay_out(block *b, request *r, request_input *inputs, int64_t target, const char *policy)
{
  for (uint32_t i = 0; i < r->input_count; i++)
    if (inputs[i].signature != NULL && inputs[i].signature->padded != NULL &&
        target != r->padding_length)
      pad_input(b, &inputs[i], padded_dim(r, &inputs[i]), target, policy);
  if (r->target->signature.padding->length_name != NULL)
    add_lengths(b, r, &inputs[r->input_count]);
}

error *padding_apply(request *r, int64_t target, const char *policy)
{
  assert(r->given == NULL && target >= r->padding_length);
  if (target == r->padding_length && r->target->signature.padding->length_name == NULL)
    return NULL;
  uint32_t added = r->target->signature.padding->length_name != NULL;
  size_t head = sizeof(padded_inputs) + (r->input_count + added) * sizeof(request_input);
  block b = {.used = head};
  lay_out(&b, r, r->inputs, target, policy);
  if (r->padding_length == 0 && (b.failed || b.used - head > MOST_EMPTY_BYTES))
    return request_error(r, ERROR_INVALID_ARG,
                         "the inputs for model '%s' are empty and would take more than %zu bytes "
                         "when padded to a length of %" PRId64,
                         r->target->name, MOST_EMPTY_BYTES, target);
  padded_inputs *p =
      b.failed ? NULL : aligned_alloc(ALIGNMENT, (b.used + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
  if (p == NULL)
    return request_error(r, ERROR_UNAVAILABLE,
                         "failed to allocate memory to pad the inputs for model '%s' to a length "
                         "of %" PRId64,
                         r->target->name, target);
  *p = (padded_inputs){.given = {r->inputs, r->input_count}, .size = b.used};
  memcpy(p->inputs, r->inputs, r->input_count * sizeof(*p->inputs));
  b = (block){.base = (char *)p, .used = head};
  lay_out(&b, r, p->inputs, target, policy);
  assert(!b.failed && b.used == p->size);
  r->inputs = p->inputs;
  r->input_count += added;
  r->given = &p->given;
  r->factory->true_length = r->padding_length;
  r->factory->padded_length = target;
  return NULL;
}

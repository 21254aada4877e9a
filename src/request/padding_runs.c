// SPDX-License-Identifier: Apache-2.0
// See padding_runs.h.
#include "request/padding_runs.h"

#include "base/checked.h"

#include <string.h>

// ---- copying ----

// Reads bytes from consecutive segments.
typedef struct segment_reader {
  const input_segment *segment;
  size_t at;
} segment_reader;

static void read_bytes(segment_reader *reader, char *target, size_t size)
{
  while (size > 0) {
    size_t left = reader->segment->size - reader->at;
    size_t part = size < left ? size : left;
    memcpy(target, (const char *)reader->segment->base + reader->at, part);
    target += part;
    size -= part;
    reader->at += part;
    if (reader->at == reader->segment->size)
      *reader = (segment_reader){reader->segment + 1, 0};
  }
}

static void put_value(char *target, size_t size, const unsigned char *value, size_t element_size)
{
  static const unsigned char zeroes[PADDING_ELEMENT_BYTES];
  if (size == 0 || memcmp(value, zeroes, element_size) == 0) {
    memset(target, 0, size);
    return;
  }
  size_t done = element_size; // at least one fits
  memcpy(target, value, element_size);
  for (; done <= size / 2; done *= 2)
    memcpy(target + done, target, done);
  memcpy(target + done, target, size - done);
}

void padding_fill(char *target, const input_data *source, const padding_runs *runs,
                  const unsigned char *value, size_t element_size)
{
  segment_reader reader = {source->segments, 0};
  for (size_t i = 0; i < runs->outer; i++, target += runs->to) {
    read_bytes(&reader, target, runs->from);
    put_value(target + runs->from, runs->to - runs->from, value, element_size);
  }
}

void padding_cut(char *target, const char *source, const padding_runs *runs)
{
  for (size_t i = 0; i < runs->outer && runs->to > 0; i++) // for 0 bytes there may be no buffer
    memcpy(target + i * runs->to, source + i * runs->from, runs->to);
}

bool padding_find_runs(const int64_t *dims, uint32_t count, uint32_t dim, int64_t to,
                       size_t element_size, padding_runs *runs)
{
  int64_t outer, inner;
  size_t step, total;
  return shape_element_count(dims, dim, &outer) &&
         shape_element_count(dims + dim + 1, count - dim - 1, &inner) &&
         checked_multiply_size((size_t)inner, element_size, &step) &&
         checked_multiply_size(step, (size_t)dims[dim], &runs->from) &&
         checked_multiply_size(step, (size_t)to, &runs->to) &&
         checked_multiply_size(runs->from > runs->to ? runs->from : runs->to, (size_t)outer,
                               &total) &&
         (runs->outer = (size_t)outer, true);
}

// ---- outputs ----

static uint32_t output_dim(const response_output *output, const padded_tensor *padded)
{
  return padded->dim + (output->response->factory->target->signature.max_batch_size > 0);
}

void padding_cut_dims(response_output *output)
{
  const response_factory *f = output->response->factory;
  const tensor_signature *t = signature_find_output(&f->target->signature, output->name);
  uint32_t dim = output_dim(output, t->padded);
  if (f->padded_length == f->true_length || dim >= output->dim_count ||
      output->dims[dim] != f->padded_length)
    return;
  output->dims[dim] = f->true_length;
  output->cut = t->padded;
}

bool padding_output_runs(const response_output *output, padding_runs *runs)
{
  const response_factory *f = output->response->factory;
  uint32_t dim = output_dim(output, output->cut);
  int64_t length = output->dims[dim];
  output->dims[dim] = f->padded_length;
  bool fits = padding_find_runs(output->dims, output->dim_count, dim, f->true_length,
                                datatype_byte_size(output->datatype), runs);
  output->dims[dim] = length;
  return fits && runs->outer * runs->from == output->scratch_size;
}

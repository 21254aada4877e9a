// SPDX-License-Identifier: Apache-2.0
// Variable shapes (docs/variable_shapes.md), the arithmetic: tensors that become longer or shorter
// in one dimension. Pure functions; whoever has the request or the response.
#ifndef NEREID_REQUEST_PADDING_RUNS_H
#define NEREID_REQUEST_PADDING_RUNS_H

#include "request/request.h"

// `outer` runs of `from` bytes become runs of `to` bytes.
typedef struct padding_runs {
  size_t outer, from, to;
} padding_runs;

// How a tensor of these dims changes where `dim` becomes `to`. False: more bytes than fit.
bool padding_find_runs(const int64_t *dims, uint32_t count, uint32_t dim, int64_t to,
                       size_t element_size, padding_runs *runs);

// What is added is `value`, of `element_size` bytes, over and over.
void padding_fill(char *target, const input_data *source, const padding_runs *runs,
                  const unsigned char *value, size_t element_size);
void padding_cut(char *target, const char *source, const padding_runs *runs);

// Takes the padding off the dims of an output that has some, and sets output->cut.
void padding_cut_dims(response_output *output);
// How its data is to be cut. False: the backend wrote another size than its dims say.
bool padding_output_runs(const response_output *output, padding_runs *runs);

#endif

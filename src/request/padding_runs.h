// SPDX-License-Identifier: Apache-2.0
// The arithmetic of variable shapes (docs/variable_shapes.md): makes tensors longer or shorter in
// one dimension. Pure functions, for the owner of the request or the response.
#ifndef NEREID_REQUEST_PADDING_RUNS_H
#define NEREID_REQUEST_PADDING_RUNS_H

#include "request/request.h"

// `outer` runs of `from` bytes become runs of `to` bytes.
typedef struct padding_runs {
  size_t outer, from, to;
} padding_runs;

// The runs by which a tensor of these dims changes if `dim` becomes `to`. False when the bytes
// overflow.
bool padding_find_runs(const int64_t *dims, uint32_t count, uint32_t dim, int64_t to,
                       size_t element_size, padding_runs *runs);

// Fills the added space with copies of `value`, of `element_size` bytes.
void padding_fill(char *target, const input_data *source, const padding_runs *runs,
                  const unsigned char *value, size_t element_size);
void padding_cut(char *target, const char *source, const padding_runs *runs);

// Takes the padding off the dims of a padded output, and sets output->cut.
void padding_cut_dims(response_output *output);
// The runs by which its data is cut. False when the backend wrote another size than its dims give.
bool padding_output_runs(const response_output *output, padding_runs *runs);

#endif

// SPDX-License-Identifier: Apache-2.0
// What the model parameters of variable shapes say (docs/variable_shapes.md): which inputs are
// padded, to what, and which outputs are cut back. Read at load; immutable then.
#ifndef NEREID_CONFIG_PADDING_CONFIG_H
#define NEREID_CONFIG_PADDING_CONFIG_H

#include "base/error.h"
#include "config/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PADDING_ELEMENT_BYTES 8 // of the largest type

typedef enum padding_rule {
  PADDING_LONGEST,  // of the batch
  PADDING_MULTIPLE, // of sizes[0], from the longest of the batch on
  PADDING_BUCKETS,  // the least of `sizes` that is enough; requests share a batch within one
} padding_rule;

typedef struct padded_tensor {
  size_t index; // in the configuration's list
  uint32_t dim; // without the batch dimension
  uint32_t element_size;
  unsigned char value[PADDING_ELEMENT_BYTES]; // of an input: one element of what is added
} padded_tensor;

typedef struct padding_config {
  padded_tensor *inputs;
  size_t input_count;
  padded_tensor *outputs;
  size_t output_count;
  padding_rule rule;
  int64_t *sizes; // positive, ascending
  size_t size_count;
  char *length_name;   // of the input that has the lengths; NULL: none
  size_t length_input; // in the configuration's list; SIZE_MAX: not there
  bool length_is_int64;
} padding_config;

// *result is NULL where the parameters are not there. INVALID_ARG names the parameter, which
// *parameter points to, its value and what was expected; UNAVAILABLE when memory is short.
error *padding_config_read(const Inference__ModelConfig *config, padding_config **result,
                           const char **parameter);
void padding_config_free(padding_config *p); // NULL is allowed

// What one of `longest` is padded to, at least `longest`: what is beyond all sizes stays as it is.
int64_t padding_target(const padding_config *p, int64_t longest);
// What must be equal for two lengths to share a batch.
int64_t padding_key(const padding_config *p, int64_t length);

#endif

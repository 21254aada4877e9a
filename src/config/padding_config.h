// SPDX-License-Identifier: Apache-2.0
// The model parameters of variable shapes (docs/variable_shapes.md): which inputs are padded, to
// which length, and which outputs are cut back. Read at load; then immutable.
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
  PADDING_BUCKETS,  // the smallest sufficient one of `sizes`; a batch stays within one
} padding_rule;

typedef struct padded_tensor {
  size_t index; // in the configuration's list
  uint32_t dim; // without the batch dimension
  uint32_t element_size;
  unsigned char value[PADDING_ELEMENT_BYTES]; // for inputs: the element that is added
} padded_tensor;

typedef struct padding_config {
  padded_tensor *inputs;
  size_t input_count;
  padded_tensor *outputs;
  size_t output_count;
  padding_rule rule;
  int64_t *sizes; // positive, ascending
  size_t size_count;
  char *length_name;   // of the input that receives the lengths; NULL: none
  size_t length_input; // in the configuration's list; SIZE_MAX: not there
  bool length_is_int64;
} padding_config;

// *result is NULL without these parameters. INVALID_ARG names the parameter (to which *parameter
// points), its value and the expectation; UNAVAILABLE when memory is short.
error *padding_config_read(const Inference__ModelConfig *config, padding_config **result,
                           const char **parameter);
void padding_config_free(padding_config *p); // NULL is allowed

// The padded length for a batch whose longest request has `longest`; `longest` itself if it exceeds
// all sizes.
int64_t padding_target(const padding_config *p, int64_t longest);
// Two lengths share a batch only if their keys are equal.
int64_t padding_key(const padding_config *p, int64_t length);

#endif

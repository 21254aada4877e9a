// SPDX-License-Identifier: Apache-2.0
// Maps the names in a configuration to a model's arguments and results by Triton's naming
// conventions. Load threads.
#ifndef NEREID_TORCH_NAMES_H
#define NEREID_TORCH_NAMES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

// The model's names of its arguments or results.
typedef struct torch_known {
  json_t *names; // array of texts; empty: unknown
  size_t count;  // number of arguments or results
  bool counted;  // `count` is known
  bool any;      // every name is right: entries of one dictionary
  bool mixed;    // names and <name>__<index> may be mixed
} torch_known;

typedef enum torch_convention {
  TORCH_BY_NAME,
  TORCH_BY_INDEX, // <name>__<index>
  TORCH_BY_ORDER, // the order of the configuration
} torch_convention;

// The number after the first "__"; false when anything else follows.
bool torch_index_of(const char *name, size_t *index);

// The convention that all `names` (array of texts) follow. *culprit: the name that led to
// TORCH_BY_ORDER.
torch_convention torch_convention_of(const json_t *names, const torch_known *known,
                                     const char **culprit);

// The position of `name`, the `order`-th, among the arguments or results; false: none.
bool torch_position_of(torch_convention convention, const char *name, const torch_known *known,
                       size_t order, size_t *position);

// The names in a call specification, which PyTorch prints as JSON: "ARGS[0]", "KWARGS[scale]",
// "RESULT[sum][1]". An array of texts in the order of the tensors; NULL when it is not a
// specification.
json_t *torch_input_names(const char *specification);
json_t *torch_output_names(const char *specification);

#endif

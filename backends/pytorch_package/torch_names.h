// SPDX-License-Identifier: Apache-2.0
// Which of a model's arguments and results the names in its configuration mean: Triton's naming
// conventions. Load threads.
#ifndef NEREID_TORCH_NAMES_H
#define NEREID_TORCH_NAMES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

// What a model calls its arguments or results.
typedef struct torch_known {
  json_t *names; // array of texts; empty: it gives no names
  size_t count;  // how many there are
  bool counted;  // `count` is known
  bool any;      // all names are right: entries of one dictionary
  bool mixed;    // names and <name>__<index> may stand side by side
} torch_known;

typedef enum torch_convention {
  TORCH_BY_NAME,
  TORCH_BY_INDEX, // <name>__<index>
  TORCH_BY_ORDER, // of the configuration
} torch_convention;

// The number behind the first "__"; false when something else is there.
bool torch_index_of(const char *name, size_t *index);

// The convention that all `names` (array of texts) follow. *culprit: the one that is the reason for
// TORCH_BY_ORDER.
torch_convention torch_convention_of(const json_t *names, const torch_known *known,
                                     const char **culprit);

// Where `name`, the `order`-th, is among the arguments or results; false: nowhere.
bool torch_position_of(torch_convention convention, const char *name, const torch_known *known,
                       size_t order, size_t *position);

// The names in a call specification, which PyTorch prints as JSON: "ARGS[0]", "KWARGS[scale]",
// "RESULT[sum][1]". An array of texts in the order of the tensors; NULL when it is none.
json_t *torch_input_names(const char *specification);
json_t *torch_output_names(const char *specification);

#endif

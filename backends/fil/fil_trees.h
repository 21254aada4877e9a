// SPDX-License-Identifier: Apache-2.0
// What a damaged file may hold although treelite has read it, found before it can do harm: treelite
// itself follows nodes and features without a check. Load threads.
#ifndef NEREID_FIL_TREES_H
#define NEREID_FIL_TREES_H

#include "treelite.h"

// What the model as a whole says.
typedef struct fil_shape {
  size_t trees;
  int32_t features;
  int32_t classes; // values of a row's prediction, 1 for regressors and most binary classifiers
  bool is_classifier;
  bool has_vectors; // leaves are vectors, of `classes` values
} fil_shape;

// Reads the shape and walks through all trees. The error says what is wrong with the model.
TRITONSERVER_Error *fil_trees_check(const treelite *t, treelite_model *model, fil_shape *shape);

#endif

// SPDX-License-Identifier: Apache-2.0
// Finds damage that treelite reads without noticing: it follows nodes and features without a check.
// Load threads.
#ifndef NEREID_FIL_TREES_H
#define NEREID_FIL_TREES_H

#include "treelite.h"

// Facts about the whole model.
typedef struct fil_shape {
  size_t trees;
  int32_t features;
  int32_t classes; // values of a row's prediction; 1 for regressors and most binary classifiers
  bool is_classifier;
  bool has_vectors; // leaves are vectors, of `classes` values
} fil_shape;

// Reads the shape and walks through all trees. The error describes the damage.
TRITONSERVER_Error *fil_trees_check(const treelite *t, treelite_model *model, fil_shape *shape);

#endif

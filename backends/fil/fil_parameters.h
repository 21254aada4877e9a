// SPDX-License-Identifier: Apache-2.0
// A model's parameters for the fil backend. Names, defaults and texts are Triton's; docs/fil.md has
// them as a table. Load threads.
#ifndef NEREID_FIL_PARAMETERS_H
#define NEREID_FIL_PARAMETERS_H

#include "framework.h"

typedef enum fil_format {
  FIL_XGBOOST, // the binary format of before 3.1
  FIL_XGBOOST_JSON,
  FIL_XGBOOST_UBJ,
  FIL_LIGHTGBM,
  FIL_TREELITE,
  FIL_FORMATS, // their count, or none of them
} fil_format;

typedef struct fil_parameters {
  fil_format format;
  bool has_format;     // otherwise the files in the version's directory decide
  bool has_classifier; // otherwise the model decides
  bool is_classifier;
  bool predict_proba;
  bool allow_unknown_field;
  float threshold;
  int threads; // limited to what the process may use
} fil_parameters;

// As in parameter `model_type`.
extern const char *const fil_format_names[FIL_FORMATS];

// The default file of each format.
extern const char *const fil_file_names[FIL_FORMATS];

TRITONSERVER_Error *fil_parameters_read(const framework_model *model, fil_parameters *parameters);

#endif

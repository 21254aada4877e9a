// SPDX-License-Identifier: Apache-2.0
// The parameters of a model for the fil backend: names, defaults and texts are Triton's, which
// docs/fil.md has as a table. Load threads.
#ifndef NEREID_FIL_PARAMETERS_H
#define NEREID_FIL_PARAMETERS_H

#include "framework.h"

typedef enum fil_format {
  FIL_XGBOOST, // the binary format of before 3.1
  FIL_XGBOOST_JSON,
  FIL_XGBOOST_UBJ,
  FIL_LIGHTGBM,
  FIL_TREELITE,
  FIL_FORMATS, // how many, or none of them
} fil_format;

typedef struct fil_parameters {
  fil_format format;
  bool has_format;     // else the version's directory says by its files
  bool has_classifier; // else the model says
  bool is_classifier;
  bool predict_proba;
  bool allow_unknown_field;
  float threshold;
  int threads; // at most as many as the process may use
} fil_parameters;

// As parameter `model_type` has them.
extern const char *const fil_format_names[FIL_FORMATS];

// The file of each format, unless the configuration names one.
extern const char *const fil_file_names[FIL_FORMATS];

TRITONSERVER_Error *fil_parameters_read(const framework_model *model, fil_parameters *parameters);

#endif

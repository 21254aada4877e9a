// SPDX-License-Identifier: Apache-2.0
// Reads a model's parameters.
#include "fil_parameters.h"

#include "backend_error.h"
#include "backend_log.h"
#include "base/machine.h"

#include <string.h>

#define DEFAULT_THRESHOLD 0.5f

const char *const fil_format_names[FIL_FORMATS] = {
    [FIL_XGBOOST] = "xgboost",
    [FIL_XGBOOST_JSON] = "xgboost_json",
    [FIL_XGBOOST_UBJ] = "xgboost_ubj",
    [FIL_LIGHTGBM] = "lightgbm",
    [FIL_TREELITE] = "treelite_checkpoint",
};

const char *const fil_file_names[FIL_FORMATS] = {
    [FIL_XGBOOST] = "xgboost.model",   [FIL_XGBOOST_JSON] = "xgboost.json",
    [FIL_XGBOOST_UBJ] = "xgboost.ubj", [FIL_LIGHTGBM] = "model.txt",
    [FIL_TREELITE] = "checkpoint.tl",
};

// Warns about parameters of older versions, in Triton's words.
static void warn_of_removed(const framework_model *model)
{
  static const struct {
    const char *name;
    const char *instead;
  } removed[] = {{"algo", "layout"},
                 {"threads_per_tree", "chunk_size"},
                 {"output_class", "is_classifier"},
                 {"storage_type", NULL},
                 {"blocks_per_sm", NULL}};
  for (size_t i = 0; i < sizeof(removed) / sizeof(removed[0]); i++) {
    const char *value = backend_parameter(model->config, removed[i].name);
    if (value == NULL || *value == '\0')
      continue;
    BACKEND_LOG_WARN("model '%s': The `%s` parameter has been removed in 25.09 release.%s%s%s",
                     model->name, removed[i].name, removed[i].instead != NULL ? " Use `" : "",
                     removed[i].instead != NULL ? removed[i].instead : "",
                     removed[i].instead != NULL ? "` instead." : "");
  }
}

// As in Triton, only these two words are valid. Without the parameter *value is unchanged.
static TRITONSERVER_Error *read_bool(const framework_model *model, const char *name, bool *value)
{
  const char *text = backend_parameter(model->config, name);
  if (text == NULL)
    return NULL;
  *value = strcmp(text, "true") == 0;
  return *value || strcmp(text, "false") == 0
             ? NULL
             : backend_error_invalid("Expected 'true' or 'false' for parameter '%s', got: '%s'",
                                     name, text);
}

static TRITONSERVER_Error *read_classifier(const framework_model *model, fil_parameters *p)
{
  const char *old = backend_parameter(model->config, "output_class");
  p->has_classifier = true;
  if (old != NULL && (strcmp(old, "true") == 0 || strcmp(old, "false") == 0)) {
    p->is_classifier = strcmp(old, "true") == 0;
    return NULL;
  }
  p->has_classifier = backend_parameter(model->config, "is_classifier") != NULL;
  return read_bool(model, "is_classifier", &p->is_classifier);
}

static TRITONSERVER_Error *read_format(const framework_model *model, fil_parameters *p)
{
  const char *text = backend_parameter(model->config, "model_type");
  if (text == NULL)
    return NULL;
  p->has_format = true;
  for (size_t i = 0; i < FIL_FORMATS; i++)
    if (strcmp(text, fil_format_names[i]) == 0) {
      p->format = (fil_format)i;
      return NULL;
    }
  return backend_error(TRITONSERVER_ERROR_UNSUPPORTED,
                       "%s not recognized as a valid serialization format.", text);
}

// As in Triton, a number at the beginning of the text counts, whatever follows.
static TRITONSERVER_Error *read_threshold(const framework_model *model, fil_parameters *p)
{
  const char *text = backend_parameter(model->config, "threshold"), *rest = NULL;
  double value = 0;
  p->threshold = DEFAULT_THRESHOLD;
  if (text == NULL)
    return NULL;
  if (!text_begins_double(text, &value, &rest) || rest == text)
    return backend_error_invalid("Bad input for parameter threshold");
  p->threshold = (float)value;
  return NULL;
}

// Anything but a number above 0 means all threads that the process may use.
static void read_threads(const framework_model *model, fil_parameters *p)
{
  const char *text = backend_parameter(model->config, "cpu_nthread"), *rest = NULL;
  int64_t given = -1;
  int most = (int)machine_cpus();
  if (text != NULL && (!text_begins_int64(text, &given, &rest) || rest == text)) {
    BACKEND_LOG_WARN("model '%s': parameter 'cpu_nthread' is no number ('%s'), and has no effect",
                     model->name, text);
    given = -1;
  }
  p->threads = given > 0 && given < most ? (int)given : most;
}

TRITONSERVER_Error *fil_parameters_read(const framework_model *model, fil_parameters *p)
{
  bool experimental = false;
  *p = (fil_parameters){.format = FIL_XGBOOST};
  warn_of_removed(model);
  BACKEND_RETURN_IF_ERROR(read_bool(model, "predict_proba", &p->predict_proba));
  BACKEND_RETURN_IF_ERROR(read_format(model, p));
  BACKEND_RETURN_IF_ERROR(read_bool(model, "xgboost_allow_unknown_field", &p->allow_unknown_field));
  BACKEND_RETURN_IF_ERROR(read_classifier(model, p));
  BACKEND_RETURN_IF_ERROR(read_threshold(model, p));
  BACKEND_RETURN_IF_ERROR(read_bool(model, "use_experimental_optimizations", &experimental));
  read_threads(model, p);
  if (experimental)
    BACKEND_LOG_WARN("model '%s': parameter 'use_experimental_optimizations' has no effect",
                     model->name);
  return NULL;
}

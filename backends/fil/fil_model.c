// SPDX-License-Identifier: Apache-2.0
// The model's file, its signature, and its configured output.
#include "fil_model.h"
#include "fil_checkpoint.h"

#include "backend_error.h"
#include "backend_file.h"
#include "backend_log.h"
#include "base/cleanup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INPUT  "input__0"
#define OUTPUT "output__0"

// ---- the file ----

static TRITONSERVER_Error *try_file(const framework_model *model, const char *name, char **path,
                                    int *file)
{
  free(*path);
  *path = NULL;
  BACKEND_RETURN_IF_ERROR(backend_version_path(model->model, name, path));
  return backend_open_file(model->model, *path, file);
}

// Opens the configured file, else the file of the model's type. Without a type it is Triton's
// default, or any that exists.
static TRITONSERVER_Error *open_file(const framework_model *model, fil_parameters *p, char **path,
                                     int *file)
{
  const char *named = backend_json_text(model->config, "default_model_filename");
  TRITONSERVER_Error *error =
      try_file(model, *named != '\0' ? named : fil_file_names[p->format], path, file);
  for (int i = 0; i < FIL_FORMATS && error != NULL && !p->has_format && *named == '\0'; i++) {
    TRITONSERVER_Error *other = try_file(model, fil_file_names[i], path, file);
    if (other == NULL) {
      TRITONSERVER_ErrorDelete(error);
      p->format = (fil_format)i;
      return NULL;
    }
    TRITONSERVER_ErrorDelete(other);
  }
  return error;
}

static int parse(const treelite *t, const fil_parameters *p, const char *path,
                 treelite_model **trees)
{
  const char *config =
      p->allow_unknown_field ? "{\"allow_unknown_field\":true}" : "{\"allow_unknown_field\":false}";
  switch (p->format) {
  case FIL_XGBOOST:
    return t->LoadXGBoostModelLegacyBinary(path, "{}", trees);
  case FIL_XGBOOST_JSON:
    return t->LoadXGBoostModelJSON(path, config, trees);
  case FIL_XGBOOST_UBJ:
    return t->LoadXGBoostModelUBJSON(path, config, trees);
  case FIL_LIGHTGBM:
    return t->LoadLightGBMModel(path, "{}", trees);
  case FIL_TREELITE:
  case FIL_FORMATS:
    break;
  }
  return t->DeserializeModelFromFile(path, trees);
}

// The type of a file by its first bytes; FIL_FORMATS: unknown.
static fil_format looks_like(const unsigned char *head, size_t size)
{
  static const unsigned char checkpoint[] = {0, 0, 0}; // of the small number at its beginning
  if (size >= 5 && memcmp(head, "tree", 4) == 0 && (head[4] == '\n' || head[4] == '\r'))
    return FIL_LIGHTGBM;
  if (size >= 2 && head[0] == '{')
    return strchr(" \t\r\n\"}", head[1]) != NULL ? FIL_XGBOOST_JSON : FIL_XGBOOST_UBJ;
  if (size >= 12 && head[0] >= 3 && head[0] < 10 && memcmp(head + 1, checkpoint, 3) == 0 &&
      memcmp(head + 5, checkpoint, 3) == 0 && memcmp(head + 9, checkpoint, 3) == 0)
    return FIL_TREELITE;
  return FIL_FORMATS;
}

// treelite may read sizes without end from a file of another type.
static TRITONSERVER_Error *check_type(const framework_model *model, const char *path, int file)
{
  unsigned char head[12] = {0};
  const fil_format wanted = fil_model_of(model)->parameters.format;
  const ssize_t size = pread(file, head, sizeof(head), 0);
  const fil_format found = looks_like(head, size > 0 ? (size_t)size : 0);
  if (found == wanted || found == FIL_FORMATS)
    return NULL;
  return backend_error_invalid("failed to load model '%s' from '%s': the file looks like '%s', "
                               "parameter 'model_type' says '%s'",
                               model->name, path, fil_format_names[found],
                               fil_format_names[wanted]);
}

// The bytes of a LightGBM file's trees, by its line tree_sizes.
static uint64_t tree_bytes(const char *line)
{
  uint64_t sum = 0;
  int64_t size;
  const char *at = line + strlen("tree_sizes=");
  while (text_begins_int64(at, &size, &at) && size >= 0)
    sum += (uint64_t)size;
  return sum;
}

// treelite silently reads a truncated LightGBM file, with fewer trees or digits. The line
// tree_sizes before the trees gives their size.
static bool is_cut_off(int file)
{
  int copy = dup(file);
  FILE *stream = copy < 0 ? NULL : fdopen(copy, "re");
  char *line AUTO_FREE = NULL;
  size_t capacity = 0;
  uint64_t needed = 0, trees_at = 0;
  ssize_t length;
  struct stat status;
  if (stream == NULL) {
    if (copy >= 0)
      close(copy);
    return false;
  }
  while ((length = getline(&line, &capacity, stream)) > 0 && strncmp(line, "Tree=", 5) != 0) {
    trees_at += (uint64_t)length;
    if (strncmp(line, "tree_sizes=", strlen("tree_sizes=")) == 0)
      needed = tree_bytes(line);
  }
  const bool known = fstat(file, &status) == 0;
  fclose(stream);
  return known && trees_at + needed > (uint64_t)status.st_size;
}

// Checks truncation that treelite does not notice.
static TRITONSERVER_Error *check_size(const framework_model *model, int file)
{
  const fil_format format = fil_model_of(model)->parameters.format;
  if (format == FIL_LIGHTGBM && is_cut_off(file))
    return backend_error_invalid("the file is cut off");
  return format == FIL_TREELITE ? fil_checkpoint_check(file) : NULL;
}

// treelite reads the open file by its descriptor, so that no other file can take its name.
static TRITONSERVER_Error *read_trees(framework_model *model, int file)
{
  const treelite *t = treelite_of(model);
  fil_model *self = fil_model_of(model);
  char opened[64];
  snprintf(opened, sizeof(opened), "/proc/self/fd/%d", file);
  treelite_listen_begin(t);
  const bool failed = parse(t, &self->parameters, opened, &self->trees) != 0;
  char *last AUTO_FREE = treelite_listen_end();
  if (failed) {
    char *reason AUTO_FREE = treelite_reason(t, last);
    self->trees = NULL;
    return backend_error_invalid("%s", reason != NULL ? reason : "out of memory");
  }
  return fil_trees_check(t, self->trees, &self->shape);
}

static TRITONSERVER_Error *read_file(framework_model *model)
{
  char *path AUTO_FREE = NULL;
  int file AUTO_CLOSE = -1;
  BACKEND_RETURN_IF_ERROR(open_file(model, &fil_model_of(model)->parameters, &path, &file));
  BACKEND_RETURN_IF_ERROR(check_type(model, path, file));
  TRITONSERVER_Error *wrong = check_size(model, file);
  if (wrong == NULL)
    wrong = read_trees(model, file);
  if (wrong == NULL)
    return NULL;
  TRITONSERVER_Error *error =
      backend_error(TRITONSERVER_ErrorCode(wrong), "failed to load model '%s' from '%s': %s",
                    model->name, path, TRITONSERVER_ErrorMessage(wrong));
  TRITONSERVER_ErrorDelete(wrong);
  return error;
}

// ---- predictions ----

// A classifier that must give probabilities makes them even if its objective gives the class, or
// sums of leaves. Models with probabilities of their own keep them.
static TRITONSERVER_Error *set_postprocessor(const framework_model *model)
{
  const treelite *t = treelite_of(model);
  const fil_model *self = fil_model_of(model);
  const char *name = self->shape.has_vectors ? "identity_multiclass" : "softmax";
  treelite_field field = {0};
  if (!self->parameters.predict_proba || self->shape.classes == 1 ||
      t->GetHeaderField(self->trees, "postprocessor", &field) != 0)
    return NULL;
  const size_t length = field.count * field.item_size;
  bool is_none = false;
  static const char *const none[] = {"max_index", "identity_multiclass"};
  for (size_t i = 0; i < 2; i++)
    is_none |= length == strlen(none[i]) && memcmp(field.data, none[i], length) == 0;
  if (!is_none)
    return NULL;
  const treelite_field wanted = {(void *)name, (char *)"=c", 1, strlen(name)};
  return t->SetHeaderField(self->trees, "postprocessor", wanted) == 0
             ? NULL
             : backend_error_internal("treelite: %s", t->GetLastError());
}

static TRITONSERVER_Error *make_gtil(const framework_model *model, int threads,
                                     treelite_gtil **gtil)
{
  const treelite *t = treelite_of(model);
  char config[64];
  snprintf(config, sizeof(config), "{\"predict_type\":\"default\",\"nthread\":%d}", threads);
  return t->GTILParseConfig(config, gtil) == 0
             ? NULL
             : backend_error_internal("treelite: %s", t->GetLastError());
}

// ---- the signature ----

// The configured number of values in an output row; 0: not configured, or any.
static TRITONSERVER_Error *configured_columns(const framework_model *model, size_t *columns)
{
  backend_tensor_config *outputs = NULL;
  size_t count = 0;
  const size_t first = model->max_batch_size > 0 ? 0 : 1; // skips the rows of the whole tensor
  *columns = 0;
  BACKEND_RETURN_IF_ERROR(backend_tensor_configs(model->config, "output", &outputs, &count));
  for (size_t i = 0; i < count; i++) {
    const backend_shape *dims = &outputs[i].model_dims;
    if (strcmp(outputs[i].name, OUTPUT) != 0)
      continue;
    *columns = dims->rank < first ? 1 : 0;
    if (dims->rank >= first &&
        !backend_element_count(dims->dims + first, dims->rank - first, columns))
      *columns = 0;
  }
  free(outputs);
  return NULL;
}

// One value is the class, or a regressor's prediction. Otherwise one per class; a classifier with
// one probability can add that of the other class.
static TRITONSERVER_Error *choose_columns(framework_model *model)
{
  fil_model *self = fil_model_of(model);
  const fil_parameters *p = &self->parameters;
  const bool is_label = p->is_classifier && !p->predict_proba;
  size_t wanted = 0;
  BACKEND_RETURN_IF_ERROR(configured_columns(model, &wanted));
  self->columns = is_label ? 1 : self->shape.classes;
  if (wanted == 2 && p->is_classifier && p->predict_proba && self->shape.classes == 1)
    self->columns = 2;
  if (wanted == 0 || wanted == (size_t)self->columns)
    return NULL;
  return backend_error_invalid(
      "unable to load model '%s', configuration expects %zu values of '" OUTPUT
      "' for each row, model provides %d%s",
      model->name, wanted, self->columns,
      is_label ? ", the class: parameter 'predict_proba' is not 'true'" : "");
}

static TRITONSERVER_Error *make_tensor(framework_tensors *tensors, const char *name,
                                       int64_t columns)
{
  tensors->list = calloc(1, sizeof(*tensors->list));
  if (tensors->list == NULL)
    return backend_error_no_memory("the model's tensors");
  tensors->count = 1;
  tensors->list[0] = (framework_tensor){
      .name = strdup(name),
      .datatype = TRITONSERVER_TYPE_FP32,
      .shape = {.rank = 2, .dims = {-1, columns}},
  };
  return tensors->list[0].name == NULL ? backend_error_no_memory("the model's tensors") : NULL;
}

static TRITONSERVER_Error *refuse_treeshap(const framework_model *model)
{
  const json_t *outputs = json_object_get(model->config, "output");
  for (size_t i = 0; i < json_array_size(outputs); i++)
    if (strcmp(backend_json_text(json_array_get(outputs, i), "name"), "treeshap_output") == 0)
      return backend_error(TRITONSERVER_ERROR_UNSUPPORTED,
                           "unable to load model '%s': output 'treeshap_output' is not supported, "
                           "treelite computes no Shapley values",
                           model->name);
  return NULL;
}

TRITONSERVER_Error *fil_model_load(framework_model *model)
{
  fil_model *self = calloc(1, sizeof(*self));
  model->state = self;
  if (self == NULL)
    return backend_error_no_memory("the model");
  fil_parameters *p = &self->parameters;
  BACKEND_RETURN_IF_ERROR(fil_parameters_read(model, p));
  BACKEND_RETURN_IF_ERROR(refuse_treeshap(model));
  BACKEND_RETURN_IF_ERROR(read_file(model));
  if (!p->has_classifier) {
    p->is_classifier = self->shape.is_classifier;
    BACKEND_LOG_WARN("model '%s': parameter 'is_classifier' is not given: the model's file says %s",
                     model->name, p->is_classifier ? "true" : "false");
  }
  BACKEND_RETURN_IF_ERROR(choose_columns(model));
  BACKEND_RETURN_IF_ERROR(make_tensor(&model->signature.inputs, INPUT, self->shape.features));
  return make_tensor(&model->signature.outputs, OUTPUT, self->columns);
}

// Triton does not complete such models.
TRITONSERVER_Error *fil_model_complete(framework_model *model, bool *changed)
{
  const bool has_inputs = json_array_size(json_object_get(model->config, "input")) > 0;
  const bool has_outputs = json_array_size(json_object_get(model->config, "output")) > 0;
  if (has_inputs && has_outputs)
    return NULL;
  if (!has_inputs && !has_outputs)
    BACKEND_RETURN_IF_ERROR(framework_complete_batching(model, changed));
  if (!has_inputs)
    BACKEND_RETURN_IF_ERROR(
        framework_complete_tensors(model, "input", &model->signature.inputs, changed));
  return has_outputs
             ? NULL
             : framework_complete_tensors(model, "output", &model->signature.outputs, changed);
}

TRITONSERVER_Error *fil_model_prepare(framework_model *model)
{
  fil_model *self = fil_model_of(model);
  BACKEND_RETURN_IF_ERROR(set_postprocessor(model));
  BACKEND_RETURN_IF_ERROR(make_gtil(model, 1, &self->alone));
  return make_gtil(model, self->parameters.threads, &self->together);
}

void fil_model_unload(framework_model *model)
{
  const treelite *t = treelite_of(model);
  fil_model *self = fil_model_of(model);
  if (self == NULL)
    return;
  if (self->alone != NULL)
    t->GTILDeleteConfig(self->alone);
  if (self->together != NULL)
    t->GTILDeleteConfig(self->together);
  if (self->trees != NULL)
    t->FreeModel(self->trees);
  free(self);
}

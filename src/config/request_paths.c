// SPDX-License-Identifier: Apache-2.0
// Paths in a configuration that came with a request. An operator's path may lead out of the model's
// directory, by a link or by ".."; a client's may not. Load threads.
#include "base/files.h"
#include "base/text.h"
#include "config/config.h"

#include <string.h>

#define WARMUP_FILE     INFERENCE__MODEL_WARMUP__INPUT__INPUT_DATA_TYPE_INPUT_DATA_FILE
#define ENVIRONMENT     "EXECUTION_ENV_PATH"
#define MODEL_DIRECTORY "$$TRITON_MODEL_DIRECTORY/"

static bool is_operators(const char *path, const char *own)
{
  return own != NULL && strcmp(path, own) == 0;
}

static error *refuse(const char *model, const char *field, const char *path)
{
  return error_new(
      ERROR_INVALID_ARG,
      "'%s' of model '%s' leads out of the model's directory: '%s'; a path like this is "
      "taken from the model's config.pbtxt only",
      field, model, path);
}

static error *check(const char *model, const char *field, const char *path, const char *own)
{
  if (path[0] == '\0' || files_stays_below(path) || is_operators(path, own))
    return NULL;
  return refuse(model, field, path);
}

static error *check_libraries(const Inference__ModelConfig *config,
                              const Inference__ModelConfig *own)
{
  static const Inference__ModelOperations none = {0};
  const Inference__ModelOperations *sent = config->model_operations, *mine = &none;
  if (own != NULL && own->model_operations != NULL)
    mine = own->model_operations;
  for (size_t i = 0; sent != NULL && i < sent->n_op_library_filename; i++) {
    const char *path = sent->op_library_filename[i], *found = NULL;
    for (size_t k = 0; k < mine->n_op_library_filename && found == NULL; k++)
      found = is_operators(path, mine->op_library_filename[k]) ? path : NULL;
    RETURN_IF_ERROR(check(config->name, "op_library_filename", path, found));
  }
  return NULL;
}

static error *check_labels(const Inference__ModelConfig *config, const Inference__ModelConfig *own)
{
  for (size_t i = 0; i < config->n_output; i++) {
    const char *path = config->output[i]->label_filename, *found = NULL;
    for (size_t k = 0; own != NULL && k < own->n_output && found == NULL; k++)
      found = is_operators(path, own->output[k]->label_filename) ? path : NULL;
    RETURN_IF_ERROR(check(config->name, "label_filename", path, found));
  }
  return NULL;
}

// A path of any of the operator's samples may be used in every sample.
static bool is_operators_sample(const char *path, const Inference__ModelConfig *own)
{
  for (size_t i = 0; own != NULL && i < own->n_model_warmup; i++)
    for (size_t k = 0; k < own->model_warmup[i]->n_inputs; k++) {
      const Inference__ModelWarmup__Input *input = own->model_warmup[i]->inputs[k]->value;
      if (input->input_data_type_case == WARMUP_FILE && strcmp(path, input->input_data_file) == 0)
        return true;
    }
  return false;
}

static error *check_samples(const Inference__ModelConfig *config, const Inference__ModelConfig *own)
{
  for (size_t i = 0; i < config->n_model_warmup; i++)
    for (size_t k = 0; k < config->model_warmup[i]->n_inputs; k++) {
      const Inference__ModelWarmup__Input *input = config->model_warmup[i]->inputs[k]->value;
      const char *path = input->input_data_type_case == WARMUP_FILE ? input->input_data_file : "";
      const char *found = is_operators_sample(path, own) ? path : NULL;
      RETURN_IF_ERROR(check(config->name, "input_data_file", path, found));
    }
  return NULL;
}

static error *check_environment(const Inference__ModelConfig *config,
                                const Inference__ModelConfig *own)
{
  const char *path = config_parameter(config, ENVIRONMENT);
  if (path == NULL || path[0] == '\0' ||
      is_operators(path, own == NULL ? NULL : config_parameter(own, ENVIRONMENT)))
    return NULL;
  if (text_starts_with(path, MODEL_DIRECTORY) && files_stays_below(path + strlen(MODEL_DIRECTORY)))
    return NULL;
  return refuse(config->name, ENVIRONMENT, path);
}

error *config_check_request_paths(const Inference__ModelConfig *config,
                                  const Inference__ModelConfig *own)
{
  RETURN_IF_ERROR(check(config->name, "default_model_filename", config->default_model_filename,
                        own == NULL ? NULL : own->default_model_filename));
  for (size_t i = 0; i < config->n_cc_model_filenames; i++)
    RETURN_IF_ERROR(
        check(config->name, "cc_model_filenames", config->cc_model_filenames[i]->value, NULL));
  RETURN_IF_ERROR(check_labels(config, own));
  RETURN_IF_ERROR(check_libraries(config, own));
  RETURN_IF_ERROR(check_samples(config, own));
  return check_environment(config, own);
}

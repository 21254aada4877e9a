// SPDX-License-Identifier: Apache-2.0
// Compares the code that a new configuration names with the code that the model runs now.
#include "frontend/common/policy/code_upload.h"

#include "base/buffer.h"
#include "base/text.h"
#include "config/config.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define AGENTS "model_repository_agents"

// Fields of the model configuration, and keys of its `parameters`, that choose which code runs.
static const char *const code_fields[] = {
    "backend",          "platform", "runtime",           "default_model_filename",
    "model_operations", AGENTS,     "cc_model_filenames"};
static const char *const code_parameters[] = {
    "EXECUTION_ENV_PATH", "TRITON_BATCH_STRATEGY_PATH", "onnxruntime_library", "openvino_library",
    "treelite_library",   "CPU_EXTENSION_PATH",         "CACHE_DIR",           "WEIGHTS_PATH"};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool is_empty(const json_t *value)
{
  return value == NULL || json_is_null(value) ||
         (json_is_string(value) && json_string_length(value) == 0) ||
         (json_is_object(value) && json_object_size(value) == 0) ||
         (json_is_array(value) && json_array_size(value) == 0);
}

// A configuration without the model's agents would load the model without their checks.
static bool leaves_out_agents(const json_t *config, const json_t *now)
{
  return !is_empty(json_object_get(now, AGENTS)) && is_empty(json_object_get(config, AGENTS));
}

// The field of `config` that names other code than `now` (NULL: the model is not loaded), or NULL.
static const char *other_field(const json_t *config, const json_t *now)
{
  for (size_t i = 0; i < COUNT(code_fields); i++) {
    const json_t *value = json_object_get(config, code_fields[i]);
    if (!is_empty(value) && !json_equal(value, json_object_get(now, code_fields[i])))
      return code_fields[i];
  }
  return leaves_out_agents(config, now) ? AGENTS : NULL;
}

// Can a text in `value` name a file of this machine? The parameters of foreign backends are unknown
// here, and libraries, programs and engines are files.
static bool names_file(const json_t *value)
{
  const char *key;
  size_t index;
  json_t *member;
  if (json_is_string(value))
    return strchr(json_string_value(value), '/') != NULL ||
           strstr(json_string_value(value), ".so") != NULL;
  json_object_foreach((json_t *)value, key, member) if (names_file(member)) return true;
  json_array_foreach(value, index, member) if (names_file(member)) return true;
  return false;
}

// As other_field, for the model's parameters.
static const char *other_parameter(json_t *config, const json_t *now)
{
  const json_t *parameters_now = json_object_get(now, "parameters");
  const char *name;
  json_t *value;
  json_object_foreach(json_object_get(config, "parameters"), name, value)
  {
    if (json_equal(value, json_object_get(parameters_now, name)))
      continue;
    for (size_t i = 0; i < COUNT(code_parameters); i++)
      if (strcmp(name, code_parameters[i]) == 0)
        return code_parameters[i];
    if (names_file(value))
      return "parameters";
  }
  return NULL;
}

// As other_field, for parameters of accelerators.
static const char *other_accelerator(json_t *config, const json_t *now)
{
  const json_t *optimization = json_object_get(config, "optimization");
  bool is_other =
      names_file(optimization) && !json_equal(optimization, json_object_get(now, "optimization"));
  return is_other ? "optimization" : NULL;
}

// The model's current configuration; NULL when it has none.
static json_t *config_now(TRITONSERVER_Server *server, const char *model)
{
  TRITONSERVER_Message *message = NULL;
  const char *text;
  size_t size;
  json_t *config = NULL;
  TRITONSERVER_Error *failure = TRITONSERVER_ServerModelConfig(server, model, -1, 1, &message);
  if (failure == NULL)
    failure = TRITONSERVER_MessageSerializeToJson(message, &text, &size);
  if (failure == NULL)
    config = json_loadb(text, size, 0, NULL);
  TRITONSERVER_ErrorDelete(failure);
  if (message != NULL)
    TRITONSERVER_ErrorDelete(TRITONSERVER_MessageDelete(message));
  return config;
}

// The configuration in a request, as the server will read it: printed anew, so that spellings
// compare equal.
static error *read_config(slice text, json_t **config)
{
  AUTO_CONFIG Inference__ModelConfig *read = NULL;
  AUTO_BUFFER buffer printed = BUFFER_EMPTY;
  error *e = config_read_json(text, &read);
  if (e != NULL)
    return error_wrap(e, "the content of load parameter 'config' is no configuration");
  RETURN_IF_ERROR(config_print_json(read, &printed));
  *config = json_loadb(printed.data, printed.size, 0, NULL);
  return *config != NULL ? NULL : error_no_memory();
}

// The field of the configuration that brings code; NULL when there is none.
static error *find_field(TRITONSERVER_Server *server, const char *model, slice config_text,
                         const char **field)
{
  json_t *config;
  RETURN_IF_ERROR(read_config(config_text, &config));
  json_t *now = config_now(server, model);
  *field = other_field(config, now);
  if (*field == NULL)
    *field = other_parameter(config, now);
  if (*field == NULL)
    *field = other_accelerator(config, now);
  json_decref(config);
  json_decref(now);
  return NULL;
}

error *code_upload_find(TRITONSERVER_Server *server, const char *model, const char *name,
                        slice value, char text[CODE_UPLOAD_TEXT_BYTES], const char **what)
{
  const char *field = NULL;
  *what = text_starts_with(name, "file:") ? "a file of a model" : NULL;
  if (strcmp(name, "config") != 0)
    return NULL;
  RETURN_IF_ERROR(find_field(server, model, value, &field));
  snprintf(text, CODE_UPLOAD_TEXT_BYTES,
           "a configuration that sets '%s' to what the model does not have now",
           field == NULL ? "" : field);
  *what = field == NULL ? NULL : text;
  return NULL;
}

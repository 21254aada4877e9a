// SPDX-License-Identifier: Apache-2.0
// Finds the backend of a model that names none, from the rest of its configuration and from its
// files. Called from load threads. The order of the rules is Triton's.
#include "base/cleanup.h"
#include "base/files.h"
#include "base/text.h"
#include "config/config.h"
#include "config/strings.h"

#include <stdio.h>

static bool is_set(const char *text)
{
  return text[0] != '\0';
}

static bool is(const char *text, const char *other)
{
  return other != NULL && strcmp(text, other) == 0;
}

// The model's directories that look like versions, in byte order as in Triton.
static error *list_versions(const file_root *model_dir, string_list *versions)
{
  string_list names = {0};
  error *e = files_list(model_dir, ".", &names);
  for (size_t i = 0; e == NULL && i < names.count; i++) {
    const char *name = names.items[i];
    file_kind kind;
    if (name[0] < '0' || name[0] > '9')
      continue;
    e = files_kind(model_dir, name, &kind);
    if (e == NULL && kind == FILE_FOLDER && !string_list_add(versions, name))
      e = error_no_memory();
  }
  string_list_fini(&names);
  return e;
}

static error *has_file(const backend_format *format, const file_root *model_dir,
                       string_list *versions, bool *found)
{
  *found = false;
  if (versions->count == 0)
    RETURN_IF_ERROR(list_versions(model_dir, versions));
  for (size_t i = 0; i < versions->count; i++) {
    char path[512];
    int length = snprintf(path, sizeof(path), "%s/%s", versions->items[i], format->file);
    if (length < 0 || (size_t)length >= sizeof(path))
      continue;
    file_kind kind;
    RETURN_IF_ERROR(files_kind(model_dir, path, &kind));
    if ((kind == FILE_REGULAR && format->kind != MODEL_FILE_DIRECTORY) ||
        (kind == FILE_FOLDER && format->kind != MODEL_FILE_REGULAR)) {
      *found = true;
      return NULL;
    }
  }
  return NULL;
}

// A configured file name decides the backend whatever the platform is, as in Triton; not for
// TensorFlow.
static bool is_named_file(const backend_format *format, const Inference__ModelConfig *config)
{
  return !config_is_ensemble(config) && is(config->default_model_filename, format->file) &&
         (format->platform == NULL || !format->platform_needs_file);
}

// Whether the model has this format: by the configured platform or file, by the backend where that
// is enough or, where nothing is configured, by an existing file.
static error *applies(const backend_traits *backend, const backend_format *format,
                      const Inference__ModelConfig *config, const file_root *model_dir,
                      string_list *versions, bool *result)
{
  *result = is_set(config->backend) ? is(config->backend, backend->name) : !format->needs_backend;
  if (!*result)
    return NULL;
  if (is_set(config->platform))
    *result = is(config->platform, format->platform) ||
              (is_set(config->backend) ? format->platform == NULL : is_named_file(format, config));
  else if (is_set(config->backend) && !format->platform_needs_file)
    *result = true;
  else if (is_set(config->default_model_filename))
    *result = is(config->default_model_filename, format->file);
  else
    return has_file(format, model_dir, versions, result);
  return NULL;
}

static error *fill(char **field, const char *value)
{
  if (is_set(*field) || value == NULL)
    return NULL;
  return strings_set(field, value);
}

// The last resort: a model named x.<backend>.
static error *infer_from_name(Inference__ModelConfig *config, const char *model_name)
{
  const char *dot = strchr(model_name, '.');
  if (dot == NULL)
    return error_new(ERROR_INVALID_ARG,
                     "Invalid model name: Could not determine backend for model '%s' with no "
                     "backend in model configuration. Expected model name of the form "
                     "'model.<backend_name>'.",
                     model_name);
  AUTO_BUFFER buffer file = BUFFER_EMPTY;
  buffer_append_format(&file, "model.%s", dot + 1);
  buffer_append_char(&file, '\0');
  if (file.failed)
    return error_no_memory();
  RETURN_IF_ERROR(fill(&config->backend, dot + 1));
  return fill(&config->default_model_filename, file.data);
}

// The first format that fits wins.
static error *find_format(const Inference__ModelConfig *config, const file_root *model_dir,
                          string_list *versions, const backend_traits **backend,
                          const backend_format **format)
{
  for (*backend = backend_table; (*backend)->name != NULL; (*backend)++)
    for (*format = (*backend)->formats; (*format)->file != NULL; (*format)++) {
      bool found;
      RETURN_IF_ERROR(applies(*backend, *format, config, model_dir, versions, &found));
      if (found)
        return NULL;
    }
  return NULL;
}

static error *infer(Inference__ModelConfig *config, const char *model_name,
                    const file_root *model_dir, string_list *versions)
{
  const backend_traits *backend;
  const backend_format *format;
  RETURN_IF_ERROR(find_format(config, model_dir, versions, &backend, &format));
  if (backend->name != NULL) {
    RETURN_IF_ERROR(fill(&config->backend, backend->name));
    RETURN_IF_ERROR(fill(&config->platform, format->platform));
    return fill(&config->default_model_filename, format->file);
  }
  if (is_set(config->backend) || is_set(config->platform) || is_set(config->default_model_filename))
    return NULL; // a foreign backend
  return infer_from_name(config, model_name);
}

error *config_infer_backend(Inference__ModelConfig *config, const char *model_name,
                            const file_root *model_dir)
{
  string_list versions = {0};
  error *e = infer(config, model_name, model_dir, &versions); // `versions` is filled when needed
  string_list_fini(&versions);
  return e;
}

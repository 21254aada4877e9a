// Finds the backend of a model that does not say, from what it does say and from its files. Called
// from load threads. The order of the rules is Triton's.
#include "base/cleanup.h"
#include "base/files.h"
#include "base/text.h"
#include "config/config.h"
#include "config/strings.h"

#include <stdio.h>

typedef enum wanted_file {
  WANTED_FILE,
  WANTED_FOLDER,
  WANTED_ANY,
} wanted_file;

// What belongs together. The first row that fits wins.
typedef struct backend_rule {
  const char *backend;
  const char *platform; // NULL: the backend uses none
  const char *file;     // default_model_filename
  wanted_file kind;
  bool platform_needs_file; // the backend alone does not tell the platform
} backend_rule;

static const backend_rule rules[] = {
    {"tensorflow", "tensorflow_graphdef", "model.graphdef", WANTED_FILE, true},
    {"tensorflow", "tensorflow_savedmodel", "model.savedmodel", WANTED_FOLDER, true},
    {"tensorrt", "tensorrt_plan", "model.plan", WANTED_FILE, false},
    {"onnxruntime", "onnxruntime_onnx", "model.onnx", WANTED_ANY, false},
    {"openvino", NULL, "model.xml", WANTED_ANY, false},
    {"pytorch", "pytorch_libtorch", "model.pt", WANTED_FILE, false},
    {"pytorch", "torch_aoti", "model.pt2", WANTED_FILE, true},
    {"pytorch", "libtorch", "model.pt", WANTED_FILE, true},
    {"python", NULL, "model.py", WANTED_ANY, false},
};

static bool is_set(const char *text)
{
  return text[0] != '\0';
}

static bool is(const char *text, const char *other)
{
  return other != NULL && strcmp(text, other) == 0;
}

// Directories of the model that look like versions, in byte order as Triton walks them.
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

static error *has_file(const backend_rule *rule, const file_root *model_dir, string_list *versions,
                       bool *found)
{
  *found = false;
  if (versions->count == 0)
    RETURN_IF_ERROR(list_versions(model_dir, versions));
  for (size_t i = 0; i < versions->count; i++) {
    char path[512];
    int length = snprintf(path, sizeof(path), "%s/%s", versions->items[i], rule->file);
    if (length < 0 || (size_t)length >= sizeof(path))
      continue;
    file_kind kind;
    RETURN_IF_ERROR(files_kind(model_dir, path, &kind));
    if ((kind == FILE_REGULAR && rule->kind != WANTED_FOLDER) ||
        (kind == FILE_FOLDER && rule->kind != WANTED_FILE)) {
      *found = true;
      return NULL;
    }
  }
  return NULL;
}

// Whether the rule speaks of this model: by the platform or the file that are named, by the backend
// where that is enough, or, where nothing is named, by a file that is there.
static error *applies(const backend_rule *rule, const Inference__ModelConfig *config,
                      const file_root *model_dir, string_list *versions, bool *result)
{
  *result = !is_set(config->backend) || is(config->backend, rule->backend);
  if (!*result)
    return NULL;
  if (is_set(config->platform))
    *result = is(config->platform, rule->platform) ||
              (rule->platform == NULL && is(config->backend, rule->backend));
  else if (is_set(config->backend) && !rule->platform_needs_file)
    *result = true;
  else if (is_set(config->default_model_filename))
    *result = is(config->default_model_filename, rule->file);
  else
    return has_file(rule, model_dir, versions, result);
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

static error *infer(Inference__ModelConfig *config, const char *model_name,
                    const file_root *model_dir, string_list *versions)
{
  for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
    bool applicable;
    RETURN_IF_ERROR(applies(&rules[i], config, model_dir, versions, &applicable));
    if (!applicable)
      continue;
    RETURN_IF_ERROR(fill(&config->backend, rules[i].backend));
    RETURN_IF_ERROR(fill(&config->platform, rules[i].platform));
    return fill(&config->default_model_filename, rules[i].file);
  }
  if (is_set(config->backend) || is_set(config->platform) || is_set(config->default_model_filename))
    return NULL; // a backend of somebody's own
  return infer_from_name(config, model_name);
}

error *config_infer_backend(Inference__ModelConfig *config, const char *model_name,
                            const file_root *model_dir)
{
  string_list versions = {0};
  error *e = infer(config, model_name, model_dir, &versions); // listed when needed
  string_list_fini(&versions);
  return e;
}

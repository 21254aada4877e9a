// SPDX-License-Identifier: Apache-2.0
// OpenVINO's properties from a model's parameters, with Triton's rules and texts. docs/openvino.md
// lists the parameters.
#include "ov_model.h"

#include "backend_error.h"
#include "backend_log.h"
#include "base/cleanup.h"
#include "base/machine.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// NULL when it is absent or empty.
static const char *text_of(const framework_model *model, const char *key)
{
  const char *text = backend_parameter(model->config, key);
  return text != NULL && *text != '\0' ? text : NULL;
}

static bool is_yes(const framework_model *model, const char *key)
{
  const char *text = text_of(model, key);
  return text != NULL && strcasecmp(text, "yes") == 0;
}

// A copy with each character passed through `change`, for free().
static char *copy_of(const char *text, int (*change)(int))
{
  char *copy = strdup(text);
  for (char *c = copy; c != NULL && *c != '\0'; c++)
    *c = (char)change((unsigned char)*c);
  return copy;
}

static TRITONSERVER_Error *set(const framework_model *model, const char *device, const char *key,
                               const char *value)
{
  BACKEND_LOG_VERBOSE("model '%s': %s of %s is %s", model->name, key, device, value);
  OV_TRY(ov_runtime_of(model), core_set_property(ov_state_of(model)->core, device, key, value),
         "configuring openvino core");
  return NULL;
}

// Sets a property if the device has it. Opens the device's library.
static TRITONSERVER_Error *set_if_known(const framework_model *model, const char *key,
                                        const char *value)
{
  const ov_runtime *runtime = ov_runtime_of(model);
  const ov_model_state *state = ov_state_of(model);
  static const char of_the_core[] = "CACHE_DIR CACHE_MODE ENABLE_MMAP";
  char *supported = NULL;
  bool known = ov_has_word(of_the_core, sizeof(of_the_core) - 1, key);
  if (!known) {
    OV_TRY(runtime,
           core_get_property(state->core, state->device, "SUPPORTED_PROPERTIES", &supported),
           "configuring openvino core");
    known = ov_has_word(supported, strlen(supported), key);
    runtime->api.free(supported);
  }
  if (known)
    return set(model, state->device, key, value);
  BACKEND_LOG_WARN("model '%s': parameter '%s' is no property of OpenVINO's device %s and not used",
                   model->name, key, state->device);
  return NULL;
}

// ---- Triton's parameters: what OpenVINO gets, "" for its default, NULL for a wrong text ----

static const char *number_value(const char *text)
{
  return text[strspn(text, "0123456789")] == '\0' ? text : NULL;
}

// 0 threads means the default number.
static const char *threads_value(const char *text)
{
  return text[strspn(text, "0")] == '\0' ? "" : number_value(text);
}

static const char *streams_value(const char *text)
{
  if (strcasecmp(text, "auto") == 0)
    return "AUTO";
  if (strcasecmp(text, "numa") == 0)
    return "NUMA";
  return number_value(text);
}

static const char *bf16_value(const char *text)
{
  return strcasecmp(text, "yes") == 0 ? "bf16" : NULL;
}

static const char *hint_value(const char *text)
{
  static const char *const hints[] = {"LATENCY", "THROUGHPUT", "CUMULATIVE_THROUGHPUT"};
  for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++)
    if (strcasecmp(text, hints[i]) == 0)
      return hints[i];
  return NULL;
}

static const struct {
  const char *parameter;
  const char *property;
  const char *(*value)(const char *text);
  const char *expected;
} rows[] = {
    {"INFERENCE_NUM_THREADS", "INFERENCE_NUM_THREADS", threads_value, "a non-negative number"},
    {"COMPILATION_NUM_THREADS", "COMPILATION_NUM_THREADS", threads_value, "a non-negative number"},
    {"HINT_BF16", "INFERENCE_PRECISION_HINT", bf16_value, "YES"},
    {"NUM_STREAMS", "NUM_STREAMS", streams_value, "either AUTO/NUMA/<int_value>"},
    {"PERFORMANCE_HINT", "PERFORMANCE_HINT", hint_value,
     "LATENCY/THROUGHPUT/CUMULATIVE_THROUGHPUT"},
    {.parameter = "CPU_EXTENSION_PATH"}, // read where they are used
    {.parameter = "SKIP_OV_DYNAMIC_BATCHSIZE"},
    {.parameter = "ENABLE_BATCH_PADDING"},
    {.parameter = "RESHAPE_IO_LAYERS"},
    {.parameter = "TARGET_DEVICE"},
};
#define ROW_COUNT (sizeof(rows) / sizeof(rows[0]))

static TRITONSERVER_Error *set_row(const framework_model *model, size_t row)
{
  const char *text = text_of(model, rows[row].parameter);
  if (text == NULL || rows[row].value == NULL)
    return NULL;
  const char *value = rows[row].value(text);
  if (value != NULL)
    return *value == '\0' ? NULL : set_if_known(model, rows[row].property, value);
  char *shown AUTO_FREE = copy_of(text, tolower);
  return backend_error_invalid("expected the parameter '%s' to be %s, got %s", rows[row].parameter,
                               rows[row].expected, shown != NULL ? shown : text);
}

// ---- properties by their own names ----

static bool is_of_triton(const char *key)
{
  for (size_t i = 0; i < ROW_COUNT; i++)
    if (strcmp(key, rows[i].parameter) == 0)
      return true;
  return false;
}

// All properties are written this way; other parameters rarely are.
static bool looks_like_property(const char *key)
{
  return isupper((unsigned char)key[0]) &&
         key[strspn(key, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")] == '\0';
}

static TRITONSERVER_Error *set_others(const framework_model *model)
{
  const char *key;
  json_t *parameter;
  json_object_foreach(json_object_get(model->config, "parameters"), key, parameter)
  {
    if (looks_like_property(key) && !is_of_triton(key))
      BACKEND_RETURN_IF_ERROR(
          set_if_known(model, key, backend_json_text(parameter, "string_value")));
  }
  return NULL;
}

// ---- defaults ----

static int64_t count_instances(const framework_model *model)
{
  const json_t *groups = json_object_get(model->config, "instance_group");
  int64_t count = 0;
  for (size_t i = 0; i < json_array_size(groups); i++)
    count += json_integer_value(json_object_get(json_array_get(groups, i), "count"));
  return count;
}

// Defaults, because OpenVINO uses all cores of the machine even in a container, computes in 16 bits
// on newer processors, and lets requests wait for each other unless they have streams.
static TRITONSERVER_Error *set_defaults(const framework_model *model)
{
  const unsigned cpus = machine_cpus();
  const int64_t instances = count_instances(model);
  char text[16];
  snprintf(text, sizeof(text), "%u", cpus);
  BACKEND_RETURN_IF_ERROR(set(model, "CPU", "INFERENCE_NUM_THREADS", text));
  if (text_of(model, "EXECUTION_MODE_HINT") == NULL)
    BACKEND_RETURN_IF_ERROR(set(model, "CPU", "INFERENCE_PRECISION_HINT", "f32"));
  if (instances < 2 || text_of(model, "PERFORMANCE_HINT") != NULL)
    return NULL;
  snprintf(text, sizeof(text), "%lld", (long long)(instances < cpus ? instances : cpus));
  return set(model, "CPU", "NUM_STREAMS", text);
}

// ---- all ----

static TRITONSERVER_Error *add_extension(const framework_model *model)
{
  const ov_runtime *runtime = ov_runtime_of(model);
  const char *path = text_of(model, "CPU_EXTENSION_PATH");
  if (path == NULL)
    return NULL;
  if (runtime->api.core_add_extension == NULL)
    return backend_error(TRITONSERVER_ERROR_UNSUPPORTED,
                         "model '%s': CPU_EXTENSION_PATH needs OpenVINO 2025.4 or newer, %s from "
                         "'%s' is used",
                         model->name, runtime->version, runtime->path);
  OV_TRY(runtime, core_add_extension(ov_state_of(model)->core, path),
         "loading custom CPU extensions");
  return NULL;
}

TRITONSERVER_Error *ov_options_set(framework_model *model)
{
  ov_model_state *state = ov_state_of(model);
  const char *device = text_of(model, "TARGET_DEVICE");
  state->device = copy_of(device != NULL ? device : "CPU", toupper);
  if (state->device == NULL)
    return backend_error_no_memory("the model");
  state->pads = is_yes(model, "ENABLE_BATCH_PADDING");
  state->reshapes = is_yes(model, "RESHAPE_IO_LAYERS");
  state->auto_batching = !is_yes(model, "SKIP_OV_DYNAMIC_BATCHSIZE");
  BACKEND_RETURN_IF_ERROR(add_extension(model));
  BACKEND_RETURN_IF_ERROR(set_defaults(model));
  for (size_t i = 0; i < ROW_COUNT; i++)
    BACKEND_RETURN_IF_ERROR(set_row(model, i));
  return set_others(model);
}

// SPDX-License-Identifier: Apache-2.0
// Session and run options from a model's configuration. docs/backends.md lists the parameters.
#include "onnx_model.h"

#include "backend_error.h"
#include "backend_log.h"
#include "base/cleanup.h"
#include "base/machine.h"
#include "onnx_provider_options.h"

#include <stdlib.h>
#include <string.h>

#define MAX_THREADS 4096

// Parameters with these prefixes are passed to ONNX Runtime unchanged.
static const char *const config_prefixes[] = {"session.", "optimization.", "mlas.", "ep."};

// Our defaults. A spinning pool takes processor time from other models, so waiting threads sleep.
static const struct {
  const char *key;
  const char *value;
} config_defaults[] = {
    {"session.intra_op.allow_spinning", "0"},
    {"session.inter_op.allow_spinning", "0"},
};

static TRITONSERVER_Error *set_graph_level(const framework_model *model,
                                           ort_session_options *options)
{
  const json_t *graph = json_object_get(json_object_get(model->config, "optimization"), "graph");
  int level = ORT_OPTIMIZE_ALL;
  switch (json_integer_value(json_object_get(graph, "level"))) {
  case -1:
    level = ORT_OPTIMIZE_BASIC;
    break;
  case 1:
    level = ORT_OPTIMIZE_EXTENDED;
    break;
  case 2:
    level = ORT_OPTIMIZE_NONE;
    break;
  default:
    break;
  }
  return ort_error(onnx_runtime_of(model),
                   onnx_runtime_of(model)->api.SetSessionGraphOptimizationLevel(options, level));
}

static TRITONSERVER_Error *set_execution_mode(const framework_model *model,
                                              ort_session_options *options)
{
  int64_t mode = ORT_RUN_SEQUENTIAL;
  BACKEND_RETURN_IF_ERROR(framework_read_count(model, "execution_mode", INT32_MAX, &mode));
  if (mode != ORT_RUN_SEQUENTIAL && mode != ORT_RUN_PARALLEL)
    return backend_error_invalid("Invalid configuration value provided. Expected values for  "
                                 "execution_mode are 0 or 1 but got %lld .",
                                 (long long)mode);
  return ort_error(onnx_runtime_of(model),
                   onnx_runtime_of(model)->api.SetSessionExecutionMode(options, (int)mode));
}

// ONNX Runtime's default is one pinned thread for each core of the machine, more than a container
// may use, so the number is always set.
static TRITONSERVER_Error *set_threads(const framework_model *model, ort_session_options *options)
{
  const ort_runtime *runtime = onnx_runtime_of(model);
  int64_t intra = 0, inter = 0;
  if (runtime->global_threads)
    return ort_error(runtime, runtime->api.DisablePerSessionThreads(options));
  BACKEND_RETURN_IF_ERROR(
      framework_read_count(model, "intra_op_thread_count", MAX_THREADS, &intra));
  BACKEND_RETURN_IF_ERROR(
      framework_read_count(model, "inter_op_thread_count", MAX_THREADS, &inter));
  int cores = (int)machine_cpus();
  ORT_RETURN_IF_ERROR(runtime,
                      runtime->api.SetIntraOpNumThreads(options, intra > 0 ? (int)intra : cores));
  return ort_error(runtime,
                   runtime->api.SetInterOpNumThreads(options, inter > 0 ? (int)inter : cores));
}

typedef ort_status *(*option_switch)(ort_session_options *);

static TRITONSERVER_Error *set_switch(const framework_model *model, ort_session_options *options,
                                      const char *key, option_switch enable, option_switch disable)
{
  bool on = false;
  if (backend_parameter(model->config, key) == NULL)
    return NULL;
  BACKEND_RETURN_IF_ERROR(framework_read_switch(model, key, &on));
  return ort_error(onnx_runtime_of(model), on ? enable(options) : disable(options));
}

static bool is_config_key(const char *key)
{
  for (size_t i = 0; i < sizeof(config_prefixes) / sizeof(config_prefixes[0]); i++)
    if (strncmp(key, config_prefixes[i], strlen(config_prefixes[i])) == 0)
      return true;
  return false;
}

static TRITONSERVER_Error *add_config_entries(const framework_model *model,
                                              ort_session_options *options)
{
  const ort_runtime *runtime = onnx_runtime_of(model);
  for (size_t i = 0; i < sizeof(config_defaults) / sizeof(config_defaults[0]); i++)
    ORT_RETURN_IF_ERROR(runtime, runtime->api.AddSessionConfigEntry(options, config_defaults[i].key,
                                                                    config_defaults[i].value));
  const char *key;
  json_t *parameter;
  json_object_foreach(json_object_get(model->config, "parameters"), key, parameter)
  {
    if (!is_config_key(key))
      continue;
    const char *value = backend_json_text(parameter, "string_value");
    BACKEND_LOG_VERBOSE("Configuring '%s' to '%s' for '%s'", key, value, model->name);
    ORT_RETURN_IF_ERROR(runtime, runtime->api.AddSessionConfigEntry(options, key, value));
  }
  return NULL;
}

static TRITONSERVER_Error *add_custom_operators(const framework_model *model,
                                                ort_session_options *options)
{
  const json_t *operations = json_object_get(model->config, "model_operations");
  const json_t *files = json_object_get(operations, "op_library_filename");
  for (size_t i = 0; i < json_array_size(files); i++) {
    const char *file = json_string_value(json_array_get(files, i));
    if (file != NULL)
      ORT_RETURN_IF_ERROR(onnx_runtime_of(model),
                          onnx_runtime_of(model)->api.RegisterCustomOpsLibrary_V2(options, file));
  }
  return NULL;
}

// --- Execution accelerators

typedef struct accelerator {
  const char *name;
  const char *provider; // ONNX Runtime's name in its list of providers
  const char *append;   // its name when it is added
} accelerator;

static const accelerator cpu_accelerators[] = {
    {"openvino", "OpenVINOExecutionProvider", "OpenVINO"},
    {"xnnpack", "XnnpackExecutionProvider", "XNNPACK"},
    {NULL, NULL, NULL},
};

static TRITONSERVER_Error *require_provider(const framework_model *model, const char *name,
                                            const char *provider)
{
  bool found = false;
  char *all = NULL;
  BACKEND_RETURN_IF_ERROR(ort_runtime_has_provider(onnx_runtime_of(model), provider, &found, &all));
  TRITONSERVER_Error *error = NULL;
  if (!found)
    error = backend_error(TRITONSERVER_ERROR_UNSUPPORTED,
                          "model '%s': '%s' needs an ONNX Runtime with %s; %s from '%s' has: %s",
                          model->name, name, provider, onnx_runtime_of(model)->version,
                          onnx_runtime_of(model)->path, all == NULL ? "" : all);
  free(all);
  return error;
}

static TRITONSERVER_Error *append_provider(const framework_model *model,
                                           ort_session_options *options, const char *provider,
                                           json_t *parameters)
{
  size_t most = json_object_size(parameters), count = 0;
  const char **keys = calloc(most + 1, sizeof(*keys));
  const char **values = calloc(most + 1, sizeof(*values));
  const char *key;
  json_t *value;
  TRITONSERVER_Error *error = NULL;
  if (keys == NULL || values == NULL) {
    error = backend_error_no_memory("an execution accelerator");
  } else {
    json_object_foreach(parameters, key, value)
    {
      keys[count] = key;
      values[count++] = json_is_string(value) ? json_string_value(value) : "";
    }
    error = ort_error(onnx_runtime_of(model),
                      onnx_runtime_of(model)->api.SessionOptionsAppendExecutionProvider(
                          options, provider, keys, values, count));
  }
  free(keys);
  free(values);
  return error;
}

static TRITONSERVER_Error *add_accelerators(const framework_model *model,
                                            ort_session_options *options)
{
  const json_t *optimization = json_object_get(model->config, "optimization");
  const json_t *list = json_object_get(json_object_get(optimization, "execution_accelerators"),
                                       "cpu_execution_accelerator");
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *wanted = json_array_get(list, i);
    const char *name = backend_json_text(wanted, "name");
    const accelerator *match = cpu_accelerators;
    while (match->name != NULL && strcmp(match->name, name) != 0)
      match++;
    if (match->name == NULL)
      return backend_error_invalid("unknown Execution Accelerator '%s' is requested", name);
    BACKEND_RETURN_IF_ERROR(require_provider(model, name, match->provider));
    BACKEND_RETURN_IF_ERROR(
        append_provider(model, options, match->append, json_object_get(wanted, "parameters")));
  }
  return NULL;
}

// GPU accelerators apply to GPU instances only. On the CPU they are ignored, so that one repository
// serves both kinds of machine.
static TRITONSERVER_Error *set_providers(const framework_model *model, const onnx_target *target,
                                         ort_session_options *options)
{
  if (target->device >= 0)
    return onnx_add_gpu_providers(model, target, options);
  if (json_array_size(onnx_gpu_accelerators(model->config)) > 0)
    BACKEND_LOG_WARN("model '%s' has instances on the CPU: its gpu_execution_accelerator is not "
                     "used there",
                     model->name);
  return add_accelerators(model, options);
}

static TRITONSERVER_Error *fill_options(const framework_model *model, const onnx_target *target,
                                        ort_session_options *options)
{
  const ort_api *api = &onnx_runtime_of(model)->api;
  BACKEND_RETURN_IF_ERROR(set_graph_level(model, options));
  BACKEND_RETURN_IF_ERROR(set_execution_mode(model, options));
  BACKEND_RETURN_IF_ERROR(set_threads(model, options));
  BACKEND_RETURN_IF_ERROR(set_switch(model, options, "enable_mem_arena", api->EnableCpuMemArena,
                                     api->DisableCpuMemArena));
  BACKEND_RETURN_IF_ERROR(set_switch(model, options, "enable_mem_pattern", api->EnableMemPattern,
                                     api->DisableMemPattern));
  BACKEND_RETURN_IF_ERROR(add_config_entries(model, options));
  BACKEND_RETURN_IF_ERROR(set_providers(model, target, options));
  return add_custom_operators(model, options);
}

TRITONSERVER_Error *onnx_session_options(const framework_model *model, const onnx_target *target,
                                         ort_session_options **options)
{
  ORT_RETURN_IF_ERROR(onnx_runtime_of(model),
                      onnx_runtime_of(model)->api.CreateSessionOptions(options));
  TRITONSERVER_Error *error = fill_options(model, target, *options);
  if (error != NULL)
    onnx_runtime_of(model)->api.ReleaseSessionOptions(*options);
  return error;
}

static TRITONSERVER_Error *add_run_entry(const framework_model *model, ort_run_options *options,
                                         const char *key, const char *value)
{
  return ort_error(onnx_runtime_of(model),
                   onnx_runtime_of(model)->api.AddRunConfigEntry(options, key, value));
}

static TRITONSERVER_Error *fill_run_options(const framework_model *model, int device,
                                            ort_run_options *options)
{
  static const char shrinkage[] = "memory.enable_memory_arena_shrinkage";
  const char *all = backend_parameter(model->config, shrinkage);
  char *arenas AUTO_FREE = onnx_arenas_of(all != NULL ? all : "", device);
  if (arenas == NULL)
    return backend_error_no_memory("run options");
  if (arenas[0] != '\0')
    BACKEND_RETURN_IF_ERROR(add_run_entry(model, options, shrinkage, arenas));
  if (device < 0)
    return NULL;
  // This backend waits for the stream once, after the outputs are enqueued.
  return add_run_entry(model, options, "disable_synchronize_execution_providers", "1");
}

TRITONSERVER_Error *onnx_run_options(const framework_model *model, int device,
                                     ort_run_options **options)
{
  ORT_RETURN_IF_ERROR(onnx_runtime_of(model),
                      onnx_runtime_of(model)->api.CreateRunOptions(options));
  TRITONSERVER_Error *error = fill_run_options(model, device, *options);
  if (error != NULL) {
    onnx_runtime_of(model)->api.ReleaseRunOptions(*options);
    *options = NULL;
  }
  return error;
}

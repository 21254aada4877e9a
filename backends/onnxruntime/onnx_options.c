// Session and run options from a model's configuration; see onnx_model.h. The parameters are listed
// in docs/backends.md.
#include "onnx_model.h"

#include "backend_error.h"
#include "backend_log.h"
#include "base/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_THREADS 4096

// Parameters with these prefixes go to ONNX Runtime as they are.
static const char *const config_prefixes[] = {"session.", "optimization.", "mlas.", "ep."};

// Defaults of ours where the configuration says nothing. A spinning pool takes the CPU from the
// other models, so waiting threads sleep.
static const struct {
  const char *key;
  const char *value;
} config_defaults[] = {
    {"session.intra_op.allow_spinning", "0"},
    {"session.inter_op.allow_spinning", "0"},
};

static TRITONSERVER_Error *read_count(const onnx_model *model, const char *key, int64_t most,
                                      int64_t *value)
{
  char where[512];
  snprintf(where, sizeof(where), "model '%.256s': parameter", model->name);
  return backend_read_integer(where, key, backend_parameter(model->config, key), 0, most, value);
}

static TRITONSERVER_Error *set_graph_level(const onnx_model *model, ort_session_options *options)
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
  return ort_error(model->runtime,
                   model->runtime->api.SetSessionGraphOptimizationLevel(options, level));
}

static TRITONSERVER_Error *set_execution_mode(const onnx_model *model, ort_session_options *options)
{
  int64_t mode = ORT_RUN_SEQUENTIAL;
  BACKEND_RETURN_IF_ERROR(read_count(model, "execution_mode", INT32_MAX, &mode));
  if (mode != ORT_RUN_SEQUENTIAL && mode != ORT_RUN_PARALLEL)
    return backend_error_invalid("Invalid configuration value provided. Expected values for  "
                                 "execution_mode are 0 or 1 but got %lld .",
                                 (long long)mode);
  return ort_error(model->runtime, model->runtime->api.SetSessionExecutionMode(options, (int)mode));
}

// ONNX Runtime's own default is a thread for each core of the machine, pinned, whatever the
// container may use; so the number is always given.
static TRITONSERVER_Error *set_threads(const onnx_model *model, ort_session_options *options)
{
  const ort_runtime *runtime = model->runtime;
  int64_t intra = 0, inter = 0;
  if (runtime->global_threads)
    return ort_error(runtime, runtime->api.DisablePerSessionThreads(options));
  BACKEND_RETURN_IF_ERROR(read_count(model, "intra_op_thread_count", MAX_THREADS, &intra));
  BACKEND_RETURN_IF_ERROR(read_count(model, "inter_op_thread_count", MAX_THREADS, &inter));
  int cores = (int)machine_cpus();
  ORT_RETURN_IF_ERROR(runtime,
                      runtime->api.SetIntraOpNumThreads(options, intra > 0 ? (int)intra : cores));
  return ort_error(runtime,
                   runtime->api.SetInterOpNumThreads(options, inter > 0 ? (int)inter : cores));
}

typedef ort_status *(*option_switch)(ort_session_options *);

static TRITONSERVER_Error *set_switch(const onnx_model *model, ort_session_options *options,
                                      const char *key, option_switch enable, option_switch disable)
{
  const char *text = backend_parameter(model->config, key);
  if (text == NULL)
    return NULL;
  char where[512];
  bool on = false;
  snprintf(where, sizeof(where), "model '%.256s': parameter", model->name);
  BACKEND_RETURN_IF_ERROR(backend_read_bool(where, key, text, &on));
  return ort_error(model->runtime, on ? enable(options) : disable(options));
}

static bool is_config_key(const char *key)
{
  for (size_t i = 0; i < sizeof(config_prefixes) / sizeof(config_prefixes[0]); i++)
    if (strncmp(key, config_prefixes[i], strlen(config_prefixes[i])) == 0)
      return true;
  return false;
}

static TRITONSERVER_Error *add_config_entries(const onnx_model *model, ort_session_options *options)
{
  const ort_runtime *runtime = model->runtime;
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

static TRITONSERVER_Error *add_custom_operators(const onnx_model *model,
                                                ort_session_options *options)
{
  const json_t *operations = json_object_get(model->config, "model_operations");
  const json_t *files = json_object_get(operations, "op_library_filename");
  for (size_t i = 0; i < json_array_size(files); i++) {
    const char *file = json_string_value(json_array_get(files, i));
    if (file != NULL)
      ORT_RETURN_IF_ERROR(model->runtime,
                          model->runtime->api.RegisterCustomOpsLibrary_V2(options, file));
  }
  return NULL;
}

// --- Execution accelerators

typedef struct accelerator {
  const char *name;
  const char *provider; // ONNX Runtime's name in its list of providers
  const char *append;   // its name when it is added; NULL where this backend cannot drive it yet
} accelerator;

static const accelerator cpu_accelerators[] = {
    {"openvino", "OpenVINOExecutionProvider", "OpenVINO"},
    {"xnnpack", "XnnpackExecutionProvider", "XNNPACK"},
    {NULL, NULL, NULL},
};
static const accelerator gpu_accelerators[] = {
    {"tensorrt", "TensorrtExecutionProvider", NULL},
    {"cuda", "CUDAExecutionProvider", NULL},
    {NULL, NULL, NULL},
};

static TRITONSERVER_Error *require_provider(const onnx_model *model, const char *name,
                                            const char *provider)
{
  bool found = false;
  char *all = NULL;
  BACKEND_RETURN_IF_ERROR(ort_runtime_has_provider(model->runtime, provider, &found, &all));
  TRITONSERVER_Error *error = NULL;
  if (!found)
    error = backend_error(TRITONSERVER_ERROR_UNSUPPORTED,
                          "model '%s': '%s' needs an ONNX Runtime with %s; %s from '%s' has: %s",
                          model->name, name, provider, model->runtime->version,
                          model->runtime->path, all == NULL ? "" : all);
  free(all);
  return error;
}

static TRITONSERVER_Error *append_provider(const onnx_model *model, ort_session_options *options,
                                           const char *provider, json_t *parameters)
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
    error = ort_error(model->runtime, model->runtime->api.SessionOptionsAppendExecutionProvider(
                                          options, provider, keys, values, count));
  }
  free(keys);
  free(values);
  return error;
}

static TRITONSERVER_Error *add_accelerators(const onnx_model *model, ort_session_options *options,
                                            const char *list_key, const accelerator *known)
{
  const json_t *optimization = json_object_get(model->config, "optimization");
  const json_t *list =
      json_object_get(json_object_get(optimization, "execution_accelerators"), list_key);
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *wanted = json_array_get(list, i);
    const char *name = backend_json_text(wanted, "name");
    const accelerator *match = known;
    while (match->name != NULL && strcmp(match->name, name) != 0)
      match++;
    if (match->name == NULL)
      return backend_error_invalid("unknown Execution Accelerator '%s' is requested", name);
    BACKEND_RETURN_IF_ERROR(require_provider(model, name, match->provider));
    if (match->append == NULL)
      return backend_error(TRITONSERVER_ERROR_UNSUPPORTED,
                           "model '%s': execution accelerator '%s' is not supported yet",
                           model->name, name);
    BACKEND_RETURN_IF_ERROR(
        append_provider(model, options, match->append, json_object_get(wanted, "parameters")));
  }
  return NULL;
}

static bool wants_gpu(const onnx_model *model)
{
  const json_t *groups = json_object_get(model->config, "instance_group");
  for (size_t i = 0; i < json_array_size(groups); i++)
    if (strcmp(backend_json_text(json_array_get(groups, i), "kind"), "KIND_GPU") == 0)
      return true;
  return false;
}

// GPU accelerators speak of GPU instances only: on the CPU they are passed over, so that one
// repository serves both kinds of machine.
static TRITONSERVER_Error *set_providers(const onnx_model *model, ort_session_options *options)
{
  const json_t *accelerators =
      json_object_get(json_object_get(model->config, "optimization"), "execution_accelerators");
  if (wants_gpu(model)) {
    BACKEND_RETURN_IF_ERROR(
        add_accelerators(model, options, "gpu_execution_accelerator", gpu_accelerators));
    BACKEND_RETURN_IF_ERROR(require_provider(model, "KIND_GPU", "CUDAExecutionProvider"));
    return backend_error(TRITONSERVER_ERROR_UNSUPPORTED,
                         "model '%s': instances of KIND_GPU are not supported yet", model->name);
  }
  if (json_array_size(json_object_get(accelerators, "gpu_execution_accelerator")) > 0)
    BACKEND_LOG_WARN("model '%s' has no GPU instance: its gpu_execution_accelerator is not used",
                     model->name);
  return add_accelerators(model, options, "cpu_execution_accelerator", cpu_accelerators);
}

static TRITONSERVER_Error *fill_options(const onnx_model *model, ort_session_options *options)
{
  const ort_api *api = &model->runtime->api;
  BACKEND_RETURN_IF_ERROR(set_graph_level(model, options));
  BACKEND_RETURN_IF_ERROR(set_execution_mode(model, options));
  BACKEND_RETURN_IF_ERROR(set_threads(model, options));
  BACKEND_RETURN_IF_ERROR(set_switch(model, options, "enable_mem_arena", api->EnableCpuMemArena,
                                     api->DisableCpuMemArena));
  BACKEND_RETURN_IF_ERROR(set_switch(model, options, "enable_mem_pattern", api->EnableMemPattern,
                                     api->DisableMemPattern));
  BACKEND_RETURN_IF_ERROR(add_config_entries(model, options));
  BACKEND_RETURN_IF_ERROR(set_providers(model, options));
  return add_custom_operators(model, options);
}

TRITONSERVER_Error *onnx_session_options(const onnx_model *model, ort_session_options **options)
{
  ORT_RETURN_IF_ERROR(model->runtime, model->runtime->api.CreateSessionOptions(options));
  TRITONSERVER_Error *error = fill_options(model, *options);
  if (error != NULL)
    model->runtime->api.ReleaseSessionOptions(*options);
  return error;
}

TRITONSERVER_Error *onnx_run_options(const onnx_model *model, ort_run_options **options)
{
  static const char shrinkage[] = "memory.enable_memory_arena_shrinkage";
  ORT_RETURN_IF_ERROR(model->runtime, model->runtime->api.CreateRunOptions(options));
  const char *devices = backend_parameter(model->config, shrinkage);
  if (devices == NULL)
    return NULL;
  TRITONSERVER_Error *error = ort_error(
      model->runtime, model->runtime->api.AddRunConfigEntry(*options, shrinkage, devices));
  if (error != NULL)
    model->runtime->api.ReleaseRunOptions(*options);
  return error;
}

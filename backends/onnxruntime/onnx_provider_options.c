// SPDX-License-Identifier: Apache-2.0
// Reads the configuration.
#include "onnx_provider_options.h"

#include "backend_error.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void onnx_provider_options_fini(onnx_provider_options *self)
{
  string_list_fini(&self->keys);
  string_list_fini(&self->values);
}

// Replaces the value of the key.
static TRITONSERVER_Error *set(onnx_provider_options *self, const char *key, const char *value)
{
  for (size_t i = 0; i < self->keys.count; i++)
    if (strcmp(self->keys.items[i], key) == 0) {
      char *copy = strdup(value);
      if (copy == NULL)
        return backend_error_no_memory("a provider's options");
      free(self->values.items[i]);
      self->values.items[i] = copy;
      return NULL;
    }
  return string_list_add(&self->keys, key) && string_list_add(&self->values, value)
             ? NULL
             : backend_error_no_memory("a provider's options");
}

static TRITONSERVER_Error *set_number(onnx_provider_options *self, const char *key, long long value)
{
  char text[32];
  snprintf(text, sizeof(text), "%lld", value);
  return set(self, key, text);
}

// ---- values ----

typedef enum option_type {
  OPTION_TEXT,
  OPTION_BOOL,
  OPTION_INTEGER,
  OPTION_UNSIGNED
} option_type;

static TRITONSERVER_Error *set_bool(onnx_provider_options *self, const char *key, const char *value)
{
  bool on = false;
  TRITONSERVER_Error *error = backend_read_bool("", key, value, &on);
  if (error == NULL)
    return set(self, key, on ? "1" : "0"); // what ONNX Runtime understands
  TRITONSERVER_ErrorDelete(error);
  return backend_error_invalid("failed to convert '%s' to boolean", value);
}

// Checks, as Triton does, only that it begins with a number.
static bool begins_with_number(const char *value)
{
  int64_t number = 0;
  const char *rest = NULL;
  return text_begins_int64(value, &number, &rest);
}

static TRITONSERVER_Error *set_typed(onnx_provider_options *self, option_type type, const char *key,
                                     const char *value)
{
  if (type == OPTION_BOOL)
    return set_bool(self, key, value);
  if (type == OPTION_INTEGER && !begins_with_number(value))
    return backend_error_invalid("failed to convert '%s' to integral number", value);
  if (type == OPTION_UNSIGNED && !begins_with_number(value))
    return backend_error_invalid("failed to convert '%s' to unsigned long long integral number",
                                 value);
  return value[0] == '\0' ? NULL : set(self, key, value);
}

// ---- CUDA ----

const json_t *onnx_gpu_accelerators(const json_t *config)
{
  const json_t *optimization = json_object_get(config, "optimization");
  return json_object_get(json_object_get(optimization, "execution_accelerators"),
                         "gpu_execution_accelerator");
}

// Refuses options that the provider takes as addresses in this process: they would be called, and a
// configuration may come with a request.
static TRITONSERVER_Error *check_address(const char *key)
{
  static const char *const addresses[] = {"user_compute_stream", "gpu_external_alloc",
                                          "gpu_external_free", "gpu_external_empty_cache"};
  for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++)
    if (strcmp(key, addresses[i]) == 0)
      return backend_error_invalid("parameter '%s' of the Execution Accelerator 'cuda' is an "
                                   "address in the server: it is not taken from a configuration",
                                   key);
  return NULL;
}

static TRITONSERVER_Error *add_cuda_accelerator(json_t *accelerator, onnx_provider_options *options)
{
  const char *key;
  json_t *value;
  json_object_foreach(json_object_get(accelerator, "parameters"), key, value)
  {
    BACKEND_RETURN_IF_ERROR(check_address(key));
    const bool is_switch = strcmp(key, "do_copy_in_default_stream") == 0 ||
                           strcmp(key, "use_ep_level_unified_stream") == 0;
    const char *text = json_is_string(value) ? json_string_value(value) : "";
    BACKEND_RETURN_IF_ERROR(set_typed(options, is_switch ? OPTION_BOOL : OPTION_TEXT, key, text));
  }
  return NULL;
}

// Adds a number as the name that it stands for.
static TRITONSERVER_Error *add_choice(const json_t *config, const char *key,
                                      const char *const *choices, long count,
                                      onnx_provider_options *options)
{
  const char *text = backend_parameter(config, key);
  if (text == NULL)
    return NULL;
  int64_t choice = 0;
  const char *rest = NULL;
  if (!text_begins_int64(text, &choice, &rest))
    return backend_error_invalid("failed to convert '%s' to integral number", text);
  if (choice < 0 || choice >= count)
    return backend_error_invalid("unsupported %s value '%lld' is requested", key,
                                 (long long)choice);
  return set(options, key, choices[choice]);
}

// Parameters from before there was an accelerator "cuda".
static TRITONSERVER_Error *add_older_parameters(const json_t *config,
                                                onnx_provider_options *options)
{
  static const char *const searches[] = {"EXHAUSTIVE", "HEURISTIC", "DEFAULT"};
  static const char *const strategies[] = {"kNextPowerOfTwo", "kSameAsRequested"};
  const char *limit = backend_parameter(config, "gpu_mem_limit");
  const char *copy = backend_parameter(config, "do_copy_in_default_stream");
  BACKEND_RETURN_IF_ERROR(add_choice(config, "cudnn_conv_algo_search", searches, 3, options));
  BACKEND_RETURN_IF_ERROR(add_choice(config, "arena_extend_strategy", strategies, 2, options));
  if (limit != NULL)
    BACKEND_RETURN_IF_ERROR(set_typed(options, OPTION_TEXT, "gpu_mem_limit", limit));
  return copy == NULL ? NULL : set_bool(options, "do_copy_in_default_stream", copy);
}

TRITONSERVER_Error *onnx_cuda_options(const json_t *config, int device,
                                      onnx_provider_options *options)
{
  const json_t *accelerators = onnx_gpu_accelerators(config);
  for (size_t i = 0; i < json_array_size(accelerators); i++) {
    json_t *accelerator = json_array_get(accelerators, i);
    if (strcmp(backend_json_text(accelerator, "name"), "cuda") == 0)
      BACKEND_RETURN_IF_ERROR(add_cuda_accelerator(accelerator, options));
  }
  BACKEND_RETURN_IF_ERROR(add_older_parameters(config, options));
  BACKEND_RETURN_IF_ERROR(set_number(options, "device_id", device));
  return set(options, "has_user_compute_stream", "1");
}

// ---- TensorRT ----

static const struct {
  const char *key; // in the configuration
  option_type type;
  const char *option; // ONNX Runtime's name; NULL: the same
} tensorrt_keys[] = {
    {"max_workspace_size_bytes", OPTION_UNSIGNED, "trt_max_workspace_size"},
    {"int8_calibration_table_name", OPTION_TEXT, "trt_int8_calibration_table_name"},
    {"int8_use_native_calibration_table", OPTION_BOOL, "trt_int8_use_native_calibration_table"},
    {"trt_max_partition_iterations", OPTION_INTEGER, NULL},
    {"trt_min_subgraph_size", OPTION_INTEGER, NULL},
    {"trt_dla_enable", OPTION_BOOL, NULL},
    {"trt_dla_core", OPTION_INTEGER, NULL},
    {"trt_engine_cache_enable", OPTION_BOOL, NULL},
    {"trt_engine_cache_path", OPTION_TEXT, NULL},
    {"trt_engine_cache_prefix", OPTION_TEXT, NULL},
    {"trt_dump_subgraphs", OPTION_BOOL, NULL},
    {"trt_force_sequential_engine_build", OPTION_BOOL, NULL},
    {"trt_context_memory_sharing_enable", OPTION_BOOL, NULL},
    {"trt_layer_norm_fp32_fallback", OPTION_BOOL, NULL},
    {"trt_timing_cache_enable", OPTION_BOOL, NULL},
    {"trt_timing_cache_path", OPTION_TEXT, NULL},
    {"trt_force_timing_cache", OPTION_BOOL, NULL},
    {"trt_detailed_build_log", OPTION_BOOL, NULL},
    {"trt_build_heuristics_enable", OPTION_BOOL, NULL},
    {"trt_sparsity_enable", OPTION_BOOL, NULL},
    {"trt_builder_optimization_level", OPTION_INTEGER, NULL},
    {"trt_auxiliary_streams", OPTION_INTEGER, NULL},
    {"trt_tactic_sources", OPTION_TEXT, NULL},
    {"trt_extra_plugin_lib_paths", OPTION_TEXT, NULL},
    {"trt_profile_min_shapes", OPTION_TEXT, NULL},
    {"trt_profile_max_shapes", OPTION_TEXT, NULL},
    {"trt_profile_opt_shapes", OPTION_TEXT, NULL},
    {"trt_cuda_graph_enable", OPTION_BOOL, NULL},
    {"trt_dump_ep_context_model", OPTION_BOOL, NULL},
    {"trt_ep_context_file_path", OPTION_TEXT, NULL},
    {"trt_ep_context_embed_mode", OPTION_INTEGER, NULL},
};

static TRITONSERVER_Error *set_precision(onnx_provider_options *options, const char *mode)
{
  static const struct {
    const char *mode, *key;
  } modes[] = {{"FP32", NULL},
               {"FP16", "trt_fp16_enable"},
               {"BF16", "trt_bf16_enable"},
               {"INT8", "trt_int8_enable"}};
  for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
    if (strcmp(modes[i].mode, mode) == 0)
      return modes[i].key == NULL ? NULL : set(options, modes[i].key, "1");
  return backend_error_invalid("unsupported precision mode '%s' is requested", mode);
}

static TRITONSERVER_Error *set_tensorrt(onnx_provider_options *options, const char *key,
                                        const char *value)
{
  if (strcmp(key, "precision_mode") == 0)
    return set_precision(options, value);
  for (size_t i = 0; i < sizeof(tensorrt_keys) / sizeof(tensorrt_keys[0]); i++)
    if (strcmp(tensorrt_keys[i].key, key) == 0)
      return set_typed(options, tensorrt_keys[i].type,
                       tensorrt_keys[i].option != NULL ? tensorrt_keys[i].option : key, value);
  return backend_error_invalid(
      "unknown parameter '%s' is provided for TensorRT Execution Accelerator", key);
}

TRITONSERVER_Error *onnx_tensorrt_options(const json_t *accelerator, int device,
                                          onnx_provider_options *options)
{
  const char *key;
  json_t *value;
  json_object_foreach(json_object_get(accelerator, "parameters"), key, value)
      BACKEND_RETURN_IF_ERROR(
          set_tensorrt(options, key, json_is_string(value) ? json_string_value(value) : ""));
  BACKEND_RETURN_IF_ERROR(set_number(options, "device_id", device));
  return set(options, "has_user_compute_stream", "1");
}

// ---- graphs, arenas ----

bool onnx_wants_graphs(const json_t *config)
{
  const json_t *accelerators = onnx_gpu_accelerators(config);
  for (size_t i = 0; i < json_array_size(accelerators); i++) {
    const json_t *given = json_object_get(json_array_get(accelerators, i), "parameters");
    static const char *const keys[] = {"enable_cuda_graph", "trt_cuda_graph_enable"};
    for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
      bool on = false;
      const char *text = json_string_value(json_object_get(given, keys[k]));
      TRITONSERVER_Error *error = backend_read_bool("", keys[k], text, &on);
      TRITONSERVER_ErrorDelete(error); // ONNX Runtime reports it
      if (on)
        return true;
    }
  }
  return false;
}

static bool is_of_session(const char *entry, int device)
{
  int64_t id = -1;
  const char *rest = NULL;
  return !text_starts_with(entry, "gpu:") ||
         (device >= 0 && text_begins_int64(entry + strlen("gpu:"), &id, &rest) && id == device);
}

char *onnx_arenas_of(const char *list, int device)
{
  char *result = strdup(list), *to = result;
  if (result == NULL)
    return NULL;
  for (const char *at = list; *at != '\0';) {
    const size_t size = strcspn(at, ";");
    if (size > 0 && is_of_session(at, device)) {
      if (to > result)
        *to++ = ';';
      memcpy(to, at, size);
      to += size;
    }
    at += size + (at[size] == ';');
  }
  *to = '\0';
  return result;
}

// SPDX-License-Identifier: Apache-2.0
// The onnxruntime backend: where ONNX Runtime is found, its settings, and the steps of its models.
#include "onnx_model.h"

#include "backend_error.h"
#include "base/machine.h"

#include <stdlib.h>
#include <string.h>

#define MAX_THREADS      4096
#define TENSOR_ALIGNMENT 16 // more than any element needs

// Newer versions of ONNX Runtime report their use to Microsoft, with a database in the home
// directory, unless this variable is set before the library is opened. An operator's value stays.
// nereid sets the variable before it has threads, so nothing is written here; in other servers this
// call sets it.
static void switch_telemetry_off(void)
{
  setenv("ORT_DISABLE_TELEMETRY", "1", 0);
}

static TRITONSERVER_Error *fill_settings(const json_t *given, ort_runtime_settings *settings)
{
  const char *search = backend_json_text(given, "framework-search");
  static const char where[] = "--backend-config=onnxruntime";
  const int cores = (int)machine_cpus();
  const struct {
    const char *key;
    int64_t *value;
  } counts[] = {
      {"intra_op_thread_count", &settings->intra_op_threads},
      {"inter_op_thread_count", &settings->inter_op_threads},
  };
  const struct {
    const char *key;
    bool *value;
  } switches[] = {
      {"enable-global-threadpool", &settings->global_threads},
      {"allow_spinning", &settings->spin},
  };
  settings->strict = strcmp(search, "strict") == 0;
  for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
    const char *text = json_string_value(json_object_get(given, counts[i].key));
    BACKEND_RETURN_IF_ERROR(
        backend_read_integer(where, counts[i].key, text, 0, MAX_THREADS, counts[i].value));
    if (*counts[i].value == 0)
      *counts[i].value = cores;
  }
  for (size_t i = 0; i < sizeof(switches) / sizeof(switches[0]); i++) {
    const char *text = json_string_value(json_object_get(given, switches[i].key));
    BACKEND_RETURN_IF_ERROR(backend_read_bool(where, switches[i].key, text, switches[i].value));
  }
  return NULL;
}

static TRITONSERVER_Error *read_settings(const json_t *given, void **settings)
{
  *settings = calloc(1, sizeof(ort_runtime_settings));
  return *settings == NULL ? backend_error_no_memory("the backend")
                           : fill_settings(given, *settings);
}

static TRITONSERVER_Error *check_gpu(const framework_library *library)
{
  return ort_runtime_check_gpu(library->state);
}

const framework_functions framework_definition = {
    .framework = {.name = "ONNX Runtime",
                  .backend = "onnxruntime",
                  .package = "onnxruntime",
                  .dir = "onnxruntime/capi",
                  .library = "libonnxruntime.so",
                  .loader_names = {"libonnxruntime.so.1", "libonnxruntime.so"}},
    .library_parameter = "onnxruntime_library",
    .alignment = TENSOR_ALIGNMENT,
    .set_environment = switch_telemetry_off,
    .read_settings = read_settings,
    .check_gpu = check_gpu,
    .open = ort_runtime_open,
    .close = ort_runtime_close,
    .load = onnx_model_load,
    .complete = onnx_model_complete,
    .unload = onnx_model_unload,
    .instance_new = onnx_instance_new,
    .instance_free = onnx_instance_free,
    .begin = onnx_run_begin,
    .add_input = onnx_run_add_input,
    .compute = onnx_run_compute,
    .read_output = onnx_run_read_output,
    .end = onnx_run_end,
};

// SPDX-License-Identifier: Apache-2.0
// Opens ONNX Runtime with dlopen.
#include "ort_runtime.h"

#include "backend_error.h"
#include "backend_log.h"
#include "base/cleanup.h"
#include "ort_provider.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Writes ONNX Runtime's messages to the server's log. Any thread.
static void log_message(void *context, int severity, const char *category, const char *log_id,
                        const char *code_location, const char *message)
{
  static const TRITONSERVER_LogLevel levels[] = {TRITONSERVER_LOG_VERBOSE, TRITONSERVER_LOG_VERBOSE,
                                                 TRITONSERVER_LOG_WARN, TRITONSERVER_LOG_ERROR,
                                                 TRITONSERVER_LOG_ERROR};
  (void)context;
  (void)log_id;
  TRITONSERVER_LogLevel level = severity >= ORT_LOG_VERBOSE && severity <= ORT_LOG_FATAL
                                    ? levels[severity]
                                    : TRITONSERVER_LOG_ERROR;
  BACKEND_LOG(level, NULL, "ONNX Runtime (%s, %s): %s", category, code_location, message);
}

#define ORT_READ(index, name, result, arguments)                                                   \
  memcpy(&api->name, (const char *)table + (index) * sizeof(void *), sizeof(api->name));

static void read_table(ort_api *api, const void *table)
{
  ORT_FUNCTIONS(ORT_READ)
}

static void read_gpu_table(ort_gpu_api *api, const void *table)
{
  ORT_GPU_FUNCTIONS(ORT_READ)
}

static void read_newer(ort_runtime *runtime, const ort_api_base *base)
{
  const void *gpu_table = base->GetApi(ORT_GPU_VERSION);
  const char *table_of_functions = base->GetApi(ORT_ADD_DATA_FILES_VERSION);
  runtime->has_gpu_api = gpu_table != NULL;
  if (gpu_table != NULL)
    read_gpu_table(&runtime->gpu, gpu_table);
  if (table_of_functions != NULL)
    memcpy(&runtime->add_data_files, table_of_functions + ORT_ADD_DATA_FILES_INDEX * sizeof(void *),
           sizeof(runtime->add_data_files));
}

// The library's directory, where ONNX Runtime looks for its providers; found as ONNX Runtime does.
static char *dir_of(const void *symbol)
{
  Dl_info info = {0};
  if (symbol == NULL || dladdr(symbol, &info) == 0)
    return NULL;
  char *path = info.dli_fname[0] == '/' ? strdup(info.dli_fname) : realpath(info.dli_fname, NULL);
  char *slash = path != NULL ? strrchr(path, '/') : NULL;
  if (slash != NULL)
    *slash = '\0';
  return path;
}

static TRITONSERVER_Error *load_functions(ort_runtime *runtime)
{
  void *library = dlopen(runtime->path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == NULL)
    return backend_error(TRITONSERVER_ERROR_NOT_FOUND, "%s", dlerror());
  const ort_api_base *(*get_base)(void) = NULL;
  void *symbol = dlsym(library, "OrtGetApiBase");
  memcpy(&get_base, &symbol, sizeof(get_base));
  runtime->dir = dir_of(symbol);
  TRITONSERVER_Error *error = NULL;
  if (get_base == NULL) {
    error = backend_error(TRITONSERVER_ERROR_UNSUPPORTED,
                          "'%s' is not ONNX Runtime: it has no OrtGetApiBase", runtime->path);
  } else {
    const ort_api_base *base = get_base();
    const void *table = base->GetApi(ORT_API_VERSION_NEEDED);
    runtime->version = base->GetVersionString();
    if (table != NULL) {
      read_table(&runtime->api, table);
      read_newer(runtime, base);
    } else {
      error = backend_error(TRITONSERVER_ERROR_UNSUPPORTED,
                            "'%s' is ONNX Runtime %s, 1.%d or newer is needed", runtime->path,
                            runtime->version, ORT_API_VERSION_NEEDED);
    }
  }
  dlclose(library);
  return error;
}

static TRITONSERVER_Error *set_global_threads(const ort_runtime *runtime,
                                              const ort_runtime_settings *settings,
                                              ort_threading_options *options)
{
  const ort_api *api = &runtime->api;
  ORT_RETURN_IF_ERROR(runtime,
                      api->SetGlobalIntraOpNumThreads(options, (int)settings->intra_op_threads));
  ORT_RETURN_IF_ERROR(runtime,
                      api->SetGlobalInterOpNumThreads(options, (int)settings->inter_op_threads));
  return ort_error(runtime, api->SetGlobalSpinControl(options, settings->spin));
}

static TRITONSERVER_Error *create_env(ort_runtime *runtime, const ort_runtime_settings *settings)
{
  const ort_api *api = &runtime->api;
  int level =
      TRITONSERVER_LogIsEnabled(TRITONSERVER_LOG_VERBOSE) ? ORT_LOG_VERBOSE : ORT_LOG_WARNING;
  if (!settings->global_threads)
    return ort_error(
        runtime, api->CreateEnvWithCustomLogger(log_message, NULL, level, "nereid", &runtime->env));
  ort_threading_options *options;
  ORT_RETURN_IF_ERROR(runtime, api->CreateThreadingOptions(&options));
  TRITONSERVER_Error *error = set_global_threads(runtime, settings, options);
  if (error == NULL)
    error = ort_error(runtime, api->CreateEnvWithCustomLoggerAndGlobalThreadPools(
                                   log_message, NULL, level, "nereid", options, &runtime->env));
  api->ReleaseThreadingOptions(options);
  runtime->global_threads = true;
  return error;
}

static TRITONSERVER_Error *open_runtime(ort_runtime *runtime, const ort_runtime_settings *settings)
{
  BACKEND_RETURN_IF_ERROR(load_functions(runtime));
  BACKEND_RETURN_IF_ERROR(create_env(runtime, settings));
  ORT_RETURN_IF_ERROR(runtime, runtime->api.CreateCpuMemoryInfo(
                                   ORT_ALLOCATOR_ARENA, ORT_MEMORY_DEFAULT, &runtime->cpu_memory));
  return ort_error(runtime, runtime->api.GetAllocatorWithDefaultOptions(&runtime->allocator));
}

TRITONSERVER_Error *ort_runtime_open(framework_library *library)
{
  ort_runtime *runtime = calloc(1, sizeof(*runtime));
  library->state = runtime;
  if (runtime == NULL)
    return backend_error_no_memory("ONNX Runtime");
  runtime->path = library->path;
  runtime->strict = ((const ort_runtime_settings *)library->settings)->strict;
  BACKEND_RETURN_IF_ERROR(open_runtime(runtime, library->settings));
  library->version = runtime->version;
  return NULL;
}

void ort_runtime_close(framework_library *library)
{
  ort_runtime *runtime = library->state;
  if (runtime == NULL)
    return;
  if (runtime->cpu_memory != NULL)
    runtime->api.ReleaseMemoryInfo(runtime->cpu_memory);
  if (runtime->env != NULL)
    runtime->api.ReleaseEnv(runtime->env);
  free(runtime->dir);
  free(runtime);
}

TRITONSERVER_Error *ort_error(const ort_runtime *runtime, ort_status *status_owned)
{
  if (status_owned == NULL)
    return NULL;
  char *line AUTO_FREE = backend_one_line(runtime->api.GetErrorMessage(status_owned));
  TRITONSERVER_Error *error =
      line == NULL ? backend_error_no_memory("an error of ONNX Runtime")
                   : backend_error_internal("onnx runtime error %d: %s",
                                            runtime->api.GetErrorCode(status_owned), line);
  runtime->api.ReleaseStatus(status_owned);
  return error;
}

TRITONSERVER_Error *ort_runtime_has_provider(const ort_runtime *runtime, const char *name,
                                             bool *found, char **all)
{
  char **names = NULL;
  int count = 0;
  ORT_RETURN_IF_ERROR(runtime, runtime->api.GetAvailableProviders(&names, &count));
  *found = false;
  char *text = NULL;
  size_t size = 0;
  FILE *stream = open_memstream(&text, &size);
  for (int i = 0; i < count; i++) {
    *found = *found || strcmp(names[i], name) == 0;
    if (stream != NULL)
      fprintf(stream, i == 0 ? "%s" : ", %s", names[i]);
  }
  if (stream != NULL)
    fclose(stream);
  *all = text;
  return ort_error(runtime, runtime->api.ReleaseAvailableProviders(names, count));
}

// ---- providers on GPUs ----

static const char cuda_provider[] = "CUDAExecutionProvider";

// The provider's file, beside ONNX Runtime's library.
static const char *file_of(const char *provider)
{
  return strcmp(provider, cuda_provider) == 0 ? "libonnxruntime_providers_cuda.so"
                                              : "libonnxruntime_providers_tensorrt.so";
}

static TRITONSERVER_Error *check_provider(const ort_runtime *runtime, const char *provider)
{
  bool found = false;
  char *all AUTO_FREE = NULL;
  BACKEND_RETURN_IF_ERROR(ort_runtime_has_provider(runtime, provider, &found, &all));
  if (found && runtime->has_gpu_api && runtime->dir != NULL &&
      ort_provider_exists(runtime->dir, file_of(provider)))
    return NULL;
  const char *lack = !found                  ? "is built without it"
                     : !runtime->has_gpu_api ? "is older than 1.16"
                                             : "has no library of it beside its own";
  return backend_error(TRITONSERVER_ERROR_UNSUPPORTED,
                       "%s is needed, and ONNX Runtime %s from '%s' %s (it has: %s); pip install "
                       "onnxruntime-gpu",
                       provider, runtime->version, runtime->path, lack, all == NULL ? "" : all);
}

static TRITONSERVER_Error *provider_libraries(const ort_runtime *runtime, const char *provider,
                                              ort_provider_purpose purpose)
{
  BACKEND_RETURN_IF_ERROR(check_provider(runtime, provider));
  return ort_provider_libraries(runtime->dir, file_of(provider), runtime->strict, purpose);
}

TRITONSERVER_Error *ort_runtime_check_gpu(const ort_runtime *runtime)
{
  return provider_libraries(runtime, cuda_provider, ORT_PROVIDER_FIND);
}

TRITONSERVER_Error *ort_runtime_open_provider(const ort_runtime *runtime, const char *provider)
{
  return provider_libraries(runtime, provider, ORT_PROVIDER_OPEN);
}

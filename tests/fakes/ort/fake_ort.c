// SPDX-License-Identifier: Apache-2.0
// The table, options, values and what is recorded; see fake_ort.h.
#include "tests/fakes/ort/fake_ort.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_ROWS 420

// ---- recording ----

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void record_va(const char *format, va_list arguments)
{
  const char *path = getenv("NEREID_FAKE_ORT");
  if (path == NULL)
    return;
  pthread_mutex_lock(&lock);
  FILE *file = fopen(path, "ae");
  if (file != NULL) {
    vfprintf(file, format, arguments);
    fputc('\n', file);
    fclose(file);
  }
  pthread_mutex_unlock(&lock);
}

void record(const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  record_va(format, arguments);
  va_end(arguments);
}

void record_pairs(const char *call, const fake_pairs *pairs)
{
  char text[MOST_OPTIONS * 340] = "";
  size_t length = 0;
  for (size_t i = 0; i < pairs->count; i++)
    length += (size_t)snprintf(text + length, sizeof text - length, "%s\"%s\": \"%s\"",
                               i > 0 ? ", " : "", pairs->keys[i], pairs->values[i]);
  record("{\"call\": \"%s\", \"options\": {%s}}", call, text);
}

struct ort_status *failed(const char *format, ...)
{
  struct ort_status *status = calloc(1, sizeof *status);
  va_list arguments;
  va_start(arguments, format);
  if (status != NULL)
    vsnprintf(status->text, sizeof status->text, format, arguments);
  va_end(arguments);
  return status;
}

int GetErrorCode(const ort_status *status)
{
  (void)status;
  return 1;
}

const char *GetErrorMessage(const ort_status *status)
{
  return status->text;
}

void ReleaseStatus(ort_status *status)
{
  free(status);
}

// ---- pairs ----

void pairs_set(fake_pairs *pairs, const char *key, const char *value)
{
  size_t i = 0;
  while (i < pairs->count && strcmp(pairs->keys[i], key) != 0)
    i++;
  if (i == MOST_OPTIONS)
    abort();
  snprintf(pairs->keys[i], sizeof pairs->keys[i], "%s", key);
  snprintf(pairs->values[i], sizeof pairs->values[i], "%s", value);
  pairs->count += i == pairs->count;
}

const char *pairs_get(const fake_pairs *pairs, const char *key)
{
  for (size_t i = 0; i < pairs->count; i++)
    if (strcmp(pairs->keys[i], key) == 0)
      return pairs->values[i];
  return "";
}

// ---- the environment ----

static int env_mark;

ort_status *CreateEnvWithCustomLogger(ort_log_function log, void *context, int level,
                                      const char *log_id, ort_env **env)
{
  (void)log, (void)context, (void)level, (void)log_id;
  *env = (ort_env *)&env_mark;
  return NULL;
}

ort_status *CreateEnvWithCustomLoggerAndGlobalThreadPools(ort_log_function log, void *context,
                                                          int level, const char *log_id,
                                                          const ort_threading_options *options,
                                                          ort_env **env)
{
  (void)options;
  return CreateEnvWithCustomLogger(log, context, level, log_id, env);
}

void ReleaseEnv(ort_env *env)
{
  (void)env;
}

ort_status *CreateThreadingOptions(ort_threading_options **options)
{
  *options = (ort_threading_options *)&env_mark;
  return NULL;
}

void ReleaseThreadingOptions(ort_threading_options *options)
{
  (void)options;
}

ort_status *SetGlobalIntraOpNumThreads(ort_threading_options *options, int count)
{
  (void)options, (void)count;
  return NULL;
}

ort_status *SetGlobalInterOpNumThreads(ort_threading_options *options, int count)
{
  (void)options, (void)count;
  return NULL;
}

ort_status *SetGlobalSpinControl(ort_threading_options *options, int allow)
{
  (void)options, (void)allow;
  return NULL;
}

ort_status *GetAvailableProviders(char ***names, int *count)
{
  static char *all[] = {"TensorrtExecutionProvider", "CUDAExecutionProvider",
                        "CPUExecutionProvider"};
  *names = all;
  *count = 3;
  return NULL;
}

ort_status *ReleaseAvailableProviders(char **names, int count)
{
  (void)names, (void)count;
  return NULL;
}

// ---- memory ----

ort_status *GetAllocatorWithDefaultOptions(ort_allocator **allocator)
{
  *allocator = (ort_allocator *)&env_mark;
  return NULL;
}

ort_status *AllocatorFree(ort_allocator *allocator, void *memory)
{
  (void)allocator;
  free(memory);
  return NULL;
}

ort_status *CreateMemoryInfo(const char *name, int allocator, int device, int memory,
                             ort_memory_info **info)
{
  record("{\"call\": \"CreateMemoryInfo\", \"name\": \"%s\", \"allocator\": %d, \"device\": %d, "
         "\"memory\": %d}",
         name, allocator, device, memory);
  *info = calloc(1, sizeof **info);
  snprintf((*info)->name, sizeof(*info)->name, "%s", name);
  (*info)->device = device;
  return NULL;
}

ort_status *CreateCpuMemoryInfo(int allocator, int memory, ort_memory_info **info)
{
  return CreateMemoryInfo("Cpu", allocator, 0, memory, info);
}

void ReleaseMemoryInfo(ort_memory_info *info)
{
  free(info);
}

// ---- options of sessions and runs ----

ort_status *CreateSessionOptions(ort_session_options **options)
{
  *options = calloc(1, sizeof **options);
  return NULL;
}

void ReleaseSessionOptions(ort_session_options *options)
{
  free(options);
}

ort_status *AddSessionConfigEntry(ort_session_options *options, const char *key, const char *value)
{
  pairs_set(&options->pairs, key, value);
  return NULL;
}

#define TAKEN(name)                                                                                \
  ort_status *name(ort_session_options *options, int value)                                        \
  {                                                                                                \
    (void)options, (void)value;                                                                    \
    return NULL;                                                                                   \
  }
TAKEN(SetSessionExecutionMode)
TAKEN(SetSessionGraphOptimizationLevel)
TAKEN(SetIntraOpNumThreads)
TAKEN(SetInterOpNumThreads)
#undef TAKEN
#define TAKEN(name)                                                                                \
  ort_status *name(ort_session_options *options)                                                   \
  {                                                                                                \
    (void)options;                                                                                 \
    return NULL;                                                                                   \
  }
TAKEN(EnableMemPattern)
TAKEN(DisableMemPattern)
TAKEN(EnableCpuMemArena)
TAKEN(DisableCpuMemArena)
TAKEN(DisablePerSessionThreads)
#undef TAKEN

ort_status *SessionOptionsAppendExecutionProvider(ort_session_options *options, const char *name,
                                                  const char *const *keys,
                                                  const char *const *values, size_t count)
{
  (void)options, (void)keys, (void)values, (void)count;
  return failed("Unknown provider name '%s'", name);
}

ort_status *RegisterCustomOpsLibrary_V2(ort_session_options *options, const char *path)
{
  (void)options;
  return failed("Failed to load library %s", path);
}

ort_status *CreateRunOptions(ort_run_options **options)
{
  *options = calloc(1, sizeof **options);
  return NULL;
}

void ReleaseRunOptions(ort_run_options *options)
{
  free(options);
}

ort_status *AddRunConfigEntry(ort_run_options *options, const char *key, const char *value)
{
  pairs_set(&options->pairs, key, value);
  return NULL;
}

// ---- providers ----

static ort_status *update(const char *call, fake_pairs *pairs, const char *const *known,
                          const char *const *keys, const char *const *values, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    size_t k = 0;
    while (known[k] != NULL && strncmp(keys[i], known[k], strlen(known[k])) != 0)
      k++;
    if (known[k] == NULL)
      return failed("Unknown provider option: \"%s\".", keys[i]);
    pairs_set(pairs, keys[i], values[i]);
  }
  record_pairs(call, pairs);
  return NULL;
}

// The library beside this one, which names those of CUDA: it opens when they are known.
static ort_status *open_provider(const char *file)
{
  Dl_info info;
  char path[4096];
  if (dladdr((void *)&env_mark, &info) == 0)
    return failed("no path");
  snprintf(path, sizeof path, "%.*s/%s", (int)(strrchr(info.dli_fname, '/') - info.dli_fname),
           info.dli_fname, file);
  return dlopen(path, RTLD_NOW | RTLD_LOCAL) != NULL
             ? NULL
             : failed("Failed to load library %s with error: %s", file, dlerror());
}

ort_status *CreateCUDAProviderOptions(ort_cuda_options **provider)
{
  *provider = calloc(1, sizeof **provider);
  return NULL;
}

void ReleaseCUDAProviderOptions(ort_cuda_options *provider)
{
  free(provider);
}

ort_status *UpdateCUDAProviderOptions(ort_cuda_options *provider, const char *const *keys,
                                      const char *const *values, size_t count)
{
  static const char *const known[] = {"device_id",
                                      "has_user_compute_stream",
                                      "gpu_mem_limit",
                                      "arena_extend_strategy",
                                      "cudnn_conv",
                                      "do_copy_in_default_stream",
                                      "enable_cuda_graph",
                                      "tunable_op_",
                                      "enable_skip_layer_norm_strict_mode",
                                      "prefer_nhwc",
                                      "use_ep_level_unified_stream",
                                      "use_tf32",
                                      "gelu_disable_half2",
                                      "fuse_conv_bias",
                                      "sdpa_kernel",
                                      NULL};
  return update("UpdateCUDAProviderOptions", &provider->pairs, known, keys, values, count);
}

ort_status *UpdateCUDAProviderOptionsWithValue(ort_cuda_options *provider, const char *key,
                                               void *value)
{
  if (strcmp(key, "user_compute_stream") == 0)
    provider->stream = value;
  record("{\"call\": \"UpdateCUDAProviderOptionsWithValue\", \"key\": \"%s\", \"value\": %zu}", key,
         (size_t)value);
  return NULL;
}

ort_status *GetCUDAProviderOptionsAsString(const ort_cuda_options *provider,
                                           ort_allocator *allocator, char **text)
{
  char *to = NULL;
  size_t size = 0;
  (void)allocator;
  FILE *stream = open_memstream(&to, &size);
  for (size_t i = 0; i < provider->pairs.count; i++)
    fprintf(stream, "%s%s=%s", i > 0 ? ";" : "", provider->pairs.keys[i],
            provider->pairs.values[i]);
  fclose(stream);
  *text = to;
  return NULL;
}

ort_status *SessionOptionsAppendExecutionProvider_CUDA_V2(ort_session_options *options,
                                                          const ort_cuda_options *provider)
{
  record("{\"call\": \"AppendCUDA\", \"device\": %d}",
         atoi(pairs_get(&provider->pairs, "device_id")));
  options->has_cuda = true;
  options->cuda = *provider;
  return open_provider("libonnxruntime_providers_cuda.so");
}

ort_status *CreateTensorRTProviderOptions(ort_tensorrt_options **provider)
{
  *provider = calloc(1, sizeof **provider);
  return NULL;
}

void ReleaseTensorRTProviderOptions(ort_tensorrt_options *provider)
{
  free(provider);
}

ort_status *UpdateTensorRTProviderOptions(ort_tensorrt_options *provider, const char *const *keys,
                                          const char *const *values, size_t count)
{
  static const char *const known[] = {"device_id", "has_user_compute_stream", "trt_", NULL};
  return update("UpdateTensorRTProviderOptions", &provider->pairs, known, keys, values, count);
}

ort_status *UpdateTensorRTProviderOptionsWithValue(ort_tensorrt_options *provider, const char *key,
                                                   void *value)
{
  if (strcmp(key, "user_compute_stream") == 0)
    provider->stream = value;
  record("{\"call\": \"UpdateTensorRTProviderOptionsWithValue\", \"key\": \"%s\", \"value\": %zu}",
         key, (size_t)value);
  return NULL;
}

ort_status *SessionOptionsAppendExecutionProvider_TensorRT_V2(ort_session_options *options,
                                                              const ort_tensorrt_options *provider)
{
  record("{\"call\": \"AppendTensorRT\", \"device\": %d}",
         atoi(pairs_get(&provider->pairs, "device_id")));
  options->has_tensorrt = true;
  options->tensorrt = *provider;
  return open_provider("libonnxruntime_providers_tensorrt.so");
}

// ---- the driver ----

static fake_driver functions;
static bool has_driver;

static void open_driver(void)
{
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
#define READ(name, arguments)                                                                      \
  {                                                                                                \
    void *symbol = library != NULL ? dlsym(library, #name) : NULL;                                 \
    memcpy(&functions.name, &symbol, sizeof symbol);                                               \
  }
  CUDA_FUNCTIONS(READ, READ)
#undef READ
  has_driver = functions.cuInit != NULL;
}

const fake_driver *driver(void)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, open_driver);
  return has_driver ? &functions : NULL;
}

// ---- the table ----

static const void *table[TABLE_ROWS];

static void fill_table(void)
{
#define ROW(index, name, result, arguments)                                                        \
  {                                                                                                \
    result(*function) arguments = name;                                                            \
    memcpy(&table[index], &function, sizeof function);                                             \
  }
  ORT_FUNCTIONS(ROW)
  ORT_GPU_FUNCTIONS(ROW)
#undef ROW
}

static const void *get_api(uint32_t version)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, fill_table);
  return version <= FAKE_ORT_VERSION && version < ORT_ADD_DATA_FILES_VERSION ? table : NULL;
}

static const char *get_version(void)
{
  return FAKE_ORT_VERSION_TEXT;
}

__attribute__((visibility("default"))) const ort_api_base *OrtGetApiBase(void);
const ort_api_base *OrtGetApiBase(void)
{
  static const ort_api_base base = {get_api, get_version};
  return &base;
}

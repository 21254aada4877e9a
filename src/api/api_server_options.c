// SPDX-License-Identifier: Apache-2.0
// TRITONSERVER_ServerOptions*: stores a program's settings until it starts a server. One thread at
// a time. Only the log's setters act at once, from any thread, and ignore `options`.
#include "core/server_options.h"

#include "api/convert.h"
#include "base/log.h"
#include "base/text.h"
#include "core/rate_limiter.h"
#include "nereid/nereid.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Replaces an owned text.
static TRITONSERVER_Error *set_text(char **field, const char *value)
{
  return text_replace(field, value) ? NULL : error_to_abi(error_no_memory());
}

static TRITONSERVER_Error *add_once(string_list *list, const char *text)
{
  if (string_list_contains(list, text) || string_list_add(list, text))
    return NULL;
  return error_to_abi(error_no_memory());
}

TRITONSERVER_Error *TRITONSERVER_ServerOptionsNew(TRITONSERVER_ServerOptions **options)
{
  server_options *made = malloc(sizeof(*made));
  if (made == NULL)
    return error_to_abi(error_no_memory());
  error *failure = server_options_init(made);
  if (failure != NULL) {
    free(made);
    return error_to_abi(failure);
  }
  *options = made;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_ServerOptionsDelete(TRITONSERVER_ServerOptions *options)
{
  if (options != NULL)
    server_options_fini(options);
  free(options);
  return NULL;
}

// Setters that store one value: the function's name after "TRITONSERVER_ServerOptionsSet", the
// type of its parameter, the field.
#define VALUE_SETTERS(X)                                                                           \
  X(StrictModelConfig, bool, strict_model_config)                                                  \
  X(PinnedMemoryPoolByteSize, uint64_t, pinned_memory_pool_bytes)                                  \
  X(MinSupportedComputeCapability, double, min_compute_capability)                                 \
  X(EnablePeerAccess, bool, enable_peer_access)                                                    \
  X(ExitOnError, bool, exit_on_error)                                                              \
  X(StrictReadiness, bool, strict_readiness)                                                       \
  X(ExitTimeout, unsigned int, exit_timeout_seconds)                                               \
  X(ModelLoadThreadCount, unsigned int, model_load_thread_count)                                   \
  X(ModelLoadRetryCount, unsigned int, model_load_retry_count)                                     \
  X(ModelNamespacing, bool, model_namespacing)                                                     \
  X(Metrics, bool, metrics)                                                                        \
  X(CpuMetrics, bool, cpu_metrics)                                                                 \
  X(GpuMetrics, bool, gpu_metrics)                                                                 \
  X(MetricsInterval, uint64_t, metrics_interval_ms)

#define DEFINE_VALUE_SETTER(name, type, field)                                                     \
  TRITONSERVER_Error *TRITONSERVER_ServerOptionsSet##name(TRITONSERVER_ServerOptions *options,     \
                                                          type value)                              \
  {                                                                                                \
    options->field = value;                                                                        \
    return NULL;                                                                                   \
  }
VALUE_SETTERS(DEFINE_VALUE_SETTER)

// Setters that store a copy of a text.
#define TEXT_SETTERS(X)                                                                            \
  X(ServerId, server_id)                                                                           \
  X(ModelConfigName, model_config_name)                                                            \
  X(BackendDirectory, backend_directory)                                                           \
  X(RepoAgentDirectory, agent_directory)                                                           \
  X(CacheDirectory, cache_directory)

#define DEFINE_TEXT_SETTER(name, field)                                                            \
  TRITONSERVER_Error *TRITONSERVER_ServerOptionsSet##name(TRITONSERVER_ServerOptions *options,     \
                                                          const char *value)                       \
  {                                                                                                \
    return set_text(&options->field, value);                                                       \
  }
TEXT_SETTERS(DEFINE_TEXT_SETTER)

// Setters without effect: GPUs do not need them.
#define IGNORED_SETTERS(X) X(BufferManagerThreadCount, unsigned int)
#define DEFINE_IGNORED_SETTER(name, type)                                                          \
  TRITONSERVER_Error *TRITONSERVER_ServerOptionsSet##name(TRITONSERVER_ServerOptions *options,     \
                                                          type value)                              \
  {                                                                                                \
    (void)options, (void)value;                                                                    \
    return NULL;                                                                                   \
  }
IGNORED_SETTERS(DEFINE_IGNORED_SETTER)

TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetModelRepositoryPath(TRITONSERVER_ServerOptions *options,
                                                 const char *model_repository_path)
{
  return add_once(&options->model_repositories, model_repository_path);
}

TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetModelControlMode(TRITONSERVER_ServerOptions *options,
                                              TRITONSERVER_ModelControlMode mode)
{
  if ((unsigned)mode > TRITONSERVER_MODEL_CONTROL_EXPLICIT)
    return error_to_abi(error_new(ERROR_INVALID_ARG, "unknown control mode '%d'", (int)mode));
  options->model_control_mode = mode;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetStartupModel(TRITONSERVER_ServerOptions *options,
                                                              const char *model_name)
{
  return add_once(&options->startup_models, model_name);
}

TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetRateLimiterMode(TRITONSERVER_ServerOptions *options,
                                             TRITONSERVER_RateLimitMode mode)
{
  if ((unsigned)mode > TRITONSERVER_RATE_LIMIT_EXEC_COUNT)
    return error_to_abi(error_new(ERROR_INVALID_ARG, "unknown rate limit mode '%d'", (int)mode));
  options->rate_limiter_mode = mode;
  return NULL;
}

TRITONSERVER_Error *
TRITONSERVER_ServerOptionsAddRateLimiterResource(TRITONSERVER_ServerOptions *options,
                                                 const char *resource_name, size_t resource_count,
                                                 int device)
{
  return error_to_abi(
      rate_limiter_supply(&options->rate_limiter_resources, resource_name, resource_count, device));
}

// The last value for a device counts.
static TRITONSERVER_Error *set_gpu_size(TRITONSERVER_ServerOptions *options, const char *what,
                                        int device, uint64_t bytes)
{
  char name[16], value[24];
  snprintf(name, sizeof(name), "%d", device);
  snprintf(value, sizeof(value), "%" PRIu64, bytes);
  return error_to_abi(setting_list_put(&options->gpu_sizes, what, name, value));
}

TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetCudaMemoryPoolByteSize(TRITONSERVER_ServerOptions *options,
                                                    int gpu_device, uint64_t size)
{
  return set_gpu_size(options, GPU_POOL_SIZE, gpu_device, size);
}

TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetCudaVirtualAddressSize(
    TRITONSERVER_ServerOptions *options, int gpu_device, size_t cuda_virtual_address_size)
{
  return set_gpu_size(options, GPU_ADDRESS_SPACE_SIZE, gpu_device, cuda_virtual_address_size);
}

TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetCacheConfig(TRITONSERVER_ServerOptions *options,
                                                             const char *cache_name,
                                                             const char *config_json)
{
  return error_to_abi(setting_list_put(&options->cache_configs, cache_name, "config", config_json));
}

TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetResponseCacheByteSize(TRITONSERVER_ServerOptions *options,
                                                   uint64_t size)
{
  char config[48];
  if (size == 0)
    return NULL;
  snprintf(config, sizeof(config), "{\"size\": %" PRIu64 "}", size);
  return TRITONSERVER_ServerOptionsSetCacheConfig(options, "local", config);
}

TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetLogFile(TRITONSERVER_ServerOptions *options,
                                                         const char *file)
{
  (void)options;
  return error_to_abi(log_set_file(file));
}

#define DEFINE_LOG_SETTER(name, level)                                                             \
  TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetLog##name(TRITONSERVER_ServerOptions *options,  \
                                                             bool on)                              \
  {                                                                                                \
    (void)options;                                                                                 \
    log_enable(level, on);                                                                         \
    return NULL;                                                                                   \
  }
DEFINE_LOG_SETTER(Info, LOG_LEVEL_INFO)
DEFINE_LOG_SETTER(Warn, LOG_LEVEL_WARNING)
DEFINE_LOG_SETTER(Error, LOG_LEVEL_ERROR)

TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetLogVerbose(TRITONSERVER_ServerOptions *options,
                                                            int level)
{
  (void)options;
  log_set_verbose(level > 0 ? (uint32_t)level : 0);
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetLogFormat(TRITONSERVER_ServerOptions *options,
                                                           TRITONSERVER_LogFormat format)
{
  _Static_assert((int)LOG_FORMAT_DEFAULT == (int)TRITONSERVER_LOG_DEFAULT &&
                     (int)LOG_FORMAT_ISO8601 == (int)TRITONSERVER_LOG_ISO8601 &&
                     (int)LOG_FORMAT_JSON == NEREID_LOG_JSON,
                 "the log's formats are the ABI's");
  (void)options;
  if ((unsigned)format > NEREID_LOG_JSON)
    return error_to_abi(error_new(ERROR_INVALID_ARG, "unknown log format '%d'", (int)format));
  log_set_format((log_format)format);
  return NULL;
}

TRITONSERVER_Error *
TRITONSERVER_ServerOptionsSetModelLoadDeviceLimit(TRITONSERVER_ServerOptions *options,
                                                  TRITONSERVER_InstanceGroupKind kind,
                                                  int device_id, double fraction)
{
  if (device_id < 0)
    return error_to_abi(error_new(ERROR_INVALID_ARG, "expects device ID >= 0, got %d", device_id));
  if (!(fraction >= 0.0 && fraction <= 1.0))
    return error_to_abi(error_new(
        ERROR_INVALID_ARG, "expects limit fraction to be in range [0.0, 1.0], got %f", fraction));
  if (kind != TRITONSERVER_INSTANCEGROUPKIND_GPU)
    return error_to_abi(error_new(ERROR_INVALID_ARG, "given device kind is not supported, got: %s",
                                  TRITONSERVER_InstanceGroupKindString(kind)));
  char name[64];
  char value[32];
  snprintf(name, sizeof(name), "model-load-gpu-limit-device-%d", device_id);
  snprintf(value, sizeof(value), "%f", fraction);
  return error_to_abi(setting_list_add(&options->backend_settings, "", name, value));
}

TRITONSERVER_Error *NEREID_ServerOptionsOnGpuFailure(TRITONSERVER_ServerOptions *options,
                                                     NEREID_GpuFailedFn_t failed, void *context)
{
  options->gpu_failed = failed;
  options->gpu_failed_context = context;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetBackendConfig(TRITONSERVER_ServerOptions *options,
                                                               const char *backend_name,
                                                               const char *name, const char *value)
{
  return error_to_abi(setting_list_add(&options->backend_settings, backend_name, name, value));
}

TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetHostPolicy(TRITONSERVER_ServerOptions *options,
                                                            const char *policy_name,
                                                            const char *name, const char *value)
{
  if (strcmp(name, "numa-node") != 0 && strcmp(name, "cpu-cores") != 0)
    return error_to_abi(error_new(ERROR_UNSUPPORTED,
                                  "Unsupported host policy setting '%s' is specified, supported "
                                  "settings are 'numa-node', 'cpu-cores'",
                                  name));
  return error_to_abi(setting_list_put(&options->host_policies, policy_name, name, value));
}

TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetMetricsConfig(TRITONSERVER_ServerOptions *options,
                                                               const char *group, const char *name,
                                                               const char *value)
{
  return error_to_abi(setting_list_add(&options->metrics_settings, group, name, value));
}

API_SET(NEREID_ServerOptionsSetBackgroundLoad, TRITONSERVER_ServerOptions, bool, background_load)
API_SET(NEREID_ServerOptionsSetRepositoryPollSeconds, TRITONSERVER_ServerOptions, unsigned,
        poll_seconds)

TRITONSERVER_Error *NEREID_ServerOptionsKeepLinks(TRITONSERVER_ServerOptions *options,
                                                  const char *dir)
{
  options->keeps_links = true;
  return dir == NULL ? NULL : add_once(&options->link_dirs, dir);
}

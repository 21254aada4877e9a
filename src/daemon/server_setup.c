// SPDX-License-Identifier: Apache-2.0
// Hands the flags to the server.
#include "daemon/server_setup.h"

#include "base/text.h"
#include "daemon/cache_setup.h"
#include "frontend/common/observe/abi_error.h"
#include "frontend/common/observe/frontend_log.h"
#include "frontend/common/observe/log_settings.h"
#include "nereid/nereid.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRY(call) RETURN_IF_ERROR(error_from_abi(call))

// ---- values with a form of their own ----

typedef TRITONSERVER_Error *setting_setter(TRITONSERVER_ServerOptions *options, const char *group,
                                           const char *name, const char *value);

// A flag of the form "<group>,<name>=<value>". A missing group is "".
typedef struct grouped_flag {
  const char *name;
  const char *form; // as the error says it
  bool group_needed;
  setting_setter *set;
} grouped_flag;

static error *set_grouped(TRITONSERVER_ServerOptions *options, const grouped_flag *flag,
                          const char *text)
{
  size_t head_size = strcspn(text, "="); // values may hold commas
  const char *comma = memchr(text, ',', head_size);
  size_t group_size = comma != NULL ? (size_t)(comma - text) : 0;
  size_t name_start = comma != NULL ? group_size + 1 : 0;
  if ((flag->group_needed && group_size == 0) || name_start == head_size ||
      text[head_size] == '\0' || text[head_size + 1] == '\0')
    return option_bad_value(flag->name, text, flag->form);
  char *group = text_copy((slice){text, group_size});
  char *name = text_copy((slice){text + name_start, head_size - name_start});
  error *e = group == NULL || name == NULL
                 ? error_no_memory()
                 : error_from_abi(flag->set(options, group, name, text + head_size + 1));
  free(group);
  free(name);
  return e;
}

static error *set_all_grouped(TRITONSERVER_ServerOptions *options, const grouped_flag *flag,
                              const string_list *texts)
{
  for (size_t i = 0; i < texts->count; i++)
    RETURN_IF_ERROR(set_grouped(options, flag, texts->items[i]));
  return NULL;
}

static int device_of(int64_t number)
{
  return number < 0 || number > INT_MAX ? -1 : (int)number;
}

// "<name>:<count>[:<device>]". As in Triton, the numbers' ranges are not checked.
static error *add_resource(TRITONSERVER_ServerOptions *options, const char *text)
{
  const char *colon = strchr(text, ':');
  const char *rest = "";
  int64_t count = 0;
  int64_t device = -1;
  bool valid = colon != NULL && text_begins_int64(colon + 1, &count, &rest);
  const char *second = valid ? strchr(rest, ':') : NULL;
  if (second != NULL)
    valid = text_begins_int64(second + 1, &device, &rest) && strchr(rest, ':') == NULL;
  if (!valid)
    return option_bad_value("rate-limit-resource", text, "<name>:<count>[:<device>]");
  char *name = text_copy((slice){text, (size_t)(colon - text)});
  if (name == NULL)
    return error_no_memory();
  error *e = error_from_abi(TRITONSERVER_ServerOptionsAddRateLimiterResource(
      options, name, count > 0 ? (size_t)count : 0, device_of(device)));
  free(name);
  return e;
}

// "<device>:<number>", as Triton's command line takes it.
static bool read_device(const char *text, int64_t *device, const char **number)
{
  const char *rest;
  const char *colon = strchr(text, ':');
  *number = colon != NULL ? colon + 1 : text;
  return colon != NULL && text_begins_int64(text, device, &rest);
}

typedef TRITONSERVER_Error *device_setter(TRITONSERVER_ServerOptions *options, int device,
                                          size_t bytes);

static error *add_device_bytes(TRITONSERVER_ServerOptions *options, const char *flag,
                               const char *text, device_setter *set)
{
  int64_t device, bytes;
  const char *number, *rest;
  if (!read_device(text, &device, &number) || !text_begins_int64(number, &bytes, &rest))
    return option_bad_value(flag, text, "<device>:<bytes>");
  return error_from_abi(set(options, device_of(device), bytes > 0 ? (size_t)bytes : 0));
}

static error *add_load_limit(TRITONSERVER_ServerOptions *options, const char *text)
{
  int64_t device;
  double fraction;
  const char *number, *rest;
  if (!read_device(text, &device, &number) || !text_begins_double(number, &fraction, &rest))
    return option_bad_value("model-load-gpu-limit", text, "<device>:<fraction>");
  error *e = error_from_abi(TRITONSERVER_ServerOptionsSetModelLoadDeviceLimit(
      options, TRITONSERVER_INSTANCEGROUPKIND_GPU, device_of(device), fraction));
  return e == NULL ? NULL : error_wrap(e, "--model-load-gpu-limit");
}

// ---- where our own backends, agents and caches are ----

// Appends `suffix` to the executable's directory; false when there is no such directory.
static bool beside_executable(const char *suffix, char path[PATH_MAX])
{
  char executable[PATH_MAX];
  ssize_t size = readlink("/proc/self/exe", executable, sizeof(executable) - 1);
  if (size < 0)
    return false;
  executable[size] = '\0';
  char *slash = strrchr(executable, '/');
  if (slash == NULL)
    return false;
  *slash = '\0';
  char joined[2 * PATH_MAX];
  snprintf(joined, sizeof(joined), "%s/%s", executable, suffix);
  return realpath(joined, path) != NULL;
}

typedef TRITONSERVER_Error *dir_setter(TRITONSERVER_ServerOptions *options, const char *dir);

// Sets `chosen`; when it is "", our own directory, installed or built.
static error *set_plugin_dir(TRITONSERVER_ServerOptions *options, dir_setter *set,
                             const char *chosen, const char *installed, const char *built)
{
  char path[PATH_MAX];
  if (chosen[0] != '\0')
    return error_from_abi(set(options, chosen));
  if (beside_executable(installed, path) || beside_executable(built, path))
    return error_from_abi(set(options, path));
  return NULL; // Triton's own default
}

// ---- all of it ----

static error *set_logging(TRITONSERVER_ServerOptions *s, const daemon_options *o)
{
  int format = TRITONSERVER_LOG_DEFAULT;
  log_settings_format_of(o->log_format, &format); // one of the option's choices
  TRY(TRITONSERVER_ServerOptionsSetLogInfo(s, o->log_info));
  TRY(TRITONSERVER_ServerOptionsSetLogWarn(s, o->log_warning));
  TRY(TRITONSERVER_ServerOptionsSetLogError(s, o->log_error));
  TRY(TRITONSERVER_ServerOptionsSetLogVerbose(s, (int)o->log_verbose));
  TRY(TRITONSERVER_ServerOptionsSetLogFormat(s, (TRITONSERVER_LogFormat)format));
  if (o->log_file[0] == '\0')
    return NULL;
  AUTO_ERROR error *e = error_from_abi(TRITONSERVER_ServerOptionsSetLogFile(s, o->log_file));
  if (e != NULL) // Triton serves on, too
    frontend_log_warning("--log-file: %s; lines go to standard output and error", error_message(e));
  return NULL;
}

static error *set_on_demand(TRITONSERVER_ServerOptions *s, const daemon_options *o)
{
  uint64_t budget;
  const bool on_demand = strcmp(o->model_control_mode, "ondemand") == 0;
  if (!text_to_bytes(slice_of(o->model_memory_budget), &budget))
    return option_bad_value("model-memory-budget", o->model_memory_budget, "<bytes>[K|M|G|T]");
  if (on_demand)
    return error_from_abi(NEREID_ServerOptionsSetOnDemand(s, budget));
  if (budget > 0)
    frontend_log_warning("--model-memory-budget has no effect without "
                         "--model-control-mode=ondemand");
  return NULL;
}

static error *set_repository(TRITONSERVER_ServerOptions *s, const daemon_options *o)
{
  static const struct {
    const char *name;
    TRITONSERVER_ModelControlMode mode;
  } modes[] = {{"none", TRITONSERVER_MODEL_CONTROL_NONE},
               {"poll", TRITONSERVER_MODEL_CONTROL_POLL},
               {"explicit", TRITONSERVER_MODEL_CONTROL_EXPLICIT}};
  for (size_t i = 0; i < o->model_repositories.count; i++)
    TRY(TRITONSERVER_ServerOptionsSetModelRepositoryPath(s, o->model_repositories.items[i]));
  for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
    if (strcmp(modes[i].name, o->model_control_mode) == 0)
      TRY(TRITONSERVER_ServerOptionsSetModelControlMode(s, modes[i].mode));
  TRY(NEREID_ServerOptionsSetRepositoryPollSeconds(s, (unsigned)o->repository_poll_secs));
  RETURN_IF_ERROR(set_on_demand(s, o));
  for (size_t i = 0; i < o->load_models.count; i++)
    TRY(TRITONSERVER_ServerOptionsSetStartupModel(s, o->load_models.items[i]));
  TRY(TRITONSERVER_ServerOptionsSetStrictModelConfig(s, o->strict_model_config ||
                                                            o->disable_auto_complete));
  TRY(TRITONSERVER_ServerOptionsSetModelConfigName(s, o->model_config_name));
  TRY(TRITONSERVER_ServerOptionsSetModelLoadThreadCount(s, (unsigned)o->model_load_thread_count));
  TRY(TRITONSERVER_ServerOptionsSetModelLoadRetryCount(s, (unsigned)o->model_load_retry_count));
  return error_from_abi(TRITONSERVER_ServerOptionsSetModelNamespacing(s, o->model_namespacing));
}

// Frameworks are also searched in the packages of the Python that runs Python models; under
// --secure only where no other user can have written.
static error *set_framework_search(TRITONSERVER_ServerOptions *s, const daemon_options *o)
{
  static const char setting[] = "python,python-executable=";
  if (o->secure)
    TRY(TRITONSERVER_ServerOptionsSetBackendConfig(s, "", "framework-search", "strict"));
  for (size_t i = 0; i < o->backend_configs.count; i++)
    if (text_starts_with(o->backend_configs.items[i], setting))
      TRY(TRITONSERVER_ServerOptionsSetBackendConfig(
          s, "", "python-executable", o->backend_configs.items[i] + strlen(setting)));
  return NULL;
}

// Links may lead only into the repositories and these directories.
static error *set_links(TRITONSERVER_ServerOptions *s, const daemon_options *o)
{
  if (!o->secure && o->model_repository_allows.count > 0)
    frontend_log_warning(
        "--model-repository-allow has no effect without --secure: links are followed "
        "wherever they lead");
  if (!o->secure)
    return NULL;
  TRY(NEREID_ServerOptionsKeepLinks(s, NULL));
  for (size_t i = 0; i < o->model_repository_allows.count; i++)
    TRY(NEREID_ServerOptionsKeepLinks(s, o->model_repository_allows.items[i]));
  return NULL;
}

static error *set_backends(TRITONSERVER_ServerOptions *s, const daemon_options *o)
{
  static const grouped_flag backend_config = {"backend-config", "[<backend>,]<setting>=<value>",
                                              false, TRITONSERVER_ServerOptionsSetBackendConfig};
  static const grouped_flag host_policy = {"host-policy", "<policy>,<setting>=<value>", true,
                                           TRITONSERVER_ServerOptionsSetHostPolicy};
  RETURN_IF_ERROR(set_plugin_dir(s, TRITONSERVER_ServerOptionsSetBackendDirectory,
                                 o->backend_directory, INSTALLED_BACKENDS, "../backends"));
  RETURN_IF_ERROR(set_plugin_dir(s, TRITONSERVER_ServerOptionsSetRepoAgentDirectory,
                                 o->repository_agent_directory, INSTALLED_AGENTS, "../repoagents"));
  RETURN_IF_ERROR(set_plugin_dir(s, TRITONSERVER_ServerOptionsSetCacheDirectory, o->cache_directory,
                                 INSTALLED_CACHES, "../caches"));
  RETURN_IF_ERROR(set_links(s, o));
  // before --backend-config, which may say otherwise
  TRY(TRITONSERVER_ServerOptionsSetBackendConfig(s, "", "worker-sandbox", o->worker_sandbox));
  if (o->strict_outputs)
    TRY(TRITONSERVER_ServerOptionsSetBackendConfig(s, "", "strict-outputs", "true"));
  RETURN_IF_ERROR(set_framework_search(s, o));
  RETURN_IF_ERROR(set_all_grouped(s, &backend_config, &o->backend_configs));
  RETURN_IF_ERROR(set_all_grouped(s, &host_policy, &o->host_policies));
  bool limited = strcmp(o->rate_limit, "off") != 0;
  TRY(TRITONSERVER_ServerOptionsSetRateLimiterMode(s, limited ? TRITONSERVER_RATE_LIMIT_EXEC_COUNT
                                                              : TRITONSERVER_RATE_LIMIT_OFF));
  for (size_t i = 0; i < o->rate_limit_resources.count; i++)
    RETURN_IF_ERROR(add_resource(s, o->rate_limit_resources.items[i]));
  return error_from_abi(NEREID_ServerOptionsSetBackgroundLoad(s, true));
}

static error *set_memory(TRITONSERVER_ServerOptions *s, const daemon_options *o)
{
  TRY(TRITONSERVER_ServerOptionsSetPinnedMemoryPoolByteSize(s,
                                                            (uint64_t)o->pinned_memory_pool_bytes));
  for (size_t i = 0; i < o->cuda_memory_pools.count; i++)
    RETURN_IF_ERROR(add_device_bytes(s, "cuda-memory-pool-byte-size", o->cuda_memory_pools.items[i],
                                     TRITONSERVER_ServerOptionsSetCudaMemoryPoolByteSize));
  for (size_t i = 0; i < o->cuda_address_spaces.count; i++)
    RETURN_IF_ERROR(add_device_bytes(s, "cuda-virtual-address-size",
                                     o->cuda_address_spaces.items[i],
                                     TRITONSERVER_ServerOptionsSetCudaVirtualAddressSize));
  for (size_t i = 0; i < o->model_load_gpu_limits.count; i++)
    RETURN_IF_ERROR(add_load_limit(s, o->model_load_gpu_limits.items[i]));
  TRY(TRITONSERVER_ServerOptionsSetMinSupportedComputeCapability(s, o->min_compute_capability));
  TRY(TRITONSERVER_ServerOptionsSetEnablePeerAccess(s, o->enable_peer_access));
  return error_from_abi(TRITONSERVER_ServerOptionsSetBufferManagerThreadCount(
      s, (unsigned)o->buffer_manager_thread_count));
}

static error *set_metrics_options(TRITONSERVER_ServerOptions *s, const daemon_options *o)
{
  static const grouped_flag metrics_config = {"metrics-config", "<setting>=<value>", false,
                                              TRITONSERVER_ServerOptionsSetMetricsConfig};
  TRY(TRITONSERVER_ServerOptionsSetMetrics(s, o->allow_metrics));
  TRY(TRITONSERVER_ServerOptionsSetGpuMetrics(s, o->allow_metrics && o->allow_gpu_metrics));
  TRY(TRITONSERVER_ServerOptionsSetCpuMetrics(s, o->allow_metrics && o->allow_cpu_metrics));
  TRY(TRITONSERVER_ServerOptionsSetMetricsInterval(s, (uint64_t)o->metrics_interval_ms));
  return set_all_grouped(s, &metrics_config, &o->metrics_configs);
}

static error *set_all(TRITONSERVER_ServerOptions *s, const daemon_options *o)
{
  RETURN_IF_ERROR(set_logging(s, o));
  TRY(TRITONSERVER_ServerOptionsSetServerId(s, o->id));
  TRY(TRITONSERVER_ServerOptionsSetExitOnError(s, o->exit_on_error));
  TRY(TRITONSERVER_ServerOptionsSetExitTimeout(s, (unsigned)o->exit_timeout_seconds));
  TRY(TRITONSERVER_ServerOptionsSetStrictReadiness(s, o->strict_readiness));
  RETURN_IF_ERROR(set_repository(s, o));
  RETURN_IF_ERROR(set_backends(s, o));
  RETURN_IF_ERROR(cache_setup(s, o));
  RETURN_IF_ERROR(set_memory(s, o));
  return set_metrics_options(s, o);
}

error *server_setup_options(const daemon_options *o, TRITONSERVER_ServerOptions **made)
{
  TRY(TRITONSERVER_ServerOptionsNew(made));
  error *e = set_all(*made, o);
  if (e != NULL)
    TRITONSERVER_ErrorDelete(TRITONSERVER_ServerOptionsDelete(*made));
  return e;
}

error *server_setup(const daemon_options *o, NEREID_GpuFailedFn_t gpu_failed, void *context,
                    TRITONSERVER_Server **server)
{
  TRITONSERVER_ServerOptions *s;
  error *e = NULL;
  RETURN_IF_ERROR(server_setup_options(o, &s));
  if (strcmp(o->on_gpu_fault, "exit") == 0)
    e = error_from_abi(NEREID_ServerOptionsOnGpuFailure(s, gpu_failed, context));
  if (e == NULL)
    e = error_from_abi(TRITONSERVER_ServerNew(server, s));
  TRITONSERVER_ErrorDelete(TRITONSERVER_ServerOptionsDelete(s));
  return e;
}

// SPDX-License-Identifier: Apache-2.0
// The options that TRITONSERVER_ServerOptions* sets: plain fields, copied by the server at start.
// One owner, one thread. Log settings are not here: they act on the live logger.
#ifndef NEREID_CORE_SERVER_OPTIONS_H
#define NEREID_CORE_SERVER_OPTIONS_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/string_list.h"
#include "triton/core/tritonserver.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct TRITONSERVER_ServerOptions server_options;

// setting=value of a group: a backend, a host policy, a group of metrics. "" is the group for all.
typedef struct setting {
  char *group; // each owned
  char *name;
  char *value;
} setting;

typedef struct setting_list {
  setting *items; // in the order given
  size_t count;
} setting_list;

#define GPU_POOL_SIZE          "cuda_memory_pool_byte_size"
#define GPU_ADDRESS_SPACE_SIZE "cuda_virtual_address_size"

struct TRITONSERVER_ServerOptions {
  char *server_id; // every char * is owned and never NULL

  string_list model_repositories; // without repetitions, in the order given
  TRITONSERVER_ModelControlMode model_control_mode;
  unsigned int poll_seconds;  // between the server's own polls; 0: the program calls for polls
  string_list startup_models; // without repetitions; "*" is all
  bool strict_model_config;
  char *model_config_name;      // "": the default configuration
  bool on_demand;               // explicit control, and requests load models that are not loaded
  uint64_t memory_budget_bytes; // for models on demand; 0: no budget
  bool model_namespacing;
  unsigned int model_load_thread_count;
  unsigned int model_load_retry_count;

  bool exit_on_error;
  bool strict_readiness;
  bool background_load; // server_poll begins to load the start-up models, not server_new
  unsigned int exit_timeout_seconds;

  bool keeps_links; // links in repositories are followed only into them and into link_dirs
  string_list link_dirs;

  TRITONSERVER_RateLimitMode rate_limiter_mode;
  setting_list cache_configs; // each group is a cache; its value is the configuration as JSON
  setting_list rate_limiter_resources; // core/rate_limiter.h reads them
  uint64_t pinned_memory_pool_bytes;
  setting_list gpu_sizes; // group: GPU_POOL_SIZE or GPU_ADDRESS_SPACE_SIZE; name: the device
  double min_compute_capability;
  bool enable_peer_access;

  bool metrics;
  bool cpu_metrics;
  bool gpu_metrics;
  uint64_t metrics_interval_ms;
  setting_list metrics_settings;

  // Called on a thread of the server when a GPU that it uses fails; or NULL.
  void (*gpu_failed)(void *context, int device, const char *text);
  void *gpu_failed_context;

  char *backend_directory;
  char *agent_directory;
  char *cache_directory;
  setting_list backend_settings;
  setting_list host_policies;
};

// Sets the defaults, which are Triton's.
error *server_options_init(server_options *options);
void server_options_fini(server_options *options);

// Makes `copy` (not initialised before) equal to `options`.
error *server_options_copy(server_options *copy, const server_options *options);

void setting_list_fini(setting_list *list);
// Appends. An existing setting of this name stays; setting_list_get finds the first.
error *setting_list_add(setting_list *list, const char *group, const char *name, const char *value);
// Replaces the value of `name` in `group`, or appends.
error *setting_list_put(setting_list *list, const char *group, const char *name, const char *value);
// The value, or NULL.
const char *setting_list_get(const setting_list *list, const char *group, const char *name);
// Appends the settings of one group as {"name":"value", ...}.
void setting_list_print(const setting_list *list, const char *group, buffer *out);

#endif

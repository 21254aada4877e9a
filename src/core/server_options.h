// What TRITONSERVER_ServerOptions* sets: plain fields, copied by the server at start. One owner,
// one thread. The log's settings are not here: they act on the live logger.
#ifndef NEREID_CORE_SERVER_OPTIONS_H
#define NEREID_CORE_SERVER_OPTIONS_H

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
  size_t capacity;
} setting_list;

// A size for one GPU.
typedef struct device_size {
  int device;
  uint64_t byte_size;
} device_size;

typedef struct device_size_list {
  device_size *items; // one for a device
  size_t count;
  size_t capacity;
} device_size_list;

// How many of a rate limiter's resource exist.
typedef struct rate_limiter_resource {
  char *name; // owned
  size_t count;
  int device; // -1: shared by the whole server
} rate_limiter_resource;

typedef struct rate_limiter_resource_list {
  rate_limiter_resource *items; // one for a name and device
  size_t count;
  size_t capacity;
} rate_limiter_resource_list;

struct TRITONSERVER_ServerOptions {
  char *server_id; // every char * is owned and never NULL

  string_list model_repositories; // without repetitions, in the order given
  TRITONSERVER_ModelControlMode model_control_mode;
  string_list startup_models; // without repetitions; "*" is all
  bool strict_model_config;
  char *model_config_name; // "": the default configuration
  bool model_namespacing;
  unsigned int model_load_thread_count;
  unsigned int model_load_retry_count;

  bool exit_on_error;
  bool strict_readiness;
  unsigned int exit_timeout_seconds;
  unsigned int buffer_manager_thread_count;

  TRITONSERVER_RateLimitMode rate_limiter_mode;
  rate_limiter_resource_list rate_limiter_resources;

  uint64_t pinned_memory_pool_bytes;
  device_size_list cuda_memory_pools;
  device_size_list cuda_virtual_address_sizes;
  double min_compute_capability;
  bool enable_peer_access;

  bool metrics;
  bool gpu_metrics;
  bool cpu_metrics;
  uint64_t metrics_interval_ms;
  setting_list metrics_settings;

  char *backend_directory;
  char *repository_agent_directory;
  char *cache_directory;
  setting_list backend_settings;
  setting_list host_policies;
  setting_list cache_configs; // group: the cache's name; name ""; value: JSON
};

// Sets the defaults, which are Triton's.
error *server_options_init(server_options *options);
void server_options_fini(server_options *options);

// Makes `copy` (not initialised before) equal to `options`.
error *server_options_copy(server_options *copy, const server_options *options);

void setting_list_fini(setting_list *list);
// Appends; a name that is there already stays there too, and setting_list_get finds the first.
error *setting_list_add(setting_list *list, const char *group, const char *name, const char *value);
// Replaces the value of `name` in `group`, or appends.
error *setting_list_put(setting_list *list, const char *group, const char *name, const char *value);
// The value, or NULL.
const char *setting_list_get(const setting_list *list, const char *group, const char *name);

error *device_size_list_put(device_size_list *list, int device, uint64_t byte_size);

// Of several statements about a resource of a device the smallest counts.
error *rate_limiter_resource_list_add(rate_limiter_resource_list *list, const char *name,
                                      size_t count, int device);

#endif

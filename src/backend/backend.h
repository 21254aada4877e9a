// SPDX-License-Identifier: Apache-2.0
// A backend: a shared library behind the C ABI (TRITONBACKEND_Backend), loaded once for each
// library path, or for each model.py that a library runs, and kept until the server ends. All load
// threads share the registry; a backend's fields are constant after its Initialize function.
#ifndef NEREID_BACKEND_BACKEND_H
#define NEREID_BACKEND_BACKEND_H

#include "base/error.h"
#include "base/string_map.h"
#include "config/config.h"
#include "request/message.h"
#include "triton/core/tritonbackend.h"

#include <pthread.h>
#include <stdbool.h>

// The functions that a library may offer; only model_instance_execute is mandatory.
typedef struct backend_functions {
  TRITONSERVER_Error *(*initialize)(TRITONBACKEND_Backend *);
  TRITONSERVER_Error *(*finalize)(TRITONBACKEND_Backend *);
  TRITONSERVER_Error *(*get_attribute)(TRITONBACKEND_Backend *, TRITONBACKEND_BackendAttribute *);
  TRITONSERVER_Error *(*model_initialize)(TRITONBACKEND_Model *);
  TRITONSERVER_Error *(*model_finalize)(TRITONBACKEND_Model *);
  TRITONSERVER_Error *(*model_instance_initialize)(TRITONBACKEND_ModelInstance *);
  TRITONSERVER_Error *(*model_instance_finalize)(TRITONBACKEND_ModelInstance *);
  TRITONSERVER_Error *(*model_instance_execute)(TRITONBACKEND_ModelInstance *,
                                                TRITONBACKEND_Request **, uint32_t);
  TRITONSERVER_Error *(*model_instance_ready)(TRITONBACKEND_ModelInstance *);
  // Extensions (backends/common/backend_extension.h); execute_begin and execute_end only together:
  TRITONSERVER_Error *(*model_instance_execute_begin)(TRITONBACKEND_ModelInstance *,
                                                      TRITONBACKEND_Request **, uint32_t, bool *);
  void (*model_instance_execute_end)(TRITONBACKEND_ModelInstance *, int64_t, bool *);
  void (*model_instance_ask_ready)(TRITONBACKEND_ModelInstance *);
  uint32_t (*model_instance_max_executions)(TRITONBACKEND_ModelInstance *);
  void (*model_instance_measure_memory)(TRITONBACKEND_ModelInstance *);
  bool (*model_instance_fault)(TRITONBACKEND_ModelInstance *, char *, size_t);
  uint64_t (*model_instance_life)(TRITONBACKEND_ModelInstance *);
  void (*model_cancelled)(TRITONBACKEND_Model *);
  bool (*avoids_gpus)(TRITONBACKEND_Backend *);
} backend_functions;

// The backend's preferences.
typedef struct TRITONBACKEND_BackendAttribute {
  config_preferred_group *groups; // owned
  size_t group_count;
  bool parallel_instance_loading;
  bool avoids_gpus; // groups without kind and GPUs go on the CPU
} backend_attribute;

typedef struct TRITONBACKEND_Backend {
  char *name;
  char *library;   // path of the .so
  char *dir;       // the operator's path of its files: TRITONBACKEND_BackendArtifacts
  message *config; // {"cmdline": {…}}
  void *handle;    // of dlopen
  void *state;     // the backend's own
  struct TRITONBACKEND_MemoryManager *memory_manager; // the registry's
  TRITONBACKEND_ExecutionPolicy policy;
  backend_functions functions;
  backend_attribute attribute;
  bool initialized;   // TRITONBACKEND_Initialize succeeded: Finalize must be called
  bool computes;      // promises that executions never wait (backend_extension.h)
  bool fills;         // promises to write outputs and states completely
  bool reads_on_host; // states that inputs in host memory stay there
} backend;

typedef struct backend_registry {
  pthread_mutex_t lock;
  string_map backends; // by key; guarded by lock, which is held while a library initialises
  struct TRITONBACKEND_MemoryManager *memory_manager; // the owner's, for all backends
} backend_registry;

// The place of a backend.
typedef struct backend_location {
  const char *name;
  const char *library; // path of the .so
  const char *dir;     // see backend.dir
  const char *key;     // the file that identifies the backend: the library or a model.py
} backend_location;

void backend_registry_init(backend_registry *registry,
                           struct TRITONBACKEND_MemoryManager *memory_manager);
// Calls every backend's Finalize. No models may exist.
void backend_registry_fini(backend_registry *registry);

// The backend at `location`; the first call loads and initialises it. TRITONBACKEND_BackendConfig
// shows `config_json`. The registry keeps the backend. Errors: NOT_FOUND/INTERNAL from the loader,
// or the error of the backend's Initialize.
error *backend_registry_get(backend_registry *registry, const backend_location *location,
                            const char *config_json, backend **b);

typedef void backend_visitor(void *context, const backend *b);
void backend_registry_visit(backend_registry *registry, backend_visitor *visit, void *context);

// Adds a preferred group, for TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup.
error *backend_attribute_add_group(backend_attribute *attribute,
                                   Inference__ModelInstanceGroup__Kind kind, uint64_t count,
                                   const uint64_t *devices, uint64_t device_count);

#endif

// SPDX-License-Identifier: Apache-2.0
// A backend: a shared library behind the C ABI (TRITONBACKEND_Backend), loaded once per library
// path, or per model.py that a library runs, and kept until the server ends. The registry is shared
// by all load threads; a backend's fields do not change after its Initialize function returned.
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
  // Both or none (backends/common/backend_extension.h):
  TRITONSERVER_Error *(*model_instance_execute_begin)(TRITONBACKEND_ModelInstance *,
                                                      TRITONBACKEND_Request **, uint32_t, bool *);
  void (*model_instance_execute_end)(TRITONBACKEND_ModelInstance *, int64_t, bool *);
  void (*model_instance_ask_ready)(TRITONBACKEND_ModelInstance *);
  uint32_t (*model_instance_max_executions)(TRITONBACKEND_ModelInstance *); // of the extension too
  void (*model_instance_measure_memory)(TRITONBACKEND_ModelInstance *);     // likewise
  bool (*model_instance_fault)(TRITONBACKEND_ModelInstance *, char *,
                               size_t);                           // likewise
  uint64_t (*model_instance_life)(TRITONBACKEND_ModelInstance *); // likewise
  void (*model_cancelled)(TRITONBACKEND_Model *);                 // likewise
  bool (*avoids_gpus)(TRITONBACKEND_Backend *);                   // likewise
} backend_functions;

// What the backend prefers.
typedef struct TRITONBACKEND_BackendAttribute {
  config_preferred_group *groups; // owned
  size_t group_count;
  bool parallel_instance_loading;
  bool avoids_gpus; // groups that say neither a kind nor GPUs are on the CPU
} backend_attribute;

typedef struct TRITONBACKEND_Backend {
  char *name;
  char *library;   // path of the .so
  char *dir;       // of its files, as the operator named it: TRITONBACKEND_BackendArtifacts
  message *config; // {"cmdline": {…}}
  void *handle;    // of dlopen
  void *state;     // the backend's own
  struct TRITONBACKEND_MemoryManager *memory_manager; // the registry's
  TRITONBACKEND_ExecutionPolicy policy;
  backend_functions functions;
  backend_attribute attribute;
  bool initialized;   // TRITONBACKEND_Initialize succeeded: Finalize is due
  bool computes;      // promises that executions never wait (backend_extension.h)
  bool fills;         // promises that outputs and states are written whole
  bool reads_on_host; // says that inputs in host memory stay there
} backend;

typedef struct backend_registry {
  pthread_mutex_t lock;
  string_map backends; // by key; guarded by lock, also while a library initialises
  struct TRITONBACKEND_MemoryManager *memory_manager; // the owner's, of all backends
} backend_registry;

// Where a backend is.
typedef struct backend_location {
  const char *name;
  const char *library; // path of the .so
  const char *dir;     // see backend.directory
  const char *key;     // the file that makes it the backend that it is: the library or a model.py
} backend_location;

void backend_registry_init(backend_registry *registry,
                           struct TRITONBACKEND_MemoryManager *memory_manager);
// Calls every backend's Finalize. No model may be left.
void backend_registry_fini(backend_registry *registry);

// The backend at `location`, loaded and initialised by the first caller. `config_json` is what
// TRITONBACKEND_BackendConfig shows. The backend stays the registry's. Errors: NOT_FOUND/INTERNAL
// from the loader, or what the backend's Initialize says.
error *backend_registry_get(backend_registry *registry, const backend_location *location,
                            const char *config_json, backend **b);

typedef void backend_visitor(void *context, const backend *b);
void backend_registry_visit(backend_registry *registry, backend_visitor *visit, void *context);

// Adds a row of preference; for TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup.
error *backend_attribute_add_group(backend_attribute *attribute,
                                   Inference__ModelInstanceGroup__Kind kind, uint64_t count,
                                   const uint64_t *devices, uint64_t device_count);

#endif

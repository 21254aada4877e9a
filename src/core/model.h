// One loaded version of a model: a value with a lifetime. It is made aside, published by its owner
// (the lifecycle), referenced by every request that it serves, and destroyed when the last
// reference goes. It owns its configuration, signature, instances with their threads, its queue and
// its statistics. This is TRITONBACKEND_Model of the C ABI.
#ifndef NEREID_CORE_MODEL_H
#define NEREID_CORE_MODEL_H

#include "backend/backend.h"
#include "base/error.h"
#include "base/files.h"
#include "config/config.h"
#include "request/response_statistics.h"
#include "request/statistics.h"
#include "schedule/scheduler.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct model model;
typedef struct server server;                             // core/server.h
typedef struct TRITONSERVER_ServerOptions server_options; // core/server_options.h
typedef struct metric_settings metric_settings;           // core/metric_settings.h

// What a model needs from the server around it; outlives every model.
typedef struct model_environment {
  server *server;
  const server_options *options;
  const metric_settings *metric_settings;
  backend_registry *backends;
  timekeeper *timekeeper;
  // Called once, on any thread and with no lock held, when the last reference to `m` is gone. The
  // server must then call model_destroy(m) on a thread that may block (it joins the instances'
  // threads and calls the backend's Finalize functions).
  void (*unreferenced)(server *server, model *m);
} model_environment;

// Where a model comes from. Everything is copied but config_owned.
typedef struct model_source {
  const char *name;
  int64_t version;
  const char *repository; // path of the repository that holds the model, as the operator gave it
  const char *dir; // path of the model's directory, what TRITONBACKEND_ModelRepository reports
  const file_policy *links; // which of it are followed; outlives the model
  struct upload *upload;    // keeps that directory as long as the model, NULL: nothing need keep it
  Inference__ModelConfig
      *config_owned; // read and with defaults set, not yet auto-completed, normalised or validated
} model_source;

// Loads the backend library, calls ModelInitialize (auto-complete), normalises and validates the
// configuration, makes all instances and starts their threads. Blocks as long as the backend takes;
// call on a load thread. On success *m holds one reference. Errors: whatever the backend or the
// configuration says, with its code; everything made so far is released.
error *model_load(const model_environment *environment, model_source *source, model **m);

// Opens the regular file or the directory `path` below the model's directory, as files_open does.
error *model_open(const model *m, const char *path, bool is_dir, int *descriptor);

model *model_ref(model *m);
void model_unref(model *m); // the last one leads to environment->unreferenced
void model_destroy(model *m);

const char *model_name(const model *m);
int64_t model_version(const model *m);
const char *model_dir(const model *m);
backend *model_backend(const model *m);
server *model_server(const model *m);
const Inference__ModelConfig *
model_config(const model *m); // normalised; valid as long as the model
// Takes what the backend found, while ModelInitialize runs; else INVALID_ARG.
error *model_complete_config(model *m, const Inference__ModelConfig *found);
bool model_auto_completes(const model *m);

// Where the backend keeps what is its own.
void **model_backend_state(model *m);

// Has all instances asked whether they are ready, without waiting; model_is_healthy is to follow.
void model_ask_health(const model *m);
// True while every instance answers TRITONBACKEND_ModelInstanceReady positively (or has no such
// function).
bool model_is_healthy(model *m);
// Whether an instance is known to be out of order, and which, without asking anybody.
bool model_has_fault(const model *m, char *text, size_t size);

// Requests inside: queued or executing. 0 means idle.
uint64_t model_inflight(const model *m);
// Requests waiting for an instance: nv_inference_pending_request_count.
uint64_t model_pending(const model *m);

// Refuses new requests from now on with UNAVAILABLE; those accepted are served. Idempotent.
void model_stop(model *m);
// Answers everything that is still queued with UNAVAILABLE; for the end of --exit-timeout-secs.
void model_abandon_queue(model *m);

// Adds the counters of all instances to `sum`, as statistics_add does.
void model_statistics(const model *m, statistics *sum);
// As response_statistics_copy.
response_counters *model_response_statistics(model *m, size_t *count);
uint32_t model_max_batch_size(const model *m);

// How many outputs were not as configured: of output number `index`, the last one is all that are
// not configured. False: there is no such number.
bool model_output_mismatches(const model *m, size_t index, const char **output, uint64_t *count);

// How many batches the scheduler closed for this reason.
uint64_t model_closed_batches(const model *m, batch_close_reason reason);

#endif

// One loaded version of a model: a value with a lifetime. It is made aside, published by its owner
// (the lifecycle), referenced by every request that it serves, and destroyed when the last
// reference goes. It owns its configuration, signature, instances with their threads, its queue and
// its statistics.
#ifndef NEREID_CORE_MODEL_H
#define NEREID_CORE_MODEL_H

#include "base/files.h"
#include "core/cancelled.h"
#include "core/instance.h"
#include "core/load_pool.h"
#include "repository/upload.h"
#include "schedule/timekeeper.h"

typedef struct TRITONSERVER_Server server;
typedef struct metric_settings metric_settings; // core/metric_settings.h

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

typedef enum model_stage {
  MODEL_MADE,
  MODEL_COMPLETING,  // ModelInitialize is running: the backend may change the configuration
  MODEL_INITIALIZED, // ModelInitialize succeeded: ModelFinalize is due
  MODEL_STARTED,     // so did the threads: each instance has its own
} model_stage;

struct TRITONBACKEND_Model {
  request_target target; // first: requests know a model by it
  model_environment environment;
  char *name;
  char *repository;
  const file_policy *links; // which of its directory are followed
  upload *upload;           // its files, when they came with the load
  char *dir;
  Inference__ModelConfig *config; // owned; normalised once it is loaded
  _Atomic model_stage stage;
  void *state;            // the backend's own
  instance_shared shared; // its instances' backend, scheduler and so on, owned but for the backend
  cancelled_requests cancelled;
  pthread_mutex_t start_lock; // held while threads start
  instance **instances;
  char *metric_labels; // rendered, without the braces; NULL where there are no metrics
  double load_seconds; // how long loading took; the rest is live_models'
  struct live_models *live;
  list_node live_node, destroy_node;
  load_task reap_task;
};

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

// Takes what the backend found, while ModelInitialize runs; else INVALID_ARG.
error *model_complete_config(model *m, const Inference__ModelConfig *found);
// Gives the instances the threads that they lack. Errors: UNAVAILABLE; the next call tries again.
error *model_start(model *m);

static inline bool model_is_started(const model *m)
{
  return atomic_load_explicit(&m->stage, memory_order_acquire) == MODEL_STARTED;
}

// Has all instances asked whether they are ready, without waiting; model_is_healthy is to follow.
void model_ask_health(const model *m);
// True while every instance answers TRITONBACKEND_ModelInstanceReady positively (or has no such
// function).
bool model_is_healthy(model *m);
// Whether an instance is known to be out of order, and which, without asking anybody.
bool model_has_fault(const model *m, char *text, size_t size);

// Adds the counters of all instances to `sum`, as statistics_add does.
void model_statistics(const model *m, statistics *sum);
static inline model *model_of_target(request_target *target)
{
  return (model *)target;
}

#endif

// SPDX-License-Identifier: Apache-2.0
// One loaded version of a model: a value with a lifetime. A load makes it, the lifecycle publishes
// it, every request that it serves references it, and it is destroyed after its last reference. It
// owns its configuration, signature, instances with their threads, queue and statistics.
#ifndef NEREID_CORE_MODEL_H
#define NEREID_CORE_MODEL_H

#include "base/files.h"
#include "core/agent_chain.h"
#include "core/cancelled.h"
#include "core/instance.h"
#include "core/isolation.h"
#include "core/load_pool.h"
#include "core/memory_report.h"
#include "repository/upload.h"
#include "schedule/timekeeper.h"

typedef struct TRITONSERVER_Server server;
typedef struct metric_settings metric_settings; // core/metric_settings.h
struct gpus;                                    // core/gpus.h

// The part of the server that its models need; outlives every model.
typedef struct model_environment {
  server *server;
  const server_options *options;
  const metric_settings *metric_settings;
  backend_registry *backends;
  struct gpus *gpus;           // NULL in a process that serves one model for another
  struct gpu_watch *gpu_watch; // core/gpu_watch.h; NULL: there are no GPUs
  timekeeper *timekeeper;
  struct response_cache *cache; // NULL: there is none
  rate_limiter *rate_limiter;   // NULL: off
  const struct model_runner *ensembles;
  // Called once, on any thread and with no lock held, when the last reference to `m` is gone. The
  // server must then call model_destroy(m) on a thread that may block (it joins the instances'
  // threads and calls the backend's Finalize functions).
  void (*unreferenced)(server *server, model *m);
  // Runs `task` later, on such a thread. It has a reference to a model, which it drops at its end.
  void (*run_later)(server *server, load_task *task);
} model_environment;

// The origin of a model. Everything is copied but config_owned.
typedef struct model_source {
  const char *id;   // with namespacing <namespace>::<name>, else the name
  const char *name; // the id without the namespace
  int64_t version;
  const char *repository; // path of the repository that holds the model, as the operator gave it
  const char *folder;     // the model's directory below that; ".": the repository itself
  uint64_t file_bytes;    // of the version's files, 0: not known
  const char *dir; // path of the model's directory, what TRITONBACKEND_ModelRepository reports
  const file_policy *links; // which links in it are followed; outlives the model
  struct upload *upload;    // keeps that directory as long as the model; NULL: it stays by itself
  agent_chain *agents;      // the same; NULL: the configuration names none
  const source_map *places; // of the configuration's fields in its file; or NULL
  Inference__ModelConfig *config_owned; // read, with defaults; not yet completed or validated
  const backend_choice *backend;        // NULL: the backend is searched for
} model_source;

// Takes a model's requests in place of instances.
typedef struct model_runner {
  error *(*make)(model *m); // the configuration and the signature are final
  void (*free)(model *m);   // no request is left; `make` may have failed
  // The request was prepared and is the core's. UNAVAILABLE: nothing has happened.
  error *(*begin)(model *m, request *r);
  void (*cancel)(request *r); // `r` was submitted and may be over; calls no callback
} model_runner;

// How requests get to the instances: a table of functions of core/model_queue.c.
typedef struct model_scheduler model_scheduler;

typedef enum model_stage {
  MODEL_MADE,
  MODEL_COMPLETING,  // ModelInitialize is running: the backend may change the configuration
  MODEL_INITIALIZED, // ModelInitialize succeeded: ModelFinalize is due
} model_stage;

struct TRITONBACKEND_Model {
  request_target target; // requests know a model by it
  model_environment environment;
  char *id;         // the server's name for it
  const char *name; // the clients' and backends' name: the id without the namespace
  char *repository, *folder;
  const file_policy *links; // which links in its directory are followed
  upload *upload;           // its files, when they came with the request; or NULL
  agent_chain *agents;      // NULL: none
  char *dir;
  backend_choice isolated;        // what its own process runs; empty without such a process
  Inference__ModelConfig *config; // owned; normalised once it is loaded
  _Atomic model_stage stage;
  void *state;                      // the backend's own
  struct custom_strategy *strategy; // core/batch_strategy.h; NULL: none
  instance_shared shared; // its instances' backend, scheduler and so on, owned but for the backend
  struct model_cache *cache;         // of answers; NULL: each is computed
  const model_runner *runner;        // NULL: it has instances
  const model_scheduler *scheduling; // core/model_queue.h; NULL: not made yet
  struct ensemble *ensemble;         // core/ensemble.h; NULL: it is none
  struct state_rules *states;        // of its sequences (core/state_rules.h), or NULL
  cancelled_requests cancelled;
  pthread_mutex_t change_lock;    // held while instances come or go; taken before the next two
  pthread_mutex_t start_lock;     // held while threads start
  _Atomic bool started;           // every instance has its thread; set under start_lock
  pthread_mutex_t instance_lock;  // guards what follows, and config's instance groups once it is
                                  // loaded; taken after start_lock
  struct instance_set *instances; // core/model_instances.h; NULL until they are made
  struct former_groups *former_groups; // of instances that leave
  pthread_cond_t instances_left;       // the last reader of a set has left
  struct gpu_counters **gpus;          // core/model_gpus.h
  size_t gpu_count;
  char *metric_labels;              // rendered, without the braces; NULL where there are no metrics
  _Atomic uint64_t used_ns;         // when the last request came, where models load on demand
  _Atomic uint64_t loaded_bytes;    // added to the heap of this process by the load
  _Atomic uint64_t next_measure_ns; // when the backend may be asked for its memory again
  memory_report memory;             // of the model as a whole
  _Atomic uint64_t load_ns;         // how long loading took; 0 until it is over
  struct live_models *live;
  list_node live_node, destroy_node;
  load_task reap_task;
};

// Loads the backend library, calls ModelInitialize (auto-complete), normalises and validates the
// configuration and makes all instances; their threads come with the first queued request. Blocks
// as long as the backend takes: for load threads. On success *m holds one reference. Errors: the
// backend's or the configuration's, with its code; what was made so far is released.
error *model_load(const model_environment *environment, model_source *source, model **m);

// Opens the model's directory; the caller closes *dir, also after an error.
error *model_open_dir(const model *m, file_root *dir);

// Opens the regular file or the directory `path` below the model's directory, as files_open does.
error *model_open(const model *m, const char *path, bool is_dir, int *descriptor);

model *model_ref(model *m);
void model_unref(model *m); // the last one calls environment->unreferenced
void model_destroy(model *m);

// A request has come for it, on a server that loads on demand.
void model_touch(model *m);
// An ensemble's request uses it: it gets the ensemble's moment, so that both stay or go together.
void model_touch_with(model *m, const model *ensemble);

// Takes what the backend has found, while ModelInitialize runs; else INVALID_ARG.
error *model_complete_config(model *m, const Inference__ModelConfig *found);

static inline model *model_of_target(request_target *target)
{
  return container_of(target, model, target);
}

#endif

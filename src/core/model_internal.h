// The inside of a model, shared by the files that load it, run it and show it through the C ABI.
#ifndef NEREID_CORE_MODEL_INTERNAL_H
#define NEREID_CORE_MODEL_INTERNAL_H

#include "core/cancelled.h"
#include "core/instance.h"
#include "core/load_pool.h"
#include "core/model.h"
#include "repository/upload.h"
#include "request/target.h"
#include "schedule/ordering.h"
#include "schedule/scheduler.h"
#include "schedule/timekeeper.h"

#include <pthread.h>
#include <stddef.h>

struct model {
  request_target target; // first: requests know a model by it
  model_environment environment;
  char *name;
  char *repository;
  const file_policy *links; // which of its directory are followed
  upload *upload;           // its files, when they came with the load
  char *dir;
  Inference__ModelConfig *config; // owned
  bool completing;        // ModelInitialize is running: the backend may change the configuration
  bool initialized;       // ModelInitialize succeeded: ModelFinalize is due
  void *state;            // the backend's own
  instance_shared shared; // its instances' backend, scheduler and so on, owned but for the backend
  cancelled_requests cancelled;
  pthread_mutex_t start_lock; // held while threads start
  _Atomic bool started;       // all instances have their threads; never again false
  instance **instances;
  char *metric_labels; // rendered, without the braces; NULL where there are no metrics
  double load_seconds; // how long loading took; the rest is live_models'
  struct live_models *live;
  list_node live_node, destroy_node;
  load_task reap_task;
};

// Gives the instances the threads that they lack. Errors: UNAVAILABLE; the next call tries again.
error *model_start(model *m);

static inline bool model_is_started(const model *m)
{
  return atomic_load_explicit(&m->started, memory_order_acquire);
}

static inline model *model_of_target(request_target *target)
{
  return (model *)target;
}

static inline model *model_of_reap_task(load_task *reap_task)
{
  return container_of(reap_task, model, reap_task);
}

#endif

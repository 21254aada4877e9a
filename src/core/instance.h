// One execution instance of a model version (TRITONBACKEND_ModelInstance): from its start on a
// thread that pulls batches from the model's scheduler and calls the backend, and the counters that
// only this thread writes.
#ifndef NEREID_CORE_INSTANCE_H
#define NEREID_CORE_INSTANCE_H

#include "backend/backend.h"
#include "base/error.h"
#include "config/config.h"
#include "core/host_placement.h"
#include "core/server_options.h"
#include "request/message.h"
#include "request/request.h"
#include "request/statistics.h"

#include <pthread.h>
#include <stdbool.h>

typedef struct TRITONBACKEND_Model model;

// What a model is taken to need until it is known.
#define INSTANCE_SLOW_NS UINT64_C(1000000)

// Executions in two parts (backend_extension.h) that an instance may have begun at once.
#define MAX_INSTANCE_BEGUN 16

#define HOST_POLICY_BYTES 1024 // of a policy's name, with its end

// What the instances of a model share: a part of the model, which fills it in before it makes them.
typedef struct instance_shared {
  model *model; // for backends that ask
  request_target *target;
  backend *backend; // the registry's
  scheduler *scheduler;
  ordering *ordering; // NULL unless preserve_ordering
  const setting_list *host_policies;
  uint32_t max_batch_size; // 0: the model does not batch
  size_t instance_count;
  _Atomic uint64_t typical_ns; // how long executions take of late
} instance_shared;

// How an instance lingers between batches, for its thread only.
typedef struct batch_linger {
  unsigned skip;        // executions until it lingers again
  unsigned idle_passes; // how many to skip from now on, after it lingered for nobody
} batch_linger;

typedef enum instance_stage {
  INSTANCE_MADE,
  INSTANCE_INITIALIZED, // ModelInstanceInitialize succeeded: ModelInstanceFinalize is due
  INSTANCE_RUNNING,     // so is the thread: join it
} instance_stage;

typedef struct TRITONBACKEND_ModelInstance {
  instance_shared *shared;
  char *name;
  TRITONSERVER_InstanceGroupKind kind;
  int32_t device_id;
  char host_policy[HOST_POLICY_BYTES];        // name of the policy, of the group or by kind
  host_placement placement;                   // what the policy says of its threads
  const Inference__ModelInstanceGroup *group; // borrowed from the model's configuration
  message *host_policy_message;               // made when the backend asks
  void *state;                                // the backend's own
  _Atomic instance_stage stage;               // its threads ask whether it runs
  pthread_t thread;
  statistics counters;           // this and the batch from its start on
  request **batch;               // what the backend gets and may write to; room for batch_capacity
  _Atomic(request *) *executing; // those of the batch that the backend has not released
  queue_item **items;            // the same batch as the scheduler gives it
  size_t batch_capacity;
  // Executions in two parts that have not ended, in their order: a ring in `batch` and `executing`.
  // There is more than one only where each has one request.
  size_t first_begun;
  size_t begun_count;
  uint64_t begun_ns[MAX_INSTANCE_BEGUN];
  uint64_t ended_ns; // when the last one ended
  batch_linger linger;
} instance;

// Where the policies of all instances of a model want its threads, when they all want the same;
// else anywhere. INVALID_ARG for a setting that cannot be read.
error *instance_common_placement(const setting_list *host_policies,
                                 const Inference__ModelConfig *config, host_placement *common);

// Makes the instance number `index` of a group and calls the backend's ModelInstanceInitialize.
error *instance_new(instance_shared *shared, const Inference__ModelInstanceGroup *group,
                    size_t index, size_t gpu, instance **result);
// Under the model's start_lock; does nothing when it was done before. A passive instance has no
// thread. Errors: UNAVAILABLE.
error *instance_start(instance *i);
void instance_join(instance *i);
void instance_free(instance *i); // not running

// NULL when the backend says that the instance works, or has no such question.
error *instance_ready(instance *i);

// {"<policy>": {"<key>": "<value>", …}}, made once; the instance keeps it.
error *instance_host_policy(instance *i, struct TRITONSERVER_Message **policy);

// The counters that the calling thread may write to without atomics, or the model's shared ones
// (*single_writer is false).
statistics *instance_counters(instance *i, bool *single_writer);

#endif

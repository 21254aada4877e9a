// SPDX-License-Identifier: Apache-2.0
// One execution instance of a model version (TRITONBACKEND_ModelInstance). Once started, it has a
// thread that pulls batches from its scheduler and calls the backend, and counters that only this
// thread writes.
#ifndef NEREID_CORE_INSTANCE_H
#define NEREID_CORE_INSTANCE_H

#include "backend/backend.h"
#include "base/error.h"
#include "config/config.h"
#include "core/host_placement.h"
#include "core/load_pool.h"
#include "core/memory_report.h"
#include "core/rate_limiter.h"
#include "core/server_options.h"
#include "request/message.h"
#include "request/request.h"
#include "request/response_statistics.h"
#include "request/statistics.h"

#include <pthread.h>
#include <stdbool.h>

struct gpus; // core/gpus.h
typedef struct TRITONBACKEND_Model model;
typedef struct TRITONBACKEND_ModelInstance instance;

// The execution time that is assumed of a model at first.
#define INSTANCE_SLOW_NS UINT64_C(1000000)

// Executions in two parts (backend_extension.h) that an instance may have begun at once.
#define MAX_INSTANCE_BEGUN 16

#define HOST_POLICY_BYTES 1024 // of a policy's name, with the NUL

// Where reports of backends about executions go, in place of the counters: to the server that this
// process serves one model for (src/host).
typedef struct instance_reports {
  void (*request)(instance *i, request *r, bool success, const uint64_t moments[4]);
  void (*batch)(instance *i, uint64_t rows, const uint64_t moments[4]);
  void (*response)(response_factory *f, response_outcome outcome, const response_times *times);
} instance_reports;

// Shared by the instances of a model, which fills it in before it makes them.
typedef struct instance_shared {
  model *model; // for backends that ask
  request_target *target;
  backend *backend; // the registry's
  scheduler *scheduler;
  ordering *ordering;          // NULL unless preserve_ordering
  struct sequences *sequences; // NULL unless the model has sequences: core/sequences.h
  const setting_list *host_policies;
  struct gpus *gpus;               // NULL: none is used here
  bool is_isolated;                // the instances' work is done in another process
  rate_limiter *rate_limiter;      // NULL: off
  const instance_reports *reports; // NULL: reports go to the counters
  uint64_t objective_ns;           // of latency; 0: none
  uint32_t max_batch_size;         // 0: the model does not batch
  _Atomic size_t instance_count;   // that get requests: not the passive ones
  _Atomic size_t group_count;      // of these instances
  _Atomic bool wants_pinned;       // some instance copies inputs from the host to a GPU
  _Atomic uint64_t typical_ns;     // the recent duration of executions
} instance_shared;

// How an instance lingers between batches; used by its thread only.
typedef struct batch_linger {
  unsigned skip;        // executions until it lingers again
  unsigned idle_passes; // how many to skip after it lingered in vain
} batch_linger;

typedef enum instance_stage {
  INSTANCE_MADE,
  INSTANCE_INITIALIZED, // ModelInstanceInitialize succeeded: ModelInstanceFinalize is due
  INSTANCE_RUNNING,     // it has a thread, which must be joined
} instance_stage;

struct TRITONBACKEND_ModelInstance {
  instance_shared *shared;
  scheduler *scheduler; // gives it batches: the model's, or with sequences its own
  ordering *ordering;   // the same
  const struct sequence_controls *row_controls; // NULL unless rows of its batches are sequences
  char *name;
  TRITONSERVER_InstanceGroupKind kind;
  int32_t device_id;
  bool uses_gpu;                       // it is one of the device's users
  struct gpu_watch *looked_after_by;   // of an instance in its own process on a GPU; else NULL
  char host_policy[HOST_POLICY_BYTES]; // name of the policy, of the group or by kind
  host_placement placement;            // of its threads
  const Inference__ModelInstanceGroup *group; // borrowed from the model's configuration; this
                                              // thread must not read its name and count
  size_t index;                 // in the group, which has `count` instances on each GPU
  bool leaving;                 // guarded by the scheduler: see scheduler_dismiss
  message *host_policy_message; // made when the backend asks
  void *state;                  // the backend's own
  _Atomic instance_stage stage; // other threads ask whether it runs
  pthread_t thread;             // of the leader
  // Where a backend blocks devices (TRITONBACKEND_EXECUTION_DEVICE_BLOCKING), the model's instances
  // on one device share the thread of the first, which executes on them in turn.
  instance *leader, *next;       // both are the instance itself where it is alone
  struct gpu_counters *on_gpu;   // its counters where it is on a GPU: core/model_gpus.h
  statistics counters;           // its thread's; made, as the batch, when it starts
  request **batch;               // for the backend, which may write to it; room for batch_capacity
  _Atomic(request *) *executing; // requests of the batch that the backend has not released
  queue_item **items;            // the same batch, from the scheduler
  size_t batch_capacity;
  uint64_t *arrived_ns;   // when the batch's requests came, with a latency objective; else NULL
  executed_batch on_time; // of that batch
  // Executions in two parts that have not ended, in order: a ring in `batch` and `executing`. There
  // is more than one only where each has one request.
  size_t first_begun;
  size_t begun_count;
  uint64_t begun_ns[MAX_INSTANCE_BEGUN];
  const request *begun_steps[MAX_INSTANCE_BEGUN]; // of ensembles, executed alone; may be gone
  uint64_t ended_ns;                              // when the last one ended
  batch_linger linger;
  rate_permit *permit;  // NULL: it runs when it has work
  bool asked, granted;  // for its thread: it has asked for the next execution, and need not wait
  memory_report memory; // the backend's report
  load_task leave_task; // ends it after its last sequence: core/model_instances.c
};

// Whether it has its thread, so that clients' requests are executed on it. Any thread.
static inline bool instance_is_running(const instance *i)
{
  return atomic_load_explicit(&i->stage, memory_order_relaxed) == INSTANCE_RUNNING;
}

// The placement that all instances of a model want, if they want the same; else none. INVALID_ARG
// for a setting that cannot be read.
error *instance_common_placement(const setting_list *host_policies,
                                 const Inference__ModelConfig *config, host_placement *common);

// Makes the instance number `index` of a group and calls the backend's ModelInstanceInitialize.
error *instance_new(instance_shared *shared, const Inference__ModelInstanceGroup *group,
                    size_t index, size_t gpu, instance **result);
// Prepares an instance that is not running for up to `count` requests that the calling thread
// executes on it. Errors: UNAVAILABLE.
error *instance_make_room(instance *i, size_t count);
void instance_free_room(instance *i);
// Before they start: puts `i`, which is alone, behind `mate`, the last instance on its device.
void instance_follow(instance *i, instance *mate);
// Under the model's start_lock; does nothing the second time. A passive instance has no thread, nor
// has one whose GPU is at fault. Instances that follow another one are started before it. Errors:
// UNAVAILABLE.
error *instance_start(instance *i);
// Called by a scheduler before a thread claims an idle instance, where there is a rate limiter:
// takes the instance's resources, until the execution is over. False: it cannot have them now.
bool instance_may_run(void *instance);
// For a thread that has executed in place of an idle instance.
static inline void instance_give_back(instance *i)
{
  if (i->permit != NULL)
    rate_limiter_release(i->permit, true);
}
// The instance no longer waits for resources, as its queue was emptied for good.
void instance_end_wait(void *unused, instance *i);
// Has a running instance finish its batch and take no other.
void instance_dismiss(instance *i);
// Waits for the thread, if there is one: the scheduler has stopped or the instance was dismissed.
void instance_join(instance *i);
void instance_free(instance *i); // not running

// Whether its GPU is at fault; `text` then says how. For an instance in another process only a lost
// GPU counts, since contexts are each process's own. Any thread.
bool instance_has_gpu_fault(const instance *i, char *text, size_t size);
error *instance_gpu_refusal(const instance *i); // UNAVAILABLE where its GPU is at fault; else NULL

// NULL when the backend says that the instance works, or cannot say.
error *instance_ready(instance *i);

// {"<policy>": {"<key>": "<value>", …}}, made once; the instance keeps it.
error *instance_host_policy(instance *i, struct TRITONSERVER_Message **policy);

// The counters for the calling thread: the instance's own, written without atomics
// (*single_writer), or shared ones, the model's or those of the instance's GPU.
statistics *instance_counters(instance *i, bool *single_writer);

#endif

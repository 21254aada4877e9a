// An instance of a Python model: what it owns. instance.h has its life, execution_run.h what it
// does.
#ifndef NEREID_PYTHON_INSTANCE_H
#define NEREID_PYTHON_INSTANCE_H

#include "base/list.h"
#include "instance/request_table.h"
#include "instance/wait_graph.h"
#include "model/model.h"
#include "process/worker.h"

#include <stdatomic.h>

struct calls;
typedef struct python_instance python_instance;

// Who deals with what a worker asks of the server (calls/). One object for each worker process; all
// on the listener's thread.
typedef struct instance_calls {
  TRITONSERVER_Error *(*begin)(python_instance *instance, worker_link *link, struct calls **made);
  // False: of an unknown kind.
  bool (*handle)(struct calls *calls, const channel_message *message);
  // Whether threads other than the listener's may reply.
  bool (*are_under_way)(struct calls *calls);
  void (*end)(struct calls *calls);
} instance_calls;

// Executions that were begun and have not ended, in their order (execution_ahead.c).
typedef struct ahead_queue {
  list executions;
  uint32_t crowded;         // so many more are taken to be some of many
  _Atomic uint64_t ewma_ns; // how long `execute` takes of late, by the worker's word; 0: not known
} ahead_queue;

struct python_instance {
  const python_model *model;
  worker *worker;
  TRITONBACKEND_ModelInstance *server_instance; // set before the worker is initialized
  char *host_policy;
  request_table requests;
  wait_node node;
  ahead_queue ahead;
  const instance_calls *calls_kind;
  struct calls *calls; // of the present worker; the listener's thread
};

#endif

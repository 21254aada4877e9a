// SPDX-License-Identifier: Apache-2.0
// An instance of a Python model: what it owns, its life, and what the server has it do. Load
// threads, unless said otherwise.
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

// Executions that were begun and have not ended, in their order.
typedef struct ahead_queue {
  list executions;
  uint64_t sent;            // the number of the last one that the worker was sent
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
  uint64_t told_life; // what the server was told last; 0: it does not ask. Of who executes
  const instance_calls *calls_kind;
  struct calls *calls; // of the present worker; the listener's thread
};

// Starts a worker that has imported the model. `name` is the instance's, or a model's whose
// configuration is to be completed.
TRITONSERVER_Error *python_instance_start(const python_model *model, const char *name,
                                          const instance_calls *calls_kind, python_instance **made);

// Becomes `server_instance`: runs the model's initialize with the JSON text `arguments`.
TRITONSERVER_Error *python_instance_initialize(python_instance *self,
                                               TRITONBACKEND_ModelInstance *server_instance,
                                               const char *name, const char *arguments);

// Runs the model's finalize, ends the worker, and frees all. No work may be under way. NULL does
// nothing.
void python_instance_stop(python_instance *self);

// The last step of a model's load: completes the configuration, where the server wants that, in a
// first worker, which the model's first instance takes.
TRITONSERVER_Error *python_model_complete(python_model *self, const instance_calls *calls_kind);
python_instance *python_model_take_spare(python_model *self); // NULL: there is none

// TRITONBACKEND_ModelInstanceExecute of the instance `self` (execution.c, where those of
// backend_extension.h for executions are too). An error means that no request was touched.
TRITONSERVER_Error *python_instance_execute(void *self, TRITONBACKEND_ModelInstance *instance,
                                            TRITONBACKEND_Request **requests, uint32_t count);

// What the server's instance is here.
python_instance *python_instance_of(TRITONBACKEND_ModelInstance *instance);

#endif

// SPDX-License-Identifier: Apache-2.0
// An instance of a Python model: its parts, its life, and its work. Load threads, unless said
// otherwise.
#ifndef NEREID_PYTHON_PYTHON_INSTANCE_H
#define NEREID_PYTHON_PYTHON_INSTANCE_H

#include "base/list.h"
#include "instance/request_table.h"
#include "instance/wait_graph.h"
#include "model/python_model.h"
#include "process/worker.h"

#include <stdatomic.h>

struct calls;
typedef struct python_instance python_instance;

// Handles the calls of workers (calls/). One object per worker process; all functions run on the
// listener's thread.
typedef struct instance_calls {
  TRITONSERVER_Error *(*begin)(python_instance *instance, worker_link *link, struct calls **made);
  // False: unknown kind.
  bool (*handle)(struct calls *calls, const channel_message *message);
  // Whether other threads may still reply.
  bool (*are_under_way)(struct calls *calls);
  void (*end)(struct calls *calls);
} instance_calls;

// Executions that have begun and not ended, in order.
typedef struct ahead_queue {
  list executions;
  uint64_t sent;            // the number of the last one sent to the worker
  uint32_t crowded;         // so many further executions count as crowded
  _Atomic uint64_t ewma_ns; // recent time of `execute`, as the worker reports it; 0: unknown
} ahead_queue;

struct python_instance {
  const python_model *model;
  worker *worker;
  TRITONBACKEND_ModelInstance *server_instance; // set before the worker is initialized
  char *host_policy;
  request_table requests;
  wait_node node;
  ahead_queue ahead;
  uint64_t told_life; // the life last told to the server, by the executing thread; 0: the server
                      // does not ask
  const instance_calls *calls_kind;
  struct calls *calls; // of the current worker; the listener's thread
};

// Starts a worker that has imported the model. `name` is the instance's, or that of a model to be
// completed.
TRITONSERVER_Error *python_instance_start(const python_model *model, const char *name,
                                          const instance_calls *calls_kind, python_instance **made);

// Becomes `server_instance`: runs the model's initialize with the JSON text `arguments`.
TRITONSERVER_Error *python_instance_initialize(python_instance *self,
                                               TRITONBACKEND_ModelInstance *server_instance,
                                               const char *name, const char *arguments);

// Runs the model's finalize, ends the worker, and frees everything. No work may be open. NULL does
// nothing.
void python_instance_stop(python_instance *self);

// The last step of loading a model: if the server wants it, completes the configuration in a first
// worker, which becomes the model's first instance's.
TRITONSERVER_Error *python_model_complete(python_model *self, const instance_calls *calls_kind);
python_instance *python_model_take_spare(python_model *self); // NULL: there is none

// TRITONBACKEND_ModelInstanceExecute of instance `self`. execution_entry.c also has the execution
// functions of backend_extension.h. An error means that no request was touched.
TRITONSERVER_Error *python_instance_execute(void *self, TRITONBACKEND_ModelInstance *instance,
                                            TRITONBACKEND_Request **requests, uint32_t count);

// The python_instance of a server's instance.
python_instance *python_instance_of(TRITONBACKEND_ModelInstance *instance);

#endif

// One call of execute. Its requests are in the table of open requests; what the worker answers by
// CALL_RESPONSE meanwhile is the listener's.
#ifndef NEREID_PYTHON_EXECUTION_H
#define NEREID_PYTHON_EXECUTION_H

#include "codec/request_wire.h"
#include "instance/instance.h"

// ---- what the server asks for. An error means that no request was touched.

// TRITONBACKEND_ModelInstanceExecute.
TRITONSERVER_Error *python_instance_execute(python_instance *self, TRITONBACKEND_Request **requests,
                                            uint32_t count);

// The same in two parts (backend_extension.h), of which several may be begun and not ended.
TRITONSERVER_Error *python_instance_execute_begin(python_instance *self,
                                                  TRITONBACKEND_Request **requests, uint32_t count,
                                                  bool *pending);
void python_instance_execute_end(python_instance *self, int64_t timeout_us, bool *pending);
// How many may be begun and not ended.
uint32_t python_instance_max_executions(python_instance *self);

// ---- what execution.c, execution_response.c and above both execution_ahead.c share

typedef enum execution_state {
  EXECUTION_OPEN, // the requests that are in `open` are ours to answer
  EXECUTION_SENT, // the worker has them
  EXECUTION_ENDED // they have been answered, or will be by CALL_RESPONSE
} execution_state;

typedef struct execution {
  python_instance *instance;
  execution_state state;
  worker_link *link; // while it has a part in the slot
  uint64_t work_id;  // of the message
  uint64_t block;    // its memory
  uint32_t count;
  open_request **open; // NULL: it has been answered, or is in the worker's hands
  uint64_t batch_size;
  uint64_t exec_start_ns;
  uint64_t compute_start_ns;
  uint64_t compute_end_ns;
  uint64_t took_ns; // by the worker's word; 0: not known
  bool is_crowded;  // is one of many
  bool is_behind;   // was sent before the worker had answered another one
  list_node begun;  // in ahead_queue
  request_facts facts[];
} execution;

// Of requests that can be read. `*made` NULL without an error: all have been answered.
TRITONSERVER_Error *execution_new(python_instance *instance, TRITONBACKEND_Request **requests,
                                  uint32_t count, execution **made);
// Sends the requests; does not wait. False: it has ended.
bool execution_send(execution *self);
// Waits for the worker's answer and deals with it. False: the worker is at work.
bool execution_await(execution *self, int64_t timeout_us);
// All of that, waiting for whatever it takes.
void execution_run(execution *self);
// Gives up its part in the slot, and its memory. It has ended.
void execution_end(execution *self);

void execution_set_state(execution *self, execution_state state);
// Takes all that are still open back from the worker.
void execution_hold_all(execution *self);
// Of a request that is or was the execution's.
void execution_report(const execution *self, uint32_t index, bool success);
void execution_release(const execution *self, uint32_t index);
// Answers all requests that are ours to answer with the same error, and ends.
void execution_fail(execution *self, TRITONSERVER_Error *error_owned);

// Deals with the worker's answer, and ends.
void execution_take_response(execution *self, const channel_message *message);

#endif

// One call of execute. Its requests are in the table of open requests from EXECUTION_OPEN on; what
// the worker answers by CALL_RESPONSE meanwhile is the listener's. The files, each above the one
// before: execution.c, execution_report.c, execution_response.c, execution_run.c,
// execution_ahead.c.
#ifndef NEREID_PYTHON_EXECUTION_H
#define NEREID_PYTHON_EXECUTION_H

#include "codec/request_wire.h"
#include "instance/python_instance.h"

typedef enum execution_state {
  EXECUTION_MADE, // its requests are not in the table
  EXECUTION_OPEN, // they are, and those that are `held` are ours to answer
  EXECUTION_SENT, // the worker has them
  EXECUTION_ENDED // they have been answered, or will be by CALL_RESPONSE
} execution_state;

typedef struct execution {
  python_instance *instance;
  execution_state state;
  worker_link *link; // while it has a part in the slot
  uint64_t work_id;  // of the message
  uint64_t block;    // its memory
  TRITONBACKEND_Request **requests;
  uint32_t count;
  request_facts *facts;
  open_request *open;
  uint64_t *handles;
  TRITONBACKEND_Response **responses; // of requests that are answered at once
  TRITONSERVER_Error **errors;        // to be sent with them
  bool *held;                         // in EXECUTION_OPEN
  uint64_t batch_size;
  uint64_t exec_start_ns;
  uint64_t compute_start_ns;
  uint64_t compute_end_ns;
  uint64_t took_ns;        // by the worker's word; 0: not known
  bool is_crowded;         // is one of many
  bool is_behind;          // was sent before the worker had answered another one
  struct execution *after; // begun after this one, while neither has ended
} execution;

// ---- execution.c

// A copy of `batch` with its lists. NULL: no memory.
execution *execution_allocate(const execution *batch);
void execution_set_state(execution *self, execution_state state);
void execution_log_error(const execution *self, uint32_t index, TRITONSERVER_Error *error_owned,
                         const char *doing);
// Puts the requests into the table. An error: none is.
TRITONSERVER_Error *execution_open(execution *self);
// Gives up its part in the slot, and its memory. It has ended.
void execution_end(execution *self);

// ---- execution_report.c

void execution_end_use(execution *self, uint32_t index, bool close);
// Takes all that are still open back from the worker.
void execution_hold_all(execution *self);
void execution_report(execution *self, uint32_t index, bool success);
void execution_report_batch(execution *self);
void execution_release(execution *self, uint32_t index);
// Answers all requests that are ours to answer with the same error, and ends.
void execution_fail(execution *self, TRITONSERVER_Error *error_owned);
// Answers one with an error and goes on without it. Before they are sent.
void execution_drop(execution *self, uint32_t index, TRITONSERVER_Error *error_owned);

// ---- execution_response.c

// Deals with the worker's answer, and ends.
void execution_take_response(execution *self, const channel_message *message);

// ---- execution_run.c

// Of requests that can be read. An error means that none was touched; `*made` NULL without one,
// that all have been answered.
TRITONSERVER_Error *execution_new(python_instance *instance, TRITONBACKEND_Request **requests,
                                  uint32_t count, execution **made);
// Opens the requests and sends them; does not wait. False: it has ended.
bool execution_send(execution *self);
// Waits for the worker's answer and deals with it. False: the worker is at work.
bool execution_await(execution *self, int64_t timeout_us);
// All of that, waiting for whatever it takes.
void execution_run(execution *self);

#endif

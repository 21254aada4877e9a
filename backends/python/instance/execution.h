// SPDX-License-Identifier: Apache-2.0
// A batch that the server gave to an instance, from its requests to their responses. execution.c
// makes and ends it, execution_send.c gives it to the worker, execution_answer.c takes the answer,
// execution_entry.c is called by the server. Its requests are in the table of open requests; calls
// of the worker meanwhile are the listener's. Runs on the instance's thread, or on a loop of the
// server, which waits no longer than its timeout.
#ifndef NEREID_PYTHON_EXECUTION_H
#define NEREID_PYTHON_EXECUTION_H

#include "codec/request_wire.h"
#include "instance/open_request.h"
#include "instance/python_instance.h"

typedef enum execution_state {
  EXECUTION_OPEN, // this side must answer the requests in `open`
  EXECUTION_SENT, // the worker has them
  EXECUTION_ENDED // they are answered, or CALL_RESPONSE will do it
} execution_state;

typedef struct execution {
  python_instance *instance;
  execution_state state;
  worker_link *link; // while it has a share in the slot
  uint64_t work_id;  // of the message
  uint64_t block;    // its memory
  uint64_t life;     // the number of the worker that it must go to; 0: any
  uint32_t count;
  open_request **open; // NULL: answered, or in the worker's hands
  uint64_t batch_size;
  uint64_t exec_start_ns;
  uint64_t compute_start_ns;
  uint64_t compute_end_ns;
  uint64_t took_ns; // as the worker reports; 0: unknown
  bool is_crowded;  // there is other work beside it
  bool is_behind;   // sent before the worker had answered an earlier one
  bool on_devices;  // inputs are on a device: not for a loop
  bool has_answer;  // an answer with tensors on a device, which a loop has left to the instance's
                    // thread
  channel_message answer;
  list_node begun; // in ahead_queue
  request_facts facts[];
} execution;

// An execution of the readable requests. `*made` NULL without an error: all were answered.
TRITONSERVER_Error *execution_new(python_instance *instance, TRITONBACKEND_Request **requests,
                                  uint32_t count, execution **made);

// Gives up its share in the slot, and frees it.
void execution_end(execution *self);

void execution_set_state(execution *self, execution_state state);

// Sends the requests; does not wait. False: it has ended.
bool execution_send(execution *self);

// Waits for the worker's answer and handles it. False: the worker is still busy, or the answer is
// not for a loop (a loop's timeout is not negative).
bool execution_await(execution *self, int64_t timeout_us);

// ---- its requests' outcome

// Takes all requests that are still open back from the worker.
void execution_hold(execution *self);

// Answers all requests of this side with the same error, and ends.
void execution_fail(execution *self, TRITONSERVER_Error *error_owned);

// Answers one request with an error and continues without it.
void execution_drop(execution *self, uint32_t index, TRITONSERVER_Error *error_owned);

// The request is or was the execution's.
void execution_report_one(const execution *self, uint32_t index, bool success);
void execution_release_one(const execution *self, uint32_t index);

#endif

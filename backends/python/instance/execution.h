// One call of execute, shared by python_execute.c, which makes it and answers its requests, and
// aside.c, which keeps those that no thread of the server waits for. A request is ours, the
// execution's, from begin to end of its use in the table of open requests; what the worker answers
// by CALL_RESPONSE meanwhile is the listener's.
#ifndef NEREID_PYTHON_EXECUTION_H
#define NEREID_PYTHON_EXECUTION_H

#include "codec/request_wire.h"
#include "instance/circle.h"
#include "process/worker_keeper.h"

typedef struct execution {
  worker_keeper *keeper;
  const python_model *model;
  worker_link *link; // while there is work
  uint64_t work_id;  // of the message
  uint64_t block;    // its memory
  TRITONBACKEND_Request **requests;
  uint32_t count;
  request_facts *facts;
  open_request *open;
  uint64_t *handles;
  TRITONBACKEND_Response **responses; // of requests that are answered at once
  TRITONSERVER_Error **errors;        // to be sent with them
  bool opened;                        // the requests are in the table
  bool *held;                         // then: the request is ours to answer
  uint64_t batch_size;
  uint64_t exec_start_ns;
  uint64_t compute_start_ns;
  uint64_t compute_end_ns;
  circle_work work;
  bool has_calls;          // in `work`
  bool is_crowded;         // is one of many
  bool is_behind;          // was sent before the worker had answered another one
  struct execution *after; // begun after this one, while neither has ended

  struct execution *next; // put aside; like what follows
  bool sent;
  bool has_turn; // the worker is at work on it: others wait
  bool lent;     // was, at least once
} execution;

// Opens the requests and sends them to the worker; does not wait. False: all have been answered.
bool execution_send(execution *self, uint32_t flags);

// Deals with the worker's answer.
void execution_take_answer(execution *self, const channel_message *message);

// Answers all requests that are ours to answer with the same error.
void execution_fail(execution *self, TRITONSERVER_Error *error_owned);

// Answers one request with an error and goes on without it. Before they are sent.
void execution_drop(execution *self, uint32_t index, TRITONSERVER_Error *error_owned);

// Takes out the requests that are no calls from workers, before any is sent. NULL: there are none,
// or no memory.
execution *execution_split(execution *self);

void execution_free(execution *self);

#endif

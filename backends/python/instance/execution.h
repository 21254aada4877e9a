// One call of execute. A request is ours, the execution's, from begin to end of its use in the
// table of open requests; what the worker answers by CALL_RESPONSE meanwhile is the listener's.
#ifndef NEREID_PYTHON_EXECUTION_H
#define NEREID_PYTHON_EXECUTION_H

#include "codec/request_wire.h"
#include "instance/wait_graph.h"
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
  bool is_crowded;         // is one of many
  bool is_behind;          // was sent before the worker had answered another one
  struct execution *after; // begun after this one, while neither has ended
} execution;

#endif

// SPDX-License-Identifier: Apache-2.0
// The requests that a worker has and that are not finally answered. The worker names them by
// handles, which it may invent: a handle of no open request finds nothing. Any thread. One thread
// at a time uses a request, briefly, and does not wait for another request meanwhile.
#ifndef NEREID_PYTHON_REQUEST_TABLE_H
#define NEREID_PYTHON_REQUEST_TABLE_H

#include "triton/core/tritonbackend.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum request_state {
  REQUEST_FREE,
  REQUEST_NEW, // its handle finds nothing yet
  REQUEST_OPEN,
  REQUEST_USED
};

// An open request. The thread that uses it may change it. A decoupled model answers through the
// factory; `request` is released when `execute` has returned.
typedef struct open_request {
  TRITONBACKEND_Request *request;
  TRITONBACKEND_ResponseFactory *factory;
  TRITONSERVER_InferenceTrace *trace; // until the request is released; NULL: none
  uint64_t exec_start_ns;
  uint64_t compute_start_ns;
  uint64_t compute_end_ns; // 0: the time of the report
  bool goes_again;         // the request was rescheduled; later responses use the factory
  bool is_answered;        // its execution has ended
  bool is_forgotten;       // no more responses come with this handle
  // While it is being answered.
  TRITONBACKEND_Response *response;
  TRITONSERVER_Error *error;
  // Its place in the table.
  uint64_t handle;
  enum request_state state;
  struct open_request *next_free;
} open_request;

typedef struct request_table {
  pthread_mutex_t lock; // guards all that follows
  open_request **slots;
  uint32_t slot_count;
  uint32_t room;
  open_request *free_slot; // head of the list of free slots
  uint32_t open_count;
  uint32_t waiting; // threads waiting for `unused`
  pthread_cond_t unused;
} request_table;

void request_table_init(request_table *self);
void request_table_fini(request_table *self); // no request may be open

// Adds `count` requests, all or none, for the caller to fill. Other threads find a request after
// request_table_end. False: no memory.
bool request_table_add(request_table *self, open_request **requests, uint32_t count);

// Takes a request for use, after the thread that uses it has ended. NULL: not found.
open_request *request_table_begin(request_table *self, uint64_t handle);

// The same for the next request at or after number *from, which is moved on. Starting with 0,
// repeated calls visit all requests until NULL.
open_request *request_table_begin_next(request_table *self, uint32_t *from);

// Ends using or filling it.
void request_table_end(request_table *self, open_request *request);
// Ends using it and takes it out: its handle becomes invalid.
open_request request_table_close(request_table *self, open_request *request);

#endif

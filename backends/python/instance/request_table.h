// SPDX-License-Identifier: Apache-2.0
// The requests that a worker has been given and that are not answered for good. The worker names
// them by handles, which it may make up: a handle that is not of an open request finds nothing. Any
// thread; one thread at a time uses a request, briefly and while it waits for no other.
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

// What belongs to an open request; whoever uses it may change it. A decoupled model's is answered
// through the factory, and the request is not here: it is released when `execute` has returned.
typedef struct open_request {
  TRITONBACKEND_Request *request;
  TRITONBACKEND_ResponseFactory *factory;
  TRITONSERVER_InferenceTrace *trace; // as long as the request is not released; NULL: none
  uint64_t exec_start_ns;
  uint64_t compute_start_ns;
  uint64_t compute_end_ns; // 0: when it is reported
  bool goes_again;         // the request was rescheduled: the factory is here for what still comes
  bool is_answered;        // its execution has ended
  bool is_forgotten;       // nothing more comes with this handle
  // While it is answered.
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
  open_request *free_slot; // the first of a list
  uint32_t open_count;
  uint32_t waiting; // threads that wait for `unused`
  pthread_cond_t unused;
} request_table;

void request_table_init(request_table *self);
void request_table_fini(request_table *self); // none may be open

// Adds `count` requests, all or none, for the caller to fill: others find one after
// request_table_end. False: no memory.
bool request_table_add(request_table *self, open_request **requests, uint32_t count);

// Begins to use a request, after another thread has ended to use it. NULL: there is none.
open_request *request_table_begin(request_table *self, uint64_t handle);

// The same for any one at or after number *from, which is moved on: from 0 until it is NULL, this
// goes through all.
open_request *request_table_begin_next(request_table *self, uint32_t *from);

// Ends to use it, or to fill it.
void request_table_end(request_table *self, open_request *request);
// And takes it out: its handle is no longer valid.
open_request request_table_close(request_table *self, open_request *request);

#endif

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

// What belongs to an open request. A decoupled model's is answered through the factory, and the
// request is not here: it is released when `execute` has returned.
typedef struct open_request {
  TRITONBACKEND_Request *request;
  TRITONBACKEND_ResponseFactory *factory;
  TRITONSERVER_InferenceTrace *trace; // as long as the request is not released; NULL: none
  uint64_t exec_start_ns;
  uint64_t compute_start_ns;
} open_request;

typedef struct request_slot request_slot;

typedef struct request_table {
  pthread_mutex_t lock; // guards all that follows
  request_slot *slots;
  uint32_t slot_count;
  uint32_t free_slot; // the first of a list
  uint32_t open_count;
  uint32_t waiting; // threads that wait for `unused`
  pthread_cond_t unused;
} request_table;

void request_table_init(request_table *self);
void request_table_fini(request_table *self); // none may be open

// Adds `count` requests, all or none, as used by the caller. False: no memory.
bool request_table_add(request_table *self, const open_request *requests, uint32_t count,
                       uint64_t *handles);

// Begins to use a request, after another thread has ended to use it. False: there is none.
bool request_table_begin(request_table *self, uint64_t handle, open_request *request);

// The same for any one at or after number *from, which is moved on: from 0 until it is false, this
// goes through all.
bool request_table_begin_next(request_table *self, uint32_t *from, uint64_t *handle,
                              open_request *request);

// Ends to use one whose execution begins now: later users find that time in it.
void request_table_start(request_table *self, uint64_t handle, uint64_t compute_start_ns);

// Changes what belongs to a request that the caller uses.
void request_table_change(request_table *self, uint64_t handle, const open_request *request);

// Ends to use it. With `close` the handle is no longer valid.
void request_table_end(request_table *self, uint64_t handle, bool close);

#endif

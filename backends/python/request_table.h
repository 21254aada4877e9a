// The requests that a worker has been given and that are not answered for good. The worker names
// them by handles, which it may make up: a handle that is not of an open request finds nothing. Any
// thread; one thread at a time uses a request.
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
} request_table;

void request_table_init(request_table *self);
void request_table_fini(request_table *self); // none may be open

// Adds `count` requests, all or none. False: no memory.
bool request_table_add(request_table *self, const open_request *requests, uint32_t count,
                       uint64_t *handles);

// Begins to use a request. False: there is none, or another thread uses it.
bool request_table_begin(request_table *self, uint64_t handle, open_request *request);

// Ends to use it. With `close` it is gone. Else, when it was failed meanwhile (request_table_fail),
// it is gone too, and the error is given: the caller answers with it and deletes it.
TRITONSERVER_Error *request_table_end(request_table *self, uint64_t handle, bool close);

// Takes a request out, in order to fail it. False: there is none, or another thread uses it, which
// then fails it (`error` is copied).
bool request_table_fail(request_table *self, uint64_t handle, TRITONSERVER_Error *error,
                        open_request *request);

// Takes any request out, in order to fail it; false: none is left that nobody uses.
bool request_table_take_any(request_table *self, open_request *request);

uint32_t request_table_open_count(request_table *self);

#endif

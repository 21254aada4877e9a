// SPDX-License-Identifier: Apache-2.0
// The requests of a model's process that its messages may still answer or release. The process
// names them by numbers; guessed numbers gain it nothing, since each is looked up. One thread at a
// time handles a request. Any thread.
#ifndef NEREID_ISOLATED_OPEN_REQUESTS_H
#define NEREID_ISOLATED_OPEN_REQUESTS_H

#include "triton/core/tritonbackend.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A batch's block in the server's region, until all its requests are released.
typedef struct input_block {
  uint64_t offset;
  uint32_t users;
} input_block;

typedef struct open_request {
  uint64_t number; // 0: none
  TRITONBACKEND_ModelInstance *instance;
  TRITONBACKEND_Request *request;         // NULL: released
  TRITONBACKEND_ResponseFactory *factory; // NULL: fully answered
  input_block *block;
  uint64_t begun_ns;
  bool busy; // a thread has it
  bool told; // the process knows that it was cancelled
  uint32_t next_free;
} open_request;

typedef struct open_requests {
  pthread_mutex_t lock; // guards all below
  pthread_cond_t changed;
  open_request **entries;
  uint32_t capacity;
  uint32_t first_free;
  size_t open;
  uint32_t waiting; // threads waiting for a request that another thread has
  uint64_t generation;
  bool closed;
  bool passed_over; // open_requests_cancelled met a busy request
} open_requests;

void open_requests_init(open_requests *self);
void open_requests_fini(open_requests *self); // no request may be left

// Adds the requests of a batch, which the backend owns, and returns their numbers; they take over
// `block_owned`. UNAVAILABLE when memory is short or the table closed: then nothing is changed.
TRITONSERVER_Error *open_requests_add(open_requests *self, TRITONBACKEND_ModelInstance *instance,
                                      TRITONBACKEND_Request *const *requests, uint32_t count,
                                      input_block *block_owned, uint64_t *numbers);

// Until they are published, added requests belong to the caller alone, who may also withdraw them.
// Publish and give_back return true when a request may have been cancelled while a thread had it:
// the caller must then call open_requests_cancelled.
bool open_requests_publish(open_requests *self, const uint64_t *numbers, uint32_t count);
void open_requests_withdraw(open_requests *self, const uint64_t *numbers, uint32_t count);

// Takes request `number` for the calling thread alone, until it is given back; NULL: not found.
open_request *open_requests_take(open_requests *self, uint64_t number);
// Removes the request if it is fully answered and released.
bool open_requests_give_back(open_requests *self, open_request *r);

// Takes any remaining request; NULL: none is left. Call it after open_requests_close.
open_request *open_requests_take_any(open_requests *self);
// Stops further additions.
void open_requests_close(open_requests *self);

size_t open_requests_count(open_requests *self);

// The number of a cancelled request that is not `told` yet, and marks it; 0: none.
uint64_t open_requests_cancelled(open_requests *self);
// The process could not be told about that request: try again later.
void open_requests_untell(open_requests *self, uint64_t number);

// One request less needs the block. True: it was the last, and the caller frees the block.
bool open_requests_leave_block(open_requests *self, input_block *block);

#endif

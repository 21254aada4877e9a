// SPDX-License-Identifier: Apache-2.0
// The requests that a model's process has: who may still be answered or released by what it says.
// The process names them by numbers that it cannot guess to any use: a number is looked up, and
// what is done with the request is done by one thread at a time. Any thread.
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
  TRITONBACKEND_ResponseFactory *factory; // NULL: answered in full
  input_block *block;
  uint64_t begun_ns;
  bool busy; // a thread has it
  bool told; // that it was cancelled
  uint32_t next_free;
} open_request;

typedef struct open_requests {
  pthread_mutex_t lock; // guards what follows
  pthread_cond_t changed;
  open_request **entries;
  uint32_t capacity;
  uint32_t first_free;
  size_t open;
  uint32_t waiting; // threads, for one that another thread has
  uint64_t generation;
  bool closed;
  bool passed_over; // by open_requests_cancelled: one that another thread had
} open_requests;

void open_requests_init(open_requests *self);
void open_requests_fini(open_requests *self); // there are none

// Adds the requests of a batch, which are the backend's, and says their numbers; `block_owned` is
// theirs. UNAVAILABLE when memory is short, or when it was closed: then nothing is changed.
TRITONSERVER_Error *open_requests_add(open_requests *self, TRITONBACKEND_ModelInstance *instance,
                                      TRITONBACKEND_Request *const *requests, uint32_t count,
                                      input_block *block_owned, uint64_t *numbers);

// Added requests are the caller's alone until it publishes them, or takes them back as if they had
// never been added. Publish and give_back give true where a request may have been cancelled while a
// thread had it: open_requests_cancelled is to be asked then, by the caller.
bool open_requests_publish(open_requests *self, const uint64_t *numbers, uint32_t count);
void open_requests_withdraw(open_requests *self, const uint64_t *numbers, uint32_t count);

// The request `number`, for the calling thread alone until it gives it back; NULL: there is none.
open_request *open_requests_take(open_requests *self, uint64_t number);
// It is over once it is answered in full and released.
bool open_requests_give_back(open_requests *self, open_request *r);

// Takes any of those that are left; NULL: none is. After open_requests_close.
open_request *open_requests_take_any(open_requests *self);
// No more are added.
void open_requests_close(open_requests *self);

size_t open_requests_count(open_requests *self);

// The number of one that was cancelled and is not `told` yet, which it is then; 0: none.
uint64_t open_requests_cancelled(open_requests *self);
// The process could not be told of that one: it is to be told later.
void open_requests_untell(open_requests *self, uint64_t number);

// One request less needs the block; true: none does, and the caller frees it.
bool open_requests_leave_block(open_requests *self, input_block *block);

#endif

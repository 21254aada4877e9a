// SPDX-License-Identifier: Apache-2.0
// The requests of one TRITONBACKEND_ModelInstanceExecute and their outcome. Each request gets one
// response, sent exactly once, complete or with an error. Also reports statistics and releases the
// requests. Used on the instance's thread, lives for one call.
#ifndef NEREID_BACKEND_BATCH_H
#define NEREID_BACKEND_BATCH_H

#include "base/clock.h"
#include "triton/core/tritonbackend.h"

#define BACKEND_BATCH_INLINE 16

typedef struct backend_batch {
  TRITONBACKEND_ModelInstance *instance;
  TRITONBACKEND_Request **requests;
  uint32_t count;
  TRITONBACKEND_Response **responses; // NULL once an error was sent
  TRITONBACKEND_Response *few[BACKEND_BATCH_INLINE];
  uint64_t exec_start_ns; // set by backend_batch_begin
  uint64_t compute_start_ns;
  uint64_t compute_end_ns;
} backend_batch;

// Makes a response for each request. On an error nothing is held and the requests stay the
// server's: return the error from the entry point. After success call backend_batch_finish.
TRITONSERVER_Error *backend_batch_begin(backend_batch *batch, TRITONBACKEND_ModelInstance *instance,
                                        TRITONBACKEND_Request **requests, uint32_t count);

// Whether request `index` has no error so far.
static inline bool backend_batch_alive(const backend_batch *batch, uint32_t index)
{
  return batch->responses[index] != NULL;
}

// Answers request `index` with an error, which is taken. Does nothing but delete the error when
// the request already failed.
void backend_batch_fail(backend_batch *batch, uint32_t index, TRITONSERVER_Error *error_owned);

// Answers all requests that have not failed yet with the same error, which is taken.
void backend_batch_fail_all(backend_batch *batch, TRITONSERVER_Error *error_owned);

// Reports statistics, sends the complete responses and releases all requests. `batch_size` is the
// sum of the batch sizes that were executed. With 0 (the model did not run) no execution is
// counted.
void backend_batch_finish(backend_batch *batch, uint64_t batch_size);

#endif

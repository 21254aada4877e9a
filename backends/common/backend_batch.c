// SPDX-License-Identifier: Apache-2.0
// Bookkeeping of one execution.
#include "backend_batch.h"

#include "backend_error.h"

#include <assert.h>
#include <stdlib.h>

static void free_responses(backend_batch *batch)
{
  if (batch->responses != batch->few)
    free(batch->responses);
}

TRITONSERVER_Error *backend_batch_begin(backend_batch *batch, TRITONBACKEND_ModelInstance *instance,
                                        TRITONBACKEND_Request **requests, uint32_t count)
{
  batch->exec_start_ns = batch->compute_start_ns = batch->compute_end_ns = clock_monotonic_ns();
  batch->instance = instance;
  batch->requests = requests;
  batch->count = count;
  batch->responses = batch->few;
  if (count > BACKEND_BATCH_INLINE) {
    batch->responses = calloc(count, sizeof(*batch->responses));
    if (batch->responses == NULL)
      return backend_error_no_memory("a batch's responses");
  }
  for (uint32_t i = 0; i < count; i++) {
    TRITONSERVER_Error *error = TRITONBACKEND_ResponseNew(&batch->responses[i], requests[i]);
    if (error == NULL)
      continue;
    while (i-- > 0)
      backend_request_error_log(instance, requests[i],
                                TRITONBACKEND_ResponseDelete(batch->responses[i]),
                                "delete a response");
    free_responses(batch);
    return error;
  }
  return NULL;
}

static void send_error(backend_batch *batch, uint32_t index, TRITONSERVER_Error *error)
{
  assert(index < batch->count);
  TRITONBACKEND_Response *response = batch->responses[index];
  if (response == NULL)
    return;
  batch->responses[index] = NULL;
  backend_request_error_log(
      batch->instance, batch->requests[index],
      TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, error),
      "send an error response");
}

void backend_batch_fail(backend_batch *batch, uint32_t index, TRITONSERVER_Error *error_owned)
{
  send_error(batch, index, error_owned);
  TRITONSERVER_ErrorDelete(error_owned);
}

void backend_batch_fail_all(backend_batch *batch, TRITONSERVER_Error *error_owned)
{
  for (uint32_t i = 0; i < batch->count; i++)
    send_error(batch, i, error_owned);
  TRITONSERVER_ErrorDelete(error_owned);
}

// Statistics come before the responses, so that a client that has its response finds it counted.
void backend_batch_finish(backend_batch *batch, uint64_t batch_size)
{
  uint64_t exec_end_ns = clock_monotonic_ns();
  assert(batch->exec_start_ns <= batch->compute_start_ns);
  for (uint32_t i = 0; i < batch->count; i++)
    backend_request_error_log(batch->instance, batch->requests[i],
                              TRITONBACKEND_ModelInstanceReportStatistics(
                                  batch->instance, batch->requests[i], batch->responses[i] != NULL,
                                  batch->exec_start_ns, batch->compute_start_ns,
                                  batch->compute_end_ns, exec_end_ns),
                              "report request statistics");
  if (batch_size > 0)
    backend_request_error_log(batch->instance, NULL,
                              TRITONBACKEND_ModelInstanceReportBatchStatistics(
                                  batch->instance, batch_size, batch->exec_start_ns,
                                  batch->compute_start_ns, batch->compute_end_ns, exec_end_ns),
                              "report batch statistics");
  for (uint32_t i = 0; i < batch->count; i++) {
    if (batch->responses[i] != NULL)
      backend_request_error_log(batch->instance, batch->requests[i],
                                TRITONBACKEND_ResponseSend(batch->responses[i],
                                                           TRITONSERVER_RESPONSE_COMPLETE_FINAL,
                                                           NULL),
                                "send a response");
    backend_request_error_log(
        batch->instance, batch->requests[i],
        TRITONBACKEND_RequestRelease(batch->requests[i], TRITONSERVER_REQUEST_RELEASE_ALL),
        "release a request");
  }
  free_responses(batch);
}

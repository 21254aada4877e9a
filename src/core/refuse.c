// SPDX-License-Identifier: Apache-2.0
// Answers of the core in place of a backend's.
#include "core/refuse.h"

#include "base/clock.h"
#include "base/log.h"
#include "core/gpu_watch.h"

#include <inttypes.h>
#include <stdio.h>

static error *not_started(const request *r)
{
  char number[24];
  snprintf(number, sizeof(number), "%" PRIu64, r->correlation_id);
  return error_new(ERROR_INVALID_ARG,
                   "inference request for sequence %s to model '%s' must specify the START flag on "
                   "the first request of the sequence",
                   r->correlation_text != NULL ? r->correlation_text : number, r->target->name);
}

error *refusal_error(const request *r, refusal reason)
{
  switch (reason) {
  case REFUSAL_QUEUE_FULL:
    return request_error(r, ERROR_UNAVAILABLE, "Exceeds maximum queue size");
  case REFUSAL_NO_MEMORY:
    return error_no_memory();
  case REFUSAL_TIMEOUT:
    return error_new(ERROR_UNAVAILABLE, "Request timeout expired");
  case REFUSAL_CANCELLED:
    return error_new(ERROR_CANCELLED, "Request was cancelled");
  case REFUSAL_BATCH:
    return error_new(ERROR_INVALID_ARG,
                     "inference request to model '%s' must specify batch-size 1 due to "
                     "requirements of sequence batcher",
                     r->target->name);
  case REFUSAL_NO_SEQUENCE:
    return error_new(
        ERROR_INVALID_ARG,
        "inference request to model '%s' must specify a non-zero or non-empty correlation ID",
        r->target->name);
  case REFUSAL_NOT_STARTED:
    return not_started(r);
  case REFUSAL_SEQUENCE_TIMEOUT:
    return error_new(ERROR_UNAVAILABLE, "timeout of the corresponding sequence has been expired");
  case REFUSAL_LATENCY: // only at submission, which has its own text
  case REFUSAL_STOPPED:
    break;
  }
  int failed_gpu = atomic_load_explicit(&r->target->failed_gpu, memory_order_acquire);
  error *e = failed_gpu > 0 ? gpu_refusal(r->target->name, failed_gpu - 1) : NULL;
  if (e != NULL)
    return e;
  return request_error(
      r, ERROR_UNAVAILABLE,
      "Server is stopping, scheduler for model has stopped accepting new inference requests");
}

void refuse_request(request *r, error *failure_owned, failure_reason reason)
{
  response *answer;
  r->times.end = clock_monotonic_ns();
  statistics_count_failure(&r->target->shared_statistics, false, reason, &r->times);
  error *e = response_new(r->factory, &answer);
  if (e == NULL) {
    e = response_send(answer, TRITONSERVER_RESPONSE_COMPLETE_FINAL, failure_owned);
  } else {
    const log_subject subject = {
        .request_id = r->id.data, .model = r->target->name, .version = r->target->version};
    log_error_about(&subject, "failed to answer (%s) with the error: %s", error_message(e),
                    error_message(failure_owned));
    error_free(failure_owned);
    error_free(e);
    e = response_factory_send_flags(r->factory, TRITONSERVER_RESPONSE_COMPLETE_FINAL);
  }
  error_free(e); // the request was answered before
  request_release(r, TRITONSERVER_REQUEST_RELEASE_ALL);
}

void refuse_item(void *context, queue_item *item_owned, refusal reason)
{
  (void)context;
  request *r = request_of_item(item_owned);
  refuse_request(r, refusal_error(r, reason),
                 reason == REFUSAL_CANCELLED ? FAILURE_CANCELED : FAILURE_REJECTED);
}

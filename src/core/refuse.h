// SPDX-License-Identifier: Apache-2.0
// Answers with errors: for requests that the scheduler gives back, that were cancelled, or whose
// execution failed. Called with no lock held, on the thread that found out.
#ifndef NEREID_CORE_REFUSE_H
#define NEREID_CORE_REFUSE_H

#include "base/error.h"
#include "request/request.h"

// The error for a request that the scheduler refuses or gives back.
error *refusal_error(const request *r, refusal reason);

// Answers with an error as the final response, counts the failure and releases the request.
void refuse_request(request *r_owned, error *failure_owned, failure_reason reason);

// A scheduler_refuse for queued requests. `context` is not used.
void refuse_item(void *context, queue_item *item_owned, refusal reason);

#endif

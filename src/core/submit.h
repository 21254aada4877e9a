// SPDX-License-Identifier: Apache-2.0
// Submission and cancellation: how a client's request gets to a model's instances. Any thread.
#ifndef NEREID_CORE_SUBMIT_H
#define NEREID_CORE_SUBMIT_H

#include "base/error.h"
#include "core/instance.h"
#include "request/request.h"

// Checks the request and queues it, or runs it at once where the request allows that. On success
// the core owns it until its release callback; on error it stays the caller's. The trace (or NULL)
// belongs to the core in both cases.
error *submit_request(request *r, trace *t_owned);

// Continues with a request that submit_request has given to the cache's threads: looks it up, and
// queues it if the cache has no answer. The core owns it in any case.
void submit_looked_up(request *r_owned);

// Executes prepared requests together on the calling thread, past the queue, on an instance with
// room for them (instance_make_room). The core owns them until their release callbacks.
void submit_to_instance(instance *i, request *const *requests, size_t count);

// Marks the request as cancelled. A queued request is answered with CANCELLED at once, on the
// timekeeper's thread, so that no callback runs inside this call. INTERNAL when it was never
// submitted.
error *submit_cancel(request *r);

// Whether the calling thread may execute the request in place of an idle instance: the backend
// allows it, and the model has been fast enough for what else the thread has to do. Any thread.
bool submission_may_run_here(const model *m, const request *r);

#endif

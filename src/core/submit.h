// SPDX-License-Identifier: Apache-2.0
// Submission and cancellation: how a client's request comes to a model's instances. Any thread.
#ifndef NEREID_CORE_SUBMIT_H
#define NEREID_CORE_SUBMIT_H

#include "base/error.h"
#include "core/instance.h"
#include "request/request.h"

// Checks the request and queues it, or runs it at once where the request allows that. On success
// the core owns it until its release callback; on error it stays the caller's. The trace, or NULL,
// is the core's in both cases.
error *submit_request(request *r, trace *t_owned);

// Goes on with a request that submit_request has handed to the cache's threads: looks it up, and
// queues it if that does not answer it. It is the core's, whatever happens.
void submit_looked_up(request *r_owned);

// Executes prepared requests together, past the queue and on the calling thread, on an instance
// with room for them (instance_make_room). They are the core's until their release callbacks.
void submit_to_instance(instance *i, request *const *requests, size_t count);

// Marks the request as cancelled. If it is still queued it is answered with CANCELLED at once, on
// the timekeeper's thread, so that no callback runs inside this call. INTERNAL when it was never
// submitted.
error *submit_cancel(request *r);

#endif

// The way of one request through the core: submitted by a front end's thread, executed by an
// instance's thread, refused or cancelled by whoever finds out.
#ifndef NEREID_CORE_INFER_H
#define NEREID_CORE_INFER_H

#include "base/error.h"
#include "core/instance.h"
#include "request/request.h"

// What a model is taken to need until it is known.
#define INFER_SLOW_NS UINT64_C(1000000)

// Checks the request and queues it, or runs it at once where the request allows that. On success
// the core owns it until its release callback; on error it stays the caller's. The trace, or NULL,
// is the core's in both cases.
error *infer_submit(request *r, trace *t_owned);

// Marks the request as cancelled. If it is still queued it is answered with CANCELLED at once, on
// the timekeeper's thread, so that no callback runs inside this call. INTERNAL when it was never
// submitted.
error *infer_cancel(request *r);

// Runs the batch in i->items on the calling instance thread.
void infer_execute(instance *i, size_t count);

// Ends what was begun on a thread that must not wait for it, and executions that are begun behind
// it meanwhile. The instance's thread.
void infer_end(instance *i);

// Answers with an error as the final response, counts the failure and releases the request.
void infer_fail(request *r_owned, error *failure_owned, failure_reason reason);

// Answers the requests of model `context` that infer_cancel took out of the queue; the callback of
// the model's timer.
uint64_t infer_answer_cancelled(void *context, uint64_t now_ns);

// The scheduler's way to give back what will not be executed; `context` is the model.
void infer_refused(void *context, queue_item *item_owned, refusal reason);

#endif

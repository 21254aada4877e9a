// SPDX-License-Identifier: Apache-2.0
// The interface between the submissions of a model version and its instances, whatever scheduler
// its configuration has. Submissions come in here, and each instance pulls from the `scheduler`
// that it was given (core/instance.h). docs/internals/schedulers.md has the picture.
#ifndef NEREID_CORE_MODEL_QUEUE_H
#define NEREID_CORE_MODEL_QUEUE_H

#include "core/model.h"

// Reads the final configuration; called before the instances are made.
error *model_queue_make(model *m);
void model_queue_free(model *m); // no instance is left
// Gives a new instance the scheduler that it pulls from.
void model_queue_attach(model *m, instance *i);

// Any thread. True: the queue has the request, which may be executed and gone by now, so the caller
// needs its own reference to the model. False: refused, still the caller's.
bool model_queue_add(model *m, request *r, refusal *reason);
// The error for a request that was refused so that queued requests are answered in time; it says
// when to retry.
error *model_queue_latency_error(model *m, const request *r);
// True: removed from the queue, and the caller's. False: it is with a backend, or over.
bool model_queue_cancel(model *m, request *r);

// Refuses new requests, except for known sequences; queued requests are served.
void model_queue_stop(model *m);
// Ends the instances' threads of a model that has no requests any more. Does nothing when
// model_queue_make failed.
void model_queue_close(model *m);
// Answers queued requests with an error.
void model_queue_abandon(model *m);

size_t model_queue_pending(const model *m); // queued requests
// No client can continue a sequence: none is awaited any more.
void model_queue_dismiss(model *m);
size_t model_queue_awaited(const model *m); // sequences that may get more requests
uint64_t model_queue_closed_batches(const model *m, batch_close_reason reason);

#endif

// SPDX-License-Identifier: Apache-2.0
// What stands between the submissions of a model version and its instances, whatever the scheduler
// of its configuration: submissions come in here, and each instance pulls from the `scheduler` that
// it was given (core/instance.h). docs/internals/schedulers.md has the picture.
#ifndef NEREID_CORE_MODEL_QUEUE_H
#define NEREID_CORE_MODEL_QUEUE_H

#include "core/model.h"

// Reads the configuration, which is final; before the instances are made.
error *model_queue_make(model *m);
void model_queue_free(model *m); // no instance is left
// Gives an instance that was made what it pulls from.
void model_queue_attach(model *m, instance *i);

// Any thread. True: it is the queue's, and may be executed and gone by now, so that the caller has
// a reference to the model of its own. False: refused, still the caller's.
bool model_queue_add(model *m, request *r, refusal *reason);
// The words for a request that was refused so that those that wait are answered in time, with the
// moment of a retry.
error *model_queue_latency_error(model *m, const request *r);
// Removes a request that waits: true, and it is the caller's. False: it is with a backend, or over.
bool model_queue_cancel(model *m, request *r);

// Refuses what comes from now on, but for sequences that are known; what waits is served.
void model_queue_stop(model *m);
// The model has no requests any more and its instances' threads are to end. Does nothing where
// model_queue_make failed.
void model_queue_close(model *m);
// Answers what waits with an error.
void model_queue_abandon(model *m);

size_t model_queue_pending(const model *m); // requests that wait
// No client can go on with a sequence: none is awaited.
void model_queue_dismiss(model *m);
size_t model_queue_awaited(const model *m); // sequences of which more requests may come
uint64_t model_queue_closed_batches(const model *m, batch_close_reason reason);

#endif

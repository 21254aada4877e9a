// SPDX-License-Identifier: Apache-2.0
// The sequence batcher of one model version: the table of sequences (schedule/sequence_policy.h)
// under its one lock, a scheduler for each instance, and the timer for what expires. Called by
// submitting threads, instances' threads (releases) and the timekeeper.
// docs/internals/schedulers.md has the picture.
#ifndef NEREID_CORE_SEQUENCES_H
#define NEREID_CORE_SEQUENCES_H

#include "core/instance.h"
#include "request/sequence_state.h"

typedef struct sequences sequences;

// Called before the instances are made, with the final configuration; `states` (or NULL) is
// borrowed.
error *sequences_new(const Inference__ModelConfig *config, const state_rules *states,
                     timekeeper *keeper, sequences **s);
void sequences_free(sequences *s); // was closed; no instance is left

// Gives a new instance its scheduler, unless it is passive.
void sequences_attach(sequences *s, instance *i);
// The instance has no thread (any more): another instance may get its scheduler.
void sequences_detach(sequences *s, const instance *i);

// Change the instances while the model serves; one thread at a time. `config` has the new groups.
// `added` instances are attached between the two calls, and get sequences from sequences_open on.
error *sequences_prepare(sequences *s, const Inference__ModelConfig *config, size_t added);
error *sequences_open(sequences *s);
// The instance, which is not the last one, gets no new sequences. True: it has none. Else
// `vacated`, the same for all instances, is called when its last sequence has left it, on any
// thread, unless the model ends before. `vacated` must not block; the model may have no reference
// by then.
bool sequences_leave(sequences *s, const instance *i, void (*vacated)(instance *i));

// As model_queue_add, model_queue_cancel, _stop, _abandon, _pending and _closed_batches.
bool sequences_add(sequences *s, request *r, refusal *reason);
bool sequences_cancel(sequences *s, request *r);
void sequences_stop(sequences *s);
void sequences_abandon(sequences *s);
size_t sequences_pending(sequences *s);
uint64_t sequences_closed_batches(const sequences *s, batch_close_reason reason);

// No client can continue a sequence: each ends with the requests that are here.
void sequences_dismiss(sequences *s);
size_t sequences_live(sequences *s); // sequences with a slot and without END
// Ends the instances' threads of a model that has no requests any more.
void sequences_close(sequences *s);

// `count` requests are about to be executed: slots of sequences that end with them become free. The
// instance's thread.
void sequences_taken(sequences *s, request *const *batch, uint32_t count);
// Refuses requests of the batch whose sequence's state the backend has lost with its process.
// Returns how many are left. The instance's thread, before the backend gets the batch.
uint32_t sequences_refuse_lost(const sequences *s, instance *i, size_t first, uint32_t count);
// The target's `released`: the request of a sequence is over, and its next one may go.
bool sequences_released(void *sequences_pointer, request *r, uint32_t flags);

#endif

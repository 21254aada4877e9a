// SPDX-License-Identifier: Apache-2.0
// The sequence batcher of one model version: the table of sequences (schedule/sequence_policy.h)
// under its one lock, a scheduler for each instance, and the timer of what expires. Submitting
// threads, instances' threads (releases) and the timekeeper come in here.
// docs/internals/schedulers.md has the picture.
#ifndef NEREID_CORE_SEQUENCES_H
#define NEREID_CORE_SEQUENCES_H

#include "core/instance.h"
#include "request/sequence_state.h"

typedef struct sequences sequences;

// Before the instances are made. The configuration is final; `states` (or NULL) is borrowed.
error *sequences_new(const Inference__ModelConfig *config, const state_rules *states,
                     timekeeper *keeper, sequences **s);
void sequences_free(sequences *s); // was closed; no instance is left

// Gives a new instance its scheduler; none to a passive one.
void sequences_attach(sequences *s, instance *i);
// Its thread has ended, or it never had one: another may have its scheduler.
void sequences_detach(sequences *s, const instance *i);

// Other instances, while the model serves; one thread at a time. `config` has the groups that are
// to be, `added` instances more are attached after this. They have sequences once they are open.
error *sequences_prepare(sequences *s, const Inference__ModelConfig *config, size_t added);
error *sequences_open(sequences *s);
// The instance, which is not the last one, gets no new sequence. True: it has none. Else `vacated`
// is called, the same for all, when the last one has left it, on any thread, unless the model ends
// before. It must not block, and the model may have no reference by then.
bool sequences_leave(sequences *s, const instance *i, void (*vacated)(instance *i));

// As model_queue_add, model_queue_cancel, _stop, _abandon, _pending and _closed_batches.
bool sequences_add(sequences *s, request *r, refusal *reason);
bool sequences_cancel(sequences *s, request *r);
void sequences_stop(sequences *s);
void sequences_abandon(sequences *s);
size_t sequences_pending(sequences *s);
uint64_t sequences_closed_batches(const sequences *s, batch_close_reason reason);

// No client can go on with a sequence: each ends with the requests that are here.
void sequences_dismiss(sequences *s);
size_t sequences_live(sequences *s); // that have a slot and no END yet
// The model ends: it has no requests, and its instances' threads are to end.
void sequences_close(sequences *s);

// `count` requests are about to be executed: the slots of sequences that end with them pass on. The
// instance's thread.
void sequences_taken(sequences *s, request *const *batch, uint32_t count);
// Those of the batch that go on with what the backend has lost with its process are refused; gives
// how many are left. The instance's thread, before the batch goes to the backend.
uint32_t sequences_refuse_lost(const sequences *s, instance *i, size_t first, uint32_t count);
// The target's `released`: what was under way is over, and the next one may go.
bool sequences_released(void *sequences_pointer, request *r, uint32_t flags);

#endif

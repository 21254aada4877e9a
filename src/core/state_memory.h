// SPDX-License-Identifier: Apache-2.0
// Memory outside of the heap for the states of a model's sequences: from pools, and growing regions
// of a GPU. Regions are reused by later sequences, so that the end of a sequence does not call the
// driver.
#ifndef NEREID_CORE_STATE_MEMORY_H
#define NEREID_CORE_STATE_MEMORY_H

#include "core/gpus.h"
#include "request/sequence_state.h"

// `g` is borrowed; NULL: there are no GPUs, and all states are on the heap. Load threads.
error *state_memory_new(gpus *g, state_source *source);
void state_memory_free(state_source *source); // no memory is out; a zeroed one is allowed

#endif

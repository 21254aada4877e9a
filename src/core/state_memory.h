// SPDX-License-Identifier: Apache-2.0
// Memory for the states of a model's sequences that is not the heap's: of the pools, and regions of
// a GPU that grow, which go from one sequence to the next, so that no end of a sequence calls the
// driver.
#ifndef NEREID_CORE_STATE_MEMORY_H
#define NEREID_CORE_STATE_MEMORY_H

#include "core/gpus.h"
#include "request/sequence_state.h"

// `g` is borrowed; NULL: there are no GPUs, and all is the heap's. Load threads.
error *state_memory_new(gpus *g, state_source *source);
void state_memory_free(state_source *source); // no memory is out; one that is all zero is allowed

#endif

// SPDX-License-Identifier: Apache-2.0
// Memory for the outputs of an ensemble's steps, and the answer that is made of them. Backends'
// threads call the allocator; the thread that ends a wave makes the answer.
#ifndef NEREID_CORE_ENSEMBLE_BUFFER_H
#define NEREID_CORE_ENSEMBLE_BUFFER_H

#include "core/ensemble_parts.h"
#include "request/response_allocator.h"

// The allocator of every step's request; its context is the ensemble_step.
extern response_allocator ensemble_allocator;

// The tensor's shape for a model that has `config` for it. Between models that batch and models
// that do not, a first dimension of one row is added or removed, as in Triton. `batch_size`: that
// of the request that the tensor belongs to, or 0. `room` has room for one dimension more.
const int64_t *ensemble_shape(const tensor_signature *config, bool batches, uint32_t batch_size,
                              const int64_t *dims, uint32_t *dim_count, int64_t *room);

// Makes the answer of a wave that has all wanted outputs; what steps wrote into the client's memory
// is handed over. Errors: the client's allocator's, and as response_add_output.
error *ensemble_write_answer(ensemble_wave *w, response **answer);

#endif

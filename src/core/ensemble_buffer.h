// SPDX-License-Identifier: Apache-2.0
// Where the steps of an ensemble write, and the answer that is made of it. Backends' threads call
// the allocator, whoever ends a wave makes the answer.
#ifndef NEREID_CORE_ENSEMBLE_BUFFER_H
#define NEREID_CORE_ENSEMBLE_BUFFER_H

#include "core/ensemble_parts.h"
#include "request/response_allocator.h"

// Of every step's request; its context is the ensemble_step.
extern response_allocator ensemble_allocator;

// The tensor's shape for a model that has `config` for it: between models that batch and models
// that do not, a dimension of one row comes or goes, as in Triton. `batch_size`: 0, or that of the
// request that the tensor comes from. `room` has room for one dimension more.
const int64_t *ensemble_shape(const tensor_signature *config, bool batches, uint32_t batch_size,
                              const int64_t *dims, uint32_t *dim_count, int64_t *room);

// Makes the answer of a wave that has all that is wanted; where steps wrote into the client's
// memory already, that is handed over. Errors: the client's allocator's, and as
// response_add_output.
error *ensemble_write_answer(ensemble_wave *w, response **answer);

#endif

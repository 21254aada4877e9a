// SPDX-License-Identifier: Apache-2.0
// A custom batching strategy: a library of the operator that has a say in which requests share a
// batch (TRITONBACKEND_ModelBatcher…, TRITONBACKEND_ModelBatch…; docs/scheduling.md). Found and
// opened on a load thread; asked by the model's scheduler, with its lock held.
#ifndef NEREID_CORE_BATCH_STRATEGY_H
#define NEREID_CORE_BATCH_STRATEGY_H

#include "core/model.h"
#include "schedule/batch_forming.h"

// The library of the model that is about to load: what the parameter TRITON_BATCH_STRATEGY_PATH
// names, or else batchstrategy.so in the directory of the version, the model or the backend. *path
// is for free(), NULL: none. Errors, in Triton's words: INVALID_ARG for a path that leads out of
// the model's directory, NOT_FOUND.
error *batch_strategy_find(const model_environment *environment, const model_source *source,
                           char **path);

// Opens the library and has it initialize its batcher for the model. Errors: what the loader or the
// library says; INVALID_ARG when it lacks some of the functions.
error *batch_strategy_open(model *m, const char *path);

// For the model's scheduler; NULL: none.
const batch_strategy *batch_strategy_of(const model *m);

// Nothing is queued and nothing will be. Does nothing where there is none.
void batch_strategy_close(model *m);

#endif

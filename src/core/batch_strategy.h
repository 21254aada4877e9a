// SPDX-License-Identifier: Apache-2.0
// A custom batching strategy: an operator's library that helps to decide which requests share a
// batch (TRITONBACKEND_ModelBatcher…, TRITONBACKEND_ModelBatch…; docs/scheduling.md). A load thread
// finds and opens it; the model's scheduler calls it with its lock held.
#ifndef NEREID_CORE_BATCH_STRATEGY_H
#define NEREID_CORE_BATCH_STRATEGY_H

#include "core/model.h"
#include "schedule/batch_forming.h"

// Finds the library of a model that is about to load: the file that the parameter
// TRITON_BATCH_STRATEGY_PATH names, or batchstrategy.so in the directory of the version, the model
// or the backend. *path is for free(), NULL: there is none. Errors, in Triton's words: INVALID_ARG
// for a path that leads out of the model's directory, NOT_FOUND.
error *batch_strategy_find(const model_environment *environment, const model_source *source,
                           char **path);

// Opens the library and has it initialize its batcher for the model. Errors: the loader's or the
// library's; INVALID_ARG when it has only some of the functions.
error *batch_strategy_open(model *m, const char *path);

// For the model's scheduler; NULL: none.
const batch_strategy *batch_strategy_of(const model *m);

// Nothing is queued, nor will be. Does nothing without a strategy.
void batch_strategy_close(model *m);

#endif

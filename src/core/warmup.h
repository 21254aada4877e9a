// SPDX-License-Identifier: Apache-2.0
// Warm-up: before they get requests, instances answer the samples of their configuration
// (model_warmup), by the same way by which they execute requests.
#ifndef NEREID_CORE_WARMUP_H
#define NEREID_CORE_WARMUP_H

#include "core/model.h"

// Whether the load is still wanted; asked between samples, and now and then while one is awaited.
typedef struct warmup_wish {
  bool (*is_wanted)(const void *context); // any thread; NULL: always
  const void *context;
} warmup_wish;

// Runs each sample on each of `instances`, which are not running and belong to `m`, one after the
// other on the calling thread, which is put where the instance's is to be. Blocks as long as the
// backend takes; a backend that answers later is told by cancelled requests that the load is not
// wanted any more, and is waited for all the same, since it has the requests. What the instances
// allocate is added to the model's memory. Errors: INVALID_ARG "failed to run warmup sample '…': …"
// with all that the backend answered, or "failed to prepare warmup sample '…': …"; UNAVAILABLE when
// the load is not wanted.
error *warmup_instances(model *m, instance *const *instances, size_t count, warmup_wish wish);

#endif

// SPDX-License-Identifier: Apache-2.0
// Warm-up: before instances get requests, they execute the samples of their configuration
// (model_warmup) as they execute requests.
#ifndef NEREID_CORE_WARMUP_H
#define NEREID_CORE_WARMUP_H

#include "core/model.h"

// Whether the load is still wanted; asked between samples, and regularly while one runs.
typedef struct warmup_wish {
  bool (*is_wanted)(const void *context); // any thread; NULL: always
  const void *context;
} warmup_wish;

// Runs each sample on each of `instances`, which belong to `m` and are not running, one after the
// other on the calling thread, with each instance's placement. Blocks as long as the backend takes.
// When the load is not wanted any more, requests under way are marked as cancelled and still
// awaited, since the backend has them. Memory that the instances allocate is added to the model's.
// Errors: INVALID_ARG "failed to run warmup sample '…': …" with the backend's answers, or "failed
// to prepare warmup sample '…': …"; UNAVAILABLE when the load is not wanted.
error *warmup_instances(model *m, instance *const *instances, size_t count, warmup_wish wish);

#endif

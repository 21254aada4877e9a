// SPDX-License-Identifier: Apache-2.0
// The part of a model version that its requests need; the first member of `struct model`. Kept
// apart so that requests do not depend on how models load and run.
#ifndef NEREID_REQUEST_TARGET_H
#define NEREID_REQUEST_TARGET_H

#include "base/refcount.h"
#include "request/latency_summaries.h"
#include "request/response_histogram.h"
#include "request/response_statistics.h"
#include "request/signature.h"
#include "request/statistics.h"

#include <stdatomic.h>
#include <stdint.h>

typedef struct request_target request_target;
struct TRITONSERVER_InferenceRequest;

struct request_target {
  const char *name; // of the model
  int64_t version;
  model_signature signature;
  statistics shared_statistics; // events off the instances' threads; atomic additions
  response_statistics response_statistics;
  latency_summaries *summaries;       // NULL unless a setting enables it, like:
  response_histogram *first_response; // of first responses
  refcount references;
  _Atomic uint64_t inflight; // submitted requests that are not yet answered in full
  void (*unreferenced)(
      request_target *target); // called once, on the thread that dropped the last reference
  // Called before the client when a backend releases a request, or when it is refused. True: the
  // core keeps the request, and the client is not called. NULL for most models.
  bool (*released)(void *context, struct TRITONSERVER_InferenceRequest *r, uint32_t flags);
  void *released_context;
  _Atomic int failed_gpu; // 1 + ordinal of a failed GPU: requests are refused; 0: none
  bool leaves_gaps;       // its backend may leave parts of outputs and states unwritten
  bool reschedules;       // its backend may release requests with RESCHEDULE: iterative sequences
};

static inline request_target *request_target_ref(request_target *target)
{
  refcount_take(&target->references);
  return target;
}

static inline void request_target_unref(request_target *target)
{
  if (refcount_drop(&target->references))
    target->unreferenced(target);
}

#endif

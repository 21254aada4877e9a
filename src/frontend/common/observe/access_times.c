// Reads what the core keeps of a response (NEREID_InferenceResponseTimes).
#include "frontend/common/observe/access_times.h"

#include "base/clock.h"
#include "nereid/nereid.h"

void access_times_record(access_times *t, TRITONSERVER_InferenceResponse *response)
{
  NEREID_ResponseTimes times;
  const char *model;
  int64_t version = 0;
  NEREID_InferenceResponseTimes(response, &times);
  TRITONSERVER_ErrorDelete(TRITONSERVER_InferenceResponseModel(response, &model, &version));
  uint64_t now = clock_monotonic_ns();
  uint64_t started = times.started_ns != 0 ? times.started_ns : now; // refused: it waited, no more
  atomic_store_explicit(&t->queue_ns, started - times.submitted_ns, memory_order_relaxed);
  atomic_store_explicit(&t->compute_ns, now - started, memory_order_relaxed);
  atomic_store_explicit(&t->batch_size, times.batch_size, memory_order_relaxed);
  atomic_store_explicit(&t->version, version, memory_order_relaxed);
}

void access_times_print(const access_times *t, int64_t version, access_record *record)
{
  int64_t answered = atomic_load_explicit(&t->version, memory_order_relaxed);
  record->version = answered > 0 ? answered : version > 0 ? version : 0;
  record->batch_size = atomic_load_explicit(&t->batch_size, memory_order_relaxed);
  record->queue_ns = atomic_load_explicit(&t->queue_ns, memory_order_relaxed);
  record->compute_ns = atomic_load_explicit(&t->compute_ns, memory_order_relaxed);
}

// When a request waited and ran, as its responses tell, for the access log. Responses come on any
// thread; of several the last one counts. Zeroed is nothing known.
#ifndef NEREID_FRONTEND_COMMON_OBSERVE_ACCESS_TIMES_H
#define NEREID_FRONTEND_COMMON_OBSERVE_ACCESS_TIMES_H

#include "frontend/common/observe/access_log.h"
#include "triton/core/tritonserver.h"

#include <stdatomic.h>
#include <stdint.h>

typedef struct access_times {
  _Atomic uint64_t queue_ns;
  _Atomic uint64_t compute_ns;
  _Atomic uint32_t batch_size;
  _Atomic int64_t version; // of the model that answered
} access_times;

// The response is there. Any thread.
void access_times_record(access_times *t, TRITONSERVER_InferenceResponse *response);

// Puts them into a record. `version` is the one that was asked for, 0 or less for any: it stands
// where nobody answered.
void access_times_print(const access_times *t, int64_t version, access_record *record);

#endif

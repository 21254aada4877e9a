// A counter among the server's metrics that a front end counts itself. Any thread may add.
#ifndef NEREID_FRONTEND_COMMON_OBSERVE_FRONT_COUNTER_H
#define NEREID_FRONTEND_COMMON_OBSERVE_FRONT_COUNTER_H

#include "triton/core/tritonserver.h"

#include <stdint.h>

// Both NULL: the server has no metrics, and nothing is counted.
typedef struct front_counter {
  TRITONSERVER_MetricFamily *family;
  TRITONSERVER_Metric *metric;
} front_counter;

// `name` and `description` are copied. Before the server ends front_counter_fini must be called.
void front_counter_init(front_counter *c, const char *name, const char *description);
void front_counter_fini(front_counter *c);

void front_counter_add(const front_counter *c, uint64_t count);

#endif

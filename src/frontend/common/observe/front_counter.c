// Custom metrics of the north seam.
#include "frontend/common/observe/front_counter.h"

#include <stddef.h>

void front_counter_init(front_counter *c, const char *name, const char *description)
{
  *c = (front_counter){0};
  TRITONSERVER_Error *failure =
      TRITONSERVER_MetricFamilyNew(&c->family, TRITONSERVER_METRIC_KIND_COUNTER, name, description);
  if (failure == NULL)
    failure = TRITONSERVER_MetricNew(&c->metric, c->family, NULL, 0);
  TRITONSERVER_ErrorDelete(failure); // without metrics nobody can ask for it
}

void front_counter_fini(front_counter *c)
{
  if (c->metric != NULL)
    TRITONSERVER_ErrorDelete(TRITONSERVER_MetricDelete(c->metric));
  if (c->family != NULL)
    TRITONSERVER_ErrorDelete(TRITONSERVER_MetricFamilyDelete(c->family));
  *c = (front_counter){0};
}

void front_counter_add(const front_counter *c, uint64_t count)
{
  if (c->metric != NULL && count > 0)
    TRITONSERVER_ErrorDelete(TRITONSERVER_MetricIncrement(c->metric, (double)count));
}

// SPDX-License-Identifier: Apache-2.0
// The memory of a model version. Any thread.
#include "core/model_memory.h"

#include "base/clock.h"
#include "core/model_instances.h"

#define PAUSE_NS   UINT64_C(1000000000) // between two questions to a backend
#define PAUSE_COST 100                  // at least so many times the duration of the answer

static uint64_t loaded_bytes(const model *m)
{
  return atomic_load_explicit(&m->loaded_bytes, memory_order_relaxed);
}

static void add_bytes(void *sum, instance *i)
{
  *(uint64_t *)sum += memory_report_host_bytes(&i->memory);
}

uint64_t model_memory_bytes(model *m)
{
  uint64_t loaded = loaded_bytes(m), reported = memory_report_host_bytes(&m->memory);
  model_visit_instances(m, add_bytes, &reported);
  return loaded > reported ? loaded : reported;
}

static void measure_instance(void *context, instance *i)
{
  (void)context;
  i->shared->backend->functions.model_instance_measure_memory(i);
}

void model_memory_update(model *m)
{
  uint64_t now = clock_monotonic_ns();
  uint64_t next = atomic_load_explicit(&m->next_measure_ns, memory_order_relaxed);
  if (m->shared.backend->functions.model_instance_measure_memory == NULL || now < next ||
      !atomic_compare_exchange_strong_explicit(&m->next_measure_ns, &next, CLOCK_NEVER,
                                               memory_order_acq_rel, memory_order_relaxed))
    return;
  model_visit_instances(m, measure_instance, NULL);
  uint64_t end = clock_monotonic_ns(), cost = PAUSE_COST * (end - now);
  atomic_store_explicit(&m->next_measure_ns, end + (cost > PAUSE_NS ? cost : PAUSE_NS),
                        memory_order_release);
}

typedef struct places_sum {
  memory_places *places;
  error *failure;
} places_sum;

static void add_places(void *context, instance *i)
{
  places_sum *sum = context;
  if (sum->failure == NULL)
    sum->failure = memory_report_add_to(&i->memory, sum->places);
}

error *model_memory_places(model *m, memory_places *places)
{
  uint64_t reported = 0, loaded = loaded_bytes(m);
  *places = (memory_places){0};
  places_sum sum = {places, memory_report_add_to(&m->memory, places)};
  model_visit_instances(m, add_places, &sum);
  RETURN_IF_ERROR(sum.failure);
  for (size_t i = 0; i < places->count; i++)
    reported += memory_place_is_host(&places->items[i]) ? places->items[i].bytes : 0;
  if (reported > loaded)
    return NULL;
  return memory_places_add(places, (memory_place){TRITONSERVER_MEMORY_CPU, 0, loaded - reported});
}

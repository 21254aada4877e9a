// SPDX-License-Identifier: Apache-2.0
// The memory that a backend says a model or an instance takes, by place; the last report counts.
// Any thread.
#ifndef NEREID_CORE_MEMORY_REPORT_H
#define NEREID_CORE_MEMORY_REPORT_H

#include "base/error.h"
#include "request/buffer_attributes.h"

#include <pthread.h>

typedef struct memory_place {
  TRITONSERVER_MemoryType type;
  int64_t id;
  uint64_t bytes;
} memory_place;

// Each place once, ordered by type and id.
typedef struct memory_places {
  memory_place *items; // owned
  size_t count;
} memory_places;

error *memory_places_add(memory_places *places, memory_place added);
void memory_places_fini(memory_places *places);

static inline bool memory_place_is_host(const memory_place *place)
{
  return place->type != TRITONSERVER_MEMORY_GPU;
}

typedef struct memory_report {
  pthread_mutex_t lock; // guards the rest
  memory_places places;
} memory_report;

void memory_report_init(memory_report *report);
void memory_report_fini(memory_report *report);

// Replaces the last report. Errors: UNAVAILABLE, memory is short; the last report then stays.
error *memory_report_set(memory_report *report, buffer_attributes *const *usage, size_t count);

// Adds the last report to `sum`.
error *memory_report_add_to(memory_report *report, memory_places *sum);
uint64_t memory_report_host_bytes(memory_report *report);

#endif

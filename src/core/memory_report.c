// SPDX-License-Identifier: Apache-2.0
// Lists of few places. Backends' threads write, threads that ask for statistics read.
#include "core/memory_report.h"

#include "base/cleanup.h"

#include <string.h>

// The place's index, or the index where it would be inserted.
static size_t find(const memory_places *places, const memory_place *wanted)
{
  size_t at = 0;
  while (at < places->count &&
         (places->items[at].type < wanted->type ||
          (places->items[at].type == wanted->type && places->items[at].id < wanted->id)))
    at++;
  return at;
}

error *memory_places_add(memory_places *places, memory_place added)
{
  size_t at = find(places, &added);
  memory_place *there = places->items + at;
  if (at < places->count && there->type == added.type && there->id == added.id) {
    there->bytes += added.bytes;
    return NULL;
  }
  memory_place *grown = reallocarray(places->items, places->count + 1, sizeof(*grown));
  if (grown == NULL)
    return error_no_memory();
  places->items = grown;
  memmove(grown + at + 1, grown + at, (places->count - at) * sizeof(*grown));
  grown[at] = added;
  places->count++;
  return NULL;
}

void memory_places_fini(memory_places *places)
{
  free(places->items);
  *places = (memory_places){0};
}

void memory_report_init(memory_report *report)
{
  *report = (memory_report){0};
  pthread_mutex_init(&report->lock, NULL);
}

void memory_report_fini(memory_report *report)
{
  memory_places_fini(&report->places);
  pthread_mutex_destroy(&report->lock);
}

error *memory_report_set(memory_report *report, buffer_attributes *const *usage, size_t count)
{
  memory_places said = {0};
  error *e = NULL;
  for (size_t i = 0; e == NULL && i < count; i++)
    e = memory_places_add(&said, (memory_place){usage[i]->memory_type, usage[i]->memory_type_id,
                                                usage[i]->byte_size});
  if (e == NULL) {
    LOCK_SCOPE(&report->lock);
    memory_places before = report->places;
    report->places = said;
    said = before;
  }
  memory_places_fini(&said);
  return e;
}

error *memory_report_add_to(memory_report *report, memory_places *sum)
{
  LOCK_SCOPE(&report->lock);
  for (size_t i = 0; i < report->places.count; i++)
    RETURN_IF_ERROR(memory_places_add(sum, report->places.items[i]));
  return NULL;
}

uint64_t memory_report_host_bytes(memory_report *report)
{
  uint64_t bytes = 0;
  LOCK_SCOPE(&report->lock);
  for (size_t i = 0; i < report->places.count; i++)
    bytes += memory_place_is_host(&report->places.items[i]) ? report->places.items[i].bytes : 0;
  return bytes;
}

// SPDX-License-Identifier: Apache-2.0
// How many requests of one step may be under way, and which wait for a place, in order of arrival.
// A pure policy without a lock or a clock: core/ensemble_limit.c has the lock, and tests call it by
// itself.
#ifndef NEREID_CORE_ENSEMBLE_PLACES_H
#define NEREID_CORE_ENSEMBLE_PLACES_H

#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

#define ENSEMBLE_PATIENCE_NS UINT64_C(300000000000) // as in Triton: a step then begins in any case

// Embedded in the step that waits.
typedef struct ensemble_place {
  list_node node;
  uint64_t since_ns;
} ensemble_place;

typedef struct ensemble_places {
  uint32_t max;
  uint32_t under_way; // above `max` only by steps that waited too long
  list waiting;
} ensemble_places;

void ensemble_places_init(ensemble_places *p, uint32_t max);

static inline bool ensemble_places_are_taken(const ensemble_places *p)
{
  return p->under_way >= p->max;
}

// A step begins, in a free place or beyond `max`.
void ensemble_places_take(ensemble_places *p);
// The step waits from now on.
void ensemble_places_wait(ensemble_places *p, ensemble_place *place, uint64_t now_ns);
// The step waits no longer, and has no place.
void ensemble_places_withdraw(ensemble_place *place);

// A step leaves. Returns the waiter that gets its place; NULL: none waits, or none may begin yet.
ensemble_place *ensemble_places_leave(ensemble_places *p);

// A waiter that has waited too long and gets a place in any case; NULL: there is none.
ensemble_place *ensemble_places_overdue(ensemble_places *p, uint64_t now_ns);
uint64_t ensemble_places_next_ns(const ensemble_places *p); // the next such moment, or CLOCK_NEVER

#endif

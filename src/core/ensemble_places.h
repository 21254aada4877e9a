// SPDX-License-Identifier: Apache-2.0
// How many requests of one step may be under way, and who waits for a place, in order of arrival: a
// pure policy without a lock or a clock. core/ensemble_limit.c has the lock; tests drive it by
// themselves.
#ifndef NEREID_CORE_ENSEMBLE_PLACES_H
#define NEREID_CORE_ENSEMBLE_PLACES_H

#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

#define ENSEMBLE_PATIENCE_NS UINT64_C(300000000000) // as in Triton: then it begins all the same

// Embedded in whatever waits.
typedef struct ensemble_place {
  list_node node;
  uint64_t since_ns;
} ensemble_place;

typedef struct ensemble_places {
  uint32_t max;
  uint32_t under_way; // above `max` only by those that waited for too long
  list waiting;
} ensemble_places;

void ensemble_places_init(ensemble_places *p, uint32_t max);

static inline bool ensemble_places_are_taken(const ensemble_places *p)
{
  return p->under_way >= p->max;
}

// One is under way: in a place that is free, or although there is none.
void ensemble_places_take(ensemble_places *p);
// It waits from now on.
void ensemble_places_wait(ensemble_places *p, ensemble_place *place, uint64_t now_ns);
// It waits no longer, and has no place.
void ensemble_places_withdraw(ensemble_place *place);

// One is not under way any more. Gives who has got its place and waits no longer; NULL: nobody.
ensemble_place *ensemble_places_leave(ensemble_places *p);

// Somebody who has waited for too long, has a place all the same and waits no longer; NULL: nobody.
ensemble_place *ensemble_places_overdue(ensemble_places *p, uint64_t now_ns);
uint64_t ensemble_places_next_ns(const ensemble_places *p); // when that is; CLOCK_NEVER: never

#endif

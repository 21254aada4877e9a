// SPDX-License-Identifier: Apache-2.0
// See ensemble_places.h. Called by core/ensemble_limit.c with the step's lock held, and by tests.
#include "core/ensemble_places.h"

#include "base/clock.h"

#include <assert.h>

static ensemble_place *first_of(const ensemble_places *p)
{
  return container_of(list_first(&p->waiting), ensemble_place, node);
}

void ensemble_places_init(ensemble_places *p, uint32_t max)
{
  *p = (ensemble_places){.max = max};
  list_init(&p->waiting);
}

void ensemble_places_take(ensemble_places *p)
{
  p->under_way++;
}

void ensemble_places_wait(ensemble_places *p, ensemble_place *place, uint64_t now_ns)
{
  place->since_ns = now_ns;
  list_append(&p->waiting, &place->node);
}

void ensemble_places_withdraw(ensemble_place *place)
{
  list_remove(&place->node);
}

static ensemble_place *let_in(ensemble_places *p, ensemble_place *place)
{
  list_remove(&place->node);
  p->under_way++;
  return place;
}

ensemble_place *ensemble_places_leave(ensemble_places *p)
{
  assert(p->under_way > 0);
  p->under_way--;
  ensemble_place *first = first_of(p);
  return first == NULL || ensemble_places_are_taken(p) ? NULL : let_in(p, first);
}

ensemble_place *ensemble_places_overdue(ensemble_places *p, uint64_t now_ns)
{
  return ensemble_places_next_ns(p) <= now_ns ? let_in(p, first_of(p)) : NULL;
}

uint64_t ensemble_places_next_ns(const ensemble_places *p)
{
  const ensemble_place *first = first_of(p);
  return first == NULL ? CLOCK_NEVER : first->since_ns + ENSEMBLE_PATIENCE_NS;
}

// SPDX-License-Identifier: Apache-2.0
// A list and the timer that empties it.
#include "core/ensemble_late.h"

#include <assert.h>

static uint64_t go_on(void *context, uint64_t now_ns)
{
  (void)now_ns;
  ensemble_late *late = context;
  pthread_mutex_lock(&late->lock);
  ensemble_step *s = late->first, *next;
  late->first = NULL;
  pthread_mutex_unlock(&late->lock);
  for (; s != NULL; s = next) { // this may end its run, and the last one its model
    next = s->next;
    s->over.run(&s->over, false);
  }
  return CLOCK_NEVER;
}

void ensemble_late_init(ensemble_late *late, timekeeper *keeper)
{
  *late = (ensemble_late){.timekeeper = keeper};
  pthread_mutex_init(&late->lock, NULL);
  timer_init(&late->timer, go_on, late);
}

void ensemble_late_fini(ensemble_late *late)
{
  timekeeper_cancel(late->timekeeper, &late->timer);
  assert(late->first == NULL);
  pthread_mutex_destroy(&late->lock);
}

void ensemble_late_add(ensemble_late *late, ensemble_step *s)
{
  pthread_mutex_lock(&late->lock);
  s->next = late->first;
  late->first = s;
  pthread_mutex_unlock(&late->lock);
  timekeeper_arm(late->timekeeper, &late->timer, 0);
}

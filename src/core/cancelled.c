// SPDX-License-Identifier: Apache-2.0
// A list and the timer that empties it.
#include "core/cancelled.h"

#include "base/clock.h"
#include "core/refuse.h"

#include <assert.h>

static uint64_t answer_all(void *context, uint64_t now_ns)
{
  cancelled_requests *c = context;
  (void)now_ns;
  list items;
  list_init(&items);
  pthread_mutex_lock(&c->lock);
  list_append_all(&items, &c->items);
  pthread_mutex_unlock(&c->lock);
  list_node *first;
  while ((first = list_take_first(&items)) != NULL) // with the last one the model may be gone
    refuse_item(NULL, container_of(first, queue_item, node), REFUSAL_CANCELLED);
  return CLOCK_NEVER;
}

void cancelled_requests_init(cancelled_requests *c, timekeeper *keeper)
{
  *c = (cancelled_requests){.timekeeper = keeper};
  list_init(&c->items);
  pthread_mutex_init(&c->lock, NULL);
  timer_init(&c->timer, answer_all, c);
}

void cancelled_requests_fini(cancelled_requests *c)
{
  timekeeper_cancel(c->timekeeper, &c->timer);
  assert(list_is_empty(&c->items));
  pthread_mutex_destroy(&c->lock);
}

void cancelled_requests_add(cancelled_requests *c, queue_item *item)
{
  pthread_mutex_lock(&c->lock);
  list_append(&c->items, &item->node);
  pthread_mutex_unlock(&c->lock);
  timekeeper_arm(c->timekeeper, &c->timer, 0);
}

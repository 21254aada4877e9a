// A list and the timer that empties it.
#include "core/cancelled.h"

#include "base/clock.h"
#include "core/refuse.h"

#include <assert.h>

static uint64_t answer_all(void *context, uint64_t now_ns)
{
  cancelled_requests *c = context;
  (void)now_ns;
  pthread_mutex_lock(&c->lock);
  queue_item *item = c->first;
  c->first = NULL;
  pthread_mutex_unlock(&c->lock);
  while (item != NULL) { // the model may be gone from its last request on
    queue_item *next = item->next;
    refuse_item(NULL, item, REFUSAL_CANCELLED);
    item = next;
  }
  return CLOCK_NEVER;
}

void cancelled_requests_init(cancelled_requests *c, timekeeper *keeper)
{
  *c = (cancelled_requests){.timekeeper = keeper};
  pthread_mutex_init(&c->lock, NULL);
  timer_init(&c->timer, answer_all, c);
}

void cancelled_requests_fini(cancelled_requests *c)
{
  timekeeper_cancel(c->timekeeper, &c->timer);
  assert(c->first == NULL);
  pthread_mutex_destroy(&c->lock);
}

void cancelled_requests_add(cancelled_requests *c, queue_item *item)
{
  pthread_mutex_lock(&c->lock);
  item->next = c->first;
  c->first = item;
  pthread_mutex_unlock(&c->lock);
  timekeeper_arm(c->timekeeper, &c->timer, 0);
}

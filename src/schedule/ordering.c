// SPDX-License-Identifier: Apache-2.0
// A list of slots under a lock; at most one thread at a time sends from its head. Called by threads
// that answer (deliver), and by the scheduler and the cache's look-ups (reserve).
#include "schedule/ordering.h"

#include "base/thread.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

struct ordering {
  ordering_send *send;
  void *context;
  pthread_mutex_t lock; // guards all below and the slots' lists
  list slots;
  bool sending; // a thread sends, also what others deliver meanwhile
};

error *ordering_new(ordering_send *send, void *context, ordering **o)
{
  ordering *made = calloc(1, sizeof(*made));
  if (made == NULL)
    return error_no_memory();
  made->send = send;
  made->context = context;
  list_init(&made->slots);
  pthread_mutex_init(&made->lock, NULL);
  *o = made;
  return NULL;
}

void ordering_free(ordering *o)
{
  if (o == NULL)
    return;
  assert(list_is_empty(&o->slots) && !o->sending);
  pthread_mutex_destroy(&o->lock);
  free(o);
}

void ordering_reserve(ordering *o, ordering_slot *slot)
{
  pthread_mutex_lock(&o->lock);
  assert(!slot->reserved);
  *slot = (ordering_slot){.reserved = true};
  list_init(&slot->payloads);
  list_append(&o->slots, &slot->node);
  pthread_mutex_unlock(&o->lock);
}

// The next payload that may leave, or NULL. Forgets a slot with its final payload. Locked.
static ordering_payload *pop_ready(ordering *o)
{
  assert(lock_is_held(&o->lock) && o->sending);
  ordering_slot *slot = container_of(list_first(&o->slots), ordering_slot, node);
  list_node *first = slot != NULL ? list_take_first(&slot->payloads) : NULL;
  ordering_payload *payload = container_of(first, ordering_payload, node);
  if (payload != NULL && payload->final) {
    assert(list_is_empty(&slot->payloads));
    list_remove(&slot->node);
    slot->reserved = false;
  }
  return payload;
}

void ordering_deliver(ordering *o, ordering_slot *slot, ordering_payload *payload_owned, bool final)
{
  *payload_owned = (ordering_payload){.final = final};
  pthread_mutex_lock(&o->lock);
  assert(slot->reserved);
  assert(list_is_empty(&slot->payloads) ||
         !container_of(list_last(&slot->payloads), ordering_payload, node)->final);
  list_append(&slot->payloads, &payload_owned->node);
  if (!o->sending) {
    o->sending = true;
    for (ordering_payload *ready; (ready = pop_ready(o)) != NULL;) {
      pthread_mutex_unlock(&o->lock);
      o->send(o->context, ready);
      pthread_mutex_lock(&o->lock);
    }
    assert(o->sending);
    o->sending = false;
  }
  pthread_mutex_unlock(&o->lock);
}

// A list of slots behind a lock, and at most one thread at a time that sends from its head. Called
// by instances' threads (deliver) and by the scheduler (reserve).
#include "schedule/ordering.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

struct ordering {
  ordering_send *send;
  void *context;
  pthread_mutex_t lock; // guards all below and the slots' lists
  ordering_slot *head;
  ordering_slot *tail;
  bool sending; // a thread sends: whoever delivers meanwhile leaves it to that thread
};

error *ordering_new(ordering_send *send, void *context, ordering **o)
{
  ordering *made = calloc(1, sizeof(*made));
  if (made == NULL)
    return error_no_memory();
  made->send = send;
  made->context = context;
  pthread_mutex_init(&made->lock, NULL);
  *o = made;
  return NULL;
}

void ordering_free(ordering *o)
{
  if (o == NULL)
    return;
  assert(o->head == NULL && !o->sending);
  pthread_mutex_destroy(&o->lock);
  free(o);
}

void ordering_reserve(ordering *o, ordering_slot *slot)
{
  pthread_mutex_lock(&o->lock);
  assert(!slot->reserved);
  *slot = (ordering_slot){.reserved = true};
  if (o->tail != NULL)
    o->tail->next = slot;
  else
    o->head = slot;
  o->tail = slot;
  pthread_mutex_unlock(&o->lock);
}

// The next payload that may leave, or NULL. A slot is forgotten with its final payload. Locked.
static ordering_payload *pop_ready(ordering *o)
{
  ordering_slot *slot = o->head;
  if (slot == NULL || slot->first == NULL)
    return NULL;
  ordering_payload *payload = slot->first;
  slot->first = payload->next;
  if (slot->first == NULL)
    slot->last = NULL;
  if (payload->final) {
    assert(slot->first == NULL);
    o->head = slot->next;
    if (o->head == NULL)
      o->tail = NULL;
    slot->reserved = false;
  }
  return payload;
}

void ordering_deliver(ordering *o, ordering_slot *slot, ordering_payload *payload_owned, bool final)
{
  payload_owned->next = NULL;
  payload_owned->final = final;
  pthread_mutex_lock(&o->lock);
  assert(slot->reserved);
  if (slot->last != NULL)
    slot->last->next = payload_owned;
  else
    slot->first = payload_owned;
  slot->last = payload_owned;
  if (!o->sending) {
    o->sending = true;
    for (ordering_payload *ready; (ready = pop_ready(o)) != NULL;) {
      pthread_mutex_unlock(&o->lock);
      o->send(o->context, ready);
      pthread_mutex_lock(&o->lock);
    }
    o->sending = false;
  }
  pthread_mutex_unlock(&o->lock);
}

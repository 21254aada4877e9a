// SPDX-License-Identifier: Apache-2.0
// Slots with fixed addresses. Each has a generation, so that an old handle differs from a new one.
#include "instance/request_table.h"

#include "base/cleanup.h"

#include <assert.h>
#include <stdlib.h>

// A handle is a slot's number + 1 and its generation, so 0 is none.
#define GENERATION (UINT64_C(1) << 32)

void request_table_init(request_table *self)
{
  *self = (request_table){0};
  pthread_mutex_init(&self->lock, NULL);
  pthread_cond_init(&self->unused, NULL);
}

void request_table_fini(request_table *self)
{
  assert(self->open_count == 0);
  for (uint32_t i = 0; i < self->slot_count; i++)
    free(self->slots[i]);
  free(self->slots);
  pthread_cond_destroy(&self->unused);
  pthread_mutex_destroy(&self->lock);
}

// ---- the lock is held

static bool add_slot(request_table *self)
{
  if (self->slot_count == self->room) {
    uint32_t room = self->room == 0 ? 64 : self->room * 2;
    open_request **slots = reallocarray(self->slots, room, sizeof(*slots));
    if (slots == NULL)
      return false;
    self->slots = slots;
    self->room = room;
  }
  open_request *slot = calloc(1, sizeof(*slot));
  if (slot == NULL)
    return false;
  self->slots[self->slot_count++] = slot;
  slot->handle = self->slot_count;
  slot->next_free = self->free_slot;
  self->free_slot = slot;
  return true;
}

static open_request *begin(request_table *self, uint64_t handle)
{
  uint32_t index = (uint32_t)handle - 1;
  open_request *slot = index < self->slot_count ? self->slots[index] : NULL;
  while (slot != NULL && slot->handle == handle && slot->state == REQUEST_USED) {
    self->waiting++;
    pthread_cond_wait(&self->unused, &self->lock);
    self->waiting--;
  }
  if (slot == NULL || slot->handle != handle || slot->state != REQUEST_OPEN)
    return NULL;
  slot->state = REQUEST_USED;
  return slot;
}

static void end(request_table *self, open_request *request)
{
  assert(request->state == REQUEST_USED || request->state == REQUEST_NEW);
  request->state = REQUEST_OPEN;
  if (self->waiting > 0)
    pthread_cond_broadcast(&self->unused);
}

// ---- from outside

bool request_table_add(request_table *self, open_request **requests, uint32_t count)
{
  LOCK_SCOPE(&self->lock);
  while (self->slot_count - self->open_count < count)
    if (!add_slot(self))
      return false;
  for (uint32_t i = 0; i < count; i++) {
    open_request *slot = requests[i] = self->free_slot;
    assert(slot->state == REQUEST_FREE);
    self->free_slot = slot->next_free;
    *slot = (open_request){.handle = slot->handle, .state = REQUEST_NEW};
  }
  self->open_count += count;
  return true;
}

open_request *request_table_begin(request_table *self, uint64_t handle)
{
  LOCK_SCOPE(&self->lock);
  return begin(self, handle);
}

open_request *request_table_begin_next(request_table *self, uint32_t *from)
{
  LOCK_SCOPE(&self->lock);
  open_request *found = NULL;
  for (; *from < self->slot_count && found == NULL; ++*from)
    found = begin(self, self->slots[*from]->handle);
  return found;
}

void request_table_end(request_table *self, open_request *request)
{
  LOCK_SCOPE(&self->lock);
  end(self, request);
}

open_request request_table_close(request_table *self, open_request *request)
{
  LOCK_SCOPE(&self->lock);
  const open_request closed = *request;
  end(self, request);
  request->state = REQUEST_FREE;
  request->handle += GENERATION;
  request->next_free = self->free_slot;
  self->free_slot = request;
  self->open_count--;
  return closed;
}

// Slots, whose generation tells an old handle from a new one.
#include "instance/request_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
  NO_SLOT = UINT32_MAX,
  FIRST_SLOTS = 64
};

// A handle is a slot's number + 1 and its generation, so 0 is none.
struct request_slot {
  open_request request;
  uint32_t generation;
  uint32_t next_free;
  bool open;
  bool used;
};

void request_table_init(request_table *self)
{
  *self = (request_table){.free_slot = NO_SLOT};
  pthread_mutex_init(&self->lock, NULL);
  pthread_cond_init(&self->unused, NULL);
}

void request_table_fini(request_table *self)
{
  free(self->slots);
  pthread_cond_destroy(&self->unused);
  pthread_mutex_destroy(&self->lock);
}

static uint64_t handle_of(const request_table *self, uint32_t index)
{
  return (uint64_t)self->slots[index].generation << 32 | (index + 1);
}

static request_slot *find(const request_table *self, uint64_t handle)
{
  uint32_t index = (uint32_t)handle - 1;
  if (index >= self->slot_count)
    return NULL;
  request_slot *slot = &self->slots[index];
  return slot->open && slot->generation == handle >> 32 ? slot : NULL;
}

static void close_slot(request_table *self, request_slot *slot)
{
  slot->open = slot->used = false;
  slot->generation++;
  slot->next_free = self->free_slot;
  self->free_slot = (uint32_t)(slot - self->slots);
  self->open_count--;
}

static bool grow(request_table *self)
{
  uint32_t count = self->slot_count == 0 ? FIRST_SLOTS : self->slot_count * 2;
  if (count < self->slot_count)
    return false;
  request_slot *slots = reallocarray(self->slots, count, sizeof *slots);
  if (slots == NULL)
    return false;
  memset(slots + self->slot_count, 0, (count - self->slot_count) * sizeof *slots);
  for (uint32_t i = count; i-- > self->slot_count;) {
    slots[i].next_free = self->free_slot;
    self->free_slot = i;
  }
  self->slots = slots;
  self->slot_count = count;
  return true;
}

static bool add_all(request_table *self, const open_request *requests, uint32_t count,
                    uint64_t *handles)
{
  while (self->slot_count - self->open_count < count)
    if (!grow(self))
      return false;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t index = self->free_slot;
    request_slot *slot = &self->slots[index];
    self->free_slot = slot->next_free;
    self->open_count++;
    slot->request = requests[i];
    slot->open = slot->used = true;
    handles[i] = handle_of(self, index);
  }
  return true;
}

bool request_table_add(request_table *self, const open_request *requests, uint32_t count,
                       uint64_t *handles)
{
  pthread_mutex_lock(&self->lock);
  bool added = add_all(self, requests, count, handles);
  pthread_mutex_unlock(&self->lock);
  return added;
}

static bool begin(request_table *self, uint64_t handle, open_request *request)
{
  request_slot *slot;
  while ((slot = find(self, handle)) != NULL && slot->used) {
    self->waiting++;
    pthread_cond_wait(&self->unused, &self->lock);
    self->waiting--;
  }
  if (slot == NULL)
    return false;
  slot->used = true;
  *request = slot->request;
  return true;
}

bool request_table_begin(request_table *self, uint64_t handle, open_request *request)
{
  pthread_mutex_lock(&self->lock);
  bool found = begin(self, handle, request);
  pthread_mutex_unlock(&self->lock);
  return found;
}

bool request_table_begin_next(request_table *self, uint32_t *from, uint64_t *handle,
                              open_request *request)
{
  bool found = false;
  pthread_mutex_lock(&self->lock);
  for (; *from < self->slot_count && !found; ++*from) {
    *handle = handle_of(self, *from);
    found = begin(self, *handle, request);
  }
  pthread_mutex_unlock(&self->lock);
  return found;
}

static void end_use(request_table *self, request_slot *slot)
{
  assert(slot != NULL && slot->used);
  slot->used = false;
  if (self->waiting > 0)
    pthread_cond_broadcast(&self->unused);
}

void request_table_start(request_table *self, uint64_t handle, uint64_t compute_start_ns)
{
  pthread_mutex_lock(&self->lock);
  request_slot *slot = find(self, handle);
  end_use(self, slot);
  slot->request.compute_start_ns = compute_start_ns;
  pthread_mutex_unlock(&self->lock);
}

void request_table_change(request_table *self, uint64_t handle, const open_request *request)
{
  pthread_mutex_lock(&self->lock);
  request_slot *slot = find(self, handle);
  assert(slot != NULL && slot->used);
  slot->request = *request;
  pthread_mutex_unlock(&self->lock);
}

void request_table_end(request_table *self, uint64_t handle, bool close)
{
  pthread_mutex_lock(&self->lock);
  request_slot *slot = find(self, handle);
  end_use(self, slot);
  if (close)
    close_slot(self, slot);
  pthread_mutex_unlock(&self->lock);
}

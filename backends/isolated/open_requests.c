// SPDX-License-Identifier: Apache-2.0
// A table of entries with fixed addresses; no number is used twice.
#include "open_requests.h"

#include "backend_error.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/thread.h"

#include <assert.h>
#include <stdlib.h>

#define INDEX_BITS     24 // of a number; the rest is a count
#define FIRST_CAPACITY 16

#define NONE_FREE UINT32_MAX

void open_requests_init(open_requests *self)
{
  *self = (open_requests){.first_free = NONE_FREE};
  pthread_mutex_init(&self->lock, NULL);
  pthread_cond_init(&self->changed, NULL);
}

void open_requests_fini(open_requests *self)
{
  assert(self->open == 0);
  for (uint32_t i = 0; i < self->capacity; i++)
    free(self->entries[i]);
  free(self->entries);
  pthread_mutex_destroy(&self->lock);
  pthread_cond_destroy(&self->changed);
}

static bool grow_locked(open_requests *self)
{
  uint32_t capacity = self->capacity == 0 ? FIRST_CAPACITY : 2 * self->capacity;
  open_request **entries = capacity > 1u << INDEX_BITS
                               ? NULL
                               : reallocarray(self->entries, capacity, sizeof(open_request *));
  if (entries == NULL)
    return false;
  self->entries = entries;
  while (self->capacity < capacity) {
    open_request *r = calloc(1, sizeof(*r));
    if (r == NULL)
      return false;
    r->next_free = self->first_free;
    self->first_free = self->capacity;
    entries[self->capacity++] = r;
  }
  return true;
}

static TRITONSERVER_Error *add_locked(open_requests *self, TRITONBACKEND_ModelInstance *instance,
                                      TRITONBACKEND_Request *request, input_block *block,
                                      uint64_t now, uint64_t *number)
{
  TRITONBACKEND_ResponseFactory *factory;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ResponseFactoryNew(&factory, request));
  uint32_t index = self->first_free;
  open_request *r = self->entries[index];
  self->first_free = r->next_free;
  *r = (open_request){.number = ++self->generation << INDEX_BITS | index,
                      .instance = instance,
                      .request = request,
                      .factory = factory,
                      .block = block,
                      .busy = true,
                      .begun_ns = now};
  *number = r->number;
  self->open++;
  return NULL;
}

static void remove_locked(open_requests *self, open_request *r)
{
  uint32_t index = (uint32_t)(r->number & ((1u << INDEX_BITS) - 1));
  *r = (open_request){.next_free = self->first_free};
  self->first_free = index;
  self->open--;
  pthread_cond_broadcast(&self->changed);
}

TRITONSERVER_Error *open_requests_add(open_requests *self, TRITONBACKEND_ModelInstance *instance,
                                      TRITONBACKEND_Request *const *requests, uint32_t count,
                                      input_block *block, uint64_t *numbers)
{
  uint64_t now = clock_monotonic_ns();
  TRITONSERVER_Error *error = NULL;
  LOCK_SCOPE(&self->lock);
  if (self->closed)
    return backend_error_unavailable("the model's process has ended");
  while (self->capacity - self->open < count)
    if (!grow_locked(self))
      return backend_error_no_memory("the requests of a model's process");
  uint32_t added = 0;
  while (added < count && error == NULL) {
    error = add_locked(self, instance, requests[added], block, now, &numbers[added]);
    added += error == NULL;
  }
  block->users = count;
  while (error != NULL && added > 0) {
    open_request *r = self->entries[numbers[--added] & ((1u << INDEX_BITS) - 1)];
    TRITONBACKEND_ResponseFactoryDelete(r->factory);
    remove_locked(self, r);
  }
  return error;
}

static open_request *added(const open_requests *self, uint64_t number)
{
  open_request *r = self->entries[number & ((1u << INDEX_BITS) - 1)];
  assert(r->number == number && r->busy);
  return r;
}

static bool is_cancelled(const open_request *r)
{
  bool cancelled = false;
  TRITONSERVER_ErrorDelete(TRITONBACKEND_ResponseFactoryIsCancelled(r->factory, &cancelled));
  return cancelled;
}

static bool take_passed_over(open_requests *self)
{
  assert(lock_is_held(&self->lock));
  bool passed_over = self->passed_over;
  self->passed_over = false;
  return passed_over;
}

// A request may have been cancelled before it was added, when open_requests_cancelled could not see
// it.
bool open_requests_publish(open_requests *self, const uint64_t *numbers, uint32_t count)
{
  LOCK_SCOPE(&self->lock);
  bool missed = take_passed_over(self);
  for (uint32_t i = 0; i < count; i++) {
    open_request *r = added(self, numbers[i]);
    missed = missed || is_cancelled(r);
    r->busy = false;
  }
  pthread_cond_broadcast(&self->changed);
  return missed;
}

void open_requests_withdraw(open_requests *self, const uint64_t *numbers, uint32_t count)
{
  LOCK_SCOPE(&self->lock);
  for (uint32_t i = 0; i < count; i++) {
    open_request *r = added(self, numbers[i]);
    TRITONBACKEND_ResponseFactoryDelete(r->factory);
    remove_locked(self, r);
  }
}

open_request *open_requests_take(open_requests *self, uint64_t number)
{
  uint64_t index = number & ((1u << INDEX_BITS) - 1);
  LOCK_SCOPE(&self->lock);
  open_request *r = number != 0 && index < self->capacity ? self->entries[index] : NULL;
  self->waiting++;
  while (r != NULL && r->number == number && r->busy)
    pthread_cond_wait(&self->changed, &self->lock);
  self->waiting--;
  if (r == NULL || r->number != number)
    return NULL;
  r->busy = true;
  return r;
}

bool open_requests_give_back(open_requests *self, open_request *r)
{
  LOCK_SCOPE(&self->lock);
  assert(r->busy);
  r->busy = false;
  if (r->request == NULL && r->factory == NULL)
    remove_locked(self, r);
  else if (self->waiting > 0 || self->closed)
    pthread_cond_broadcast(&self->changed);
  return take_passed_over(self);
}

open_request *open_requests_take_any(open_requests *self)
{
  LOCK_SCOPE(&self->lock);
  assert(self->closed);
  while (self->open > 0) {
    for (uint32_t i = 0; i < self->capacity; i++) {
      open_request *r = self->entries[i];
      if (r->number != 0 && !r->busy) {
        r->busy = true;
        return r;
      }
    }
    pthread_cond_wait(&self->changed, &self->lock);
  }
  return NULL;
}

void open_requests_close(open_requests *self)
{
  LOCK_SCOPE(&self->lock);
  self->closed = true;
}

size_t open_requests_count(open_requests *self)
{
  LOCK_SCOPE(&self->lock);
  return self->open;
}

uint64_t open_requests_cancelled(open_requests *self)
{
  LOCK_SCOPE(&self->lock);
  for (uint32_t i = 0; i < self->capacity; i++) {
    open_request *r = self->entries[i];
    if (r->number == 0 || r->told)
      continue;
    if (r->busy) // it is being added, answered or released; its thread handles the cancellation
      self->passed_over = true;
    else if (r->factory != NULL && is_cancelled(r)) {
      r->told = true;
      return r->number;
    }
  }
  return 0;
}

void open_requests_untell(open_requests *self, uint64_t number)
{
  LOCK_SCOPE(&self->lock);
  open_request *r = self->entries[number & ((1u << INDEX_BITS) - 1)];
  if (r->number != number)
    return;
  r->told = false;
  self->passed_over = true;
}

bool open_requests_leave_block(open_requests *self, input_block *block)
{
  LOCK_SCOPE(&self->lock);
  assert(block->users > 0);
  return --block->users == 0;
}

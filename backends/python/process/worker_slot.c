// SPDX-License-Identifier: Apache-2.0
// The slot of a worker: the right to send to it. Any thread.
#include "process/worker_slot.h"

#include "process/worker_end.h"
#include "process/worker_parts.h"

#include "base/cleanup.h"
#include "base/thread.h"

#include <assert.h>

bool worker_acquire_slot_locked(worker *self, uint64_t deadline_ns)
{
  self->waiting++;
  while (self->slot_users > 0 && thread_wait(&self->changed, &self->lock, deadline_ns))
    ;
  self->waiting--;
  if (self->slot_users > 0)
    return false;
  self->slot_users = 1;
  return true;
}

void worker_release_slot_locked(worker *self)
{
  assert(self->slot_users > 0);
  self->slot_users--;
  if (self->waiting > 0 && self->slot_users == 0)
    pthread_cond_broadcast(&self->changed);
}

void worker_record_call(worker *self, bool is_of_model)
{
  LOCK_SCOPE(&self->lock);
  self->calls_models = self->calls_models || is_of_model;
  if (self->waiting > 0)
    pthread_cond_broadcast(&self->changed);
}

// Waits as long as a start may take, as Triton does.
static void await_ready_locked(worker *self)
{
  uint64_t deadline = worker_deadline(self->settings->timeout_s);
  while (self->state == WORKER_STARTING ||
         (self->state == WORKER_DOWN && self->retry_ns <= clock_monotonic_ns()))
    if (self->dies_often || !thread_wait(&self->changed, &self->lock, deadline))
      return;
}

TRITONSERVER_Error *worker_acquire_slot(worker *self, worker_link **link)
{
  LOCK_SCOPE(&self->lock);
  worker_acquire_slot_locked(self, CLOCK_NEVER);
  await_ready_locked(self);
  if (self->state == WORKER_READY) {
    *link = worker_link_ref(self->link);
    return NULL;
  }
  worker_release_slot_locked(self);
  return worker_gone_locked(self, NULL);
}

bool worker_try_acquire_slot(worker *self, worker_link **link)
{
  LOCK_SCOPE(&self->lock);
  if (self->state != WORKER_READY || self->slot_users > 0 || self->waiting > 0)
    return false;
  self->slot_users = 1;
  *link = worker_link_ref(self->link);
  return true;
}

static bool may_share_locked(const worker *self, const worker_link *link)
{
  return self->link == link && self->state == WORKER_READY && self->slot_users > 0 &&
         self->waiting == 0 && !self->calls_models;
}

bool worker_may_share_slot(worker *self, const worker_link *link)
{
  LOCK_SCOPE(&self->lock);
  return may_share_locked(self, link);
}

bool worker_share_slot(worker *self, worker_link *link)
{
  LOCK_SCOPE(&self->lock);
  if (!may_share_locked(self, link))
    return false;
  self->slot_users++;
  worker_link_ref(link);
  return true;
}

void worker_release_slot(worker *self, worker_link *link)
{
  worker_link_unref(link);
  LOCK_SCOPE(&self->lock);
  worker_release_slot_locked(self);
}

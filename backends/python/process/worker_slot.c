// SPDX-License-Identifier: Apache-2.0
// A worker's current state, why it is gone, and the slot: the right to send to it. Any thread.
#include "process/worker_slot.h"

#include "backend_config.h"
#include "backend_error.h"
#include "base/cleanup.h"
#include "base/state.h"
#include "base/thread.h"
#include "process_memory.h"

#include <assert.h>
#include <string.h>

const char *worker_name(const worker *self)
{
  return atomic_load(&self->name);
}

NEREID_LogSubject worker_log_subject(const worker *self)
{
  return (NEREID_LogSubject){.model = self->settings->model,
                             .version = (int64_t)self->settings->version,
                             .instance = worker_name(self)};
}

void worker_set_state(worker *self, worker_state state)
{
  static const unsigned allowed[] = {
      [WORKER_STARTING] =
          STATE_BIT(WORKER_READY) | STATE_BIT(WORKER_DOWN) | STATE_BIT(WORKER_STOPPED),
      [WORKER_READY] = STATE_BIT(WORKER_DOWN) | STATE_BIT(WORKER_STOPPED),
      [WORKER_DOWN] = STATE_BIT(WORKER_STARTING) | STATE_BIT(WORKER_STOPPED),
      [WORKER_STOPPED] = 0,
  };
  state_assert(allowed, self->state, state);
  self->state = state;
  pthread_cond_broadcast(&self->changed);
}

worker_link *worker_current_link(worker *self)
{
  LOCK_SCOPE(&self->lock);
  return self->link == NULL ? NULL : worker_link_ref(self->link);
}

// Measures without the lock, so that executing threads do not wait.
uint64_t worker_memory(worker *self)
{
  pthread_mutex_lock(&self->lock);
  pid_t guard = self->process == NULL ? 0 : worker_process_id(self->process);
  pthread_mutex_unlock(&self->lock);
  return guard == 0 ? 0 : process_memory(guard);
}

// ---- why it is gone; the lock is held where a function's name ends in _locked

void worker_kill_locked(worker *self)
{
  if (self->process != NULL)
    worker_process_kill(self->process);
}

TRITONSERVER_Error *worker_gone_locked(const worker *self, const worker_link *link)
{
  const char *cause = link != NULL && link->end_cause != NULL ? link->end_cause : self->cause;
  return backend_error(
      self->dies_often ? TRITONSERVER_ERROR_UNAVAILABLE : TRITONSERVER_ERROR_INTERNAL,
      "Stub process '%s' is not healthy. The Python worker of model '%s' ended: %s%s",
      worker_name(self), self->settings->model, cause == NULL ? "it is not known how" : cause,
      self->settings->keeps_sequences ? BACKEND_SEQUENCES_LOST : "");
}

TRITONSERVER_Error *worker_gone(worker *self)
{
  LOCK_SCOPE(&self->lock);
  return worker_gone_locked(self, NULL);
}

uint64_t worker_life(worker *self)
{
  LOCK_SCOPE(&self->lock);
  return self->ended < self->number ? self->number : self->number + 1;
}

static bool has_ended_locked(const worker *self, const worker_link *link)
{
  return link == NULL || self->link != link || self->ended >= self->number;
}

TRITONSERVER_Error *worker_why_gone(worker *self, const worker_link *link, bool waits)
{
  uint64_t deadline = worker_deadline(START_WAIT_S);
  LOCK_SCOPE(&self->lock);
  bool ended = has_ended_locked(self, link);
  if (!ended)
    worker_kill_locked(self); // it broke the rings, so it cannot be used any more
  while (waits && !has_ended_locked(self, link) &&
         thread_wait(&self->changed, &self->lock, deadline))
    ;
  return ended || waits ? worker_gone_locked(self, link) : NULL;
}

unsigned worker_count_death_locked(worker *self, uint64_t now)
{
  const uint64_t window = (uint64_t)DEATHS_WINDOW_S * NS_PER_S;
  if (self->ready_ns != 0 && now - self->ready_ns >= window)
    self->failures = 0;
  self->ready_ns = 0;
  memmove(self->deaths_ns + 1, self->deaths_ns, sizeof(self->deaths_ns) - sizeof(*self->deaths_ns));
  self->deaths_ns[0] = now;
  const uint64_t first = self->deaths_ns[DEATHS_MANY - 1];
  self->dies_often = first != 0 && now - first < window;
  unsigned failures = self->failures++;
  unsigned pause = failures == 0 ? 0 : failures > 6 ? PAUSE_MOST_S : 1u << (failures - 1);
  self->retry_ns = now + (uint64_t)pause * NS_PER_S;
  return pause;
}

// ---- the slot

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

static void await_ready_locked(worker *self)
{
  uint64_t deadline = worker_deadline(START_WAIT_S);
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

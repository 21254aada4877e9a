// What a worker is at the moment, and the slot: who may send to it. See worker.h. Any thread.
#include "process/worker_internal.h"

#include "backend_error.h"
#include "base/clock.h"
#include "base/state.h"
#include "base/thread.h"

#include <assert.h>

// ---- parts

bool worker_is_here(const worker *self)
{
  worker_placement here;
  worker_placement_get(&here);
  return worker_placement_equal(&self->placement, &here);
}

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
  pthread_mutex_lock(&self->lock);
  worker_link *link = self->link == NULL ? NULL : worker_link_ref(self->link);
  pthread_mutex_unlock(&self->lock);
  return link;
}

// ---- why it is gone; the lock is held where a function's name ends in _locked

void worker_kill_locked(worker *self)
{
  if (self->process != NULL)
    supervised_kill(self->process);
}

TRITONSERVER_Error *worker_gone_locked(const worker *self)
{
  bool often = self->death_count >= DEATHS_MANY;
  return backend_error(
      often ? TRITONSERVER_ERROR_UNAVAILABLE : TRITONSERVER_ERROR_INTERNAL,
      "Stub process '%s' is not healthy. The Python worker of model '%s' ended: %s",
      worker_name(self), self->settings->model,
      self->cause == NULL ? "it is not known how" : self->cause);
}

static bool has_ended_locked(const worker *self, const worker_link *link)
{
  return link == NULL || self->link != link || self->ended >= self->number;
}

TRITONSERVER_Error *worker_why_gone(worker *self, worker_link *link)
{
  uint64_t deadline = clock_monotonic_ns() + (uint64_t)START_WAIT_S * NS_PER_S;
  pthread_mutex_lock(&self->lock);
  if (!has_ended_locked(self, link))
    worker_kill_locked(self); // who breaks the rings cannot be talked to any more
  while (!has_ended_locked(self, link))
    if (!thread_wait(&self->changed, &self->lock, deadline))
      break;
  TRITONSERVER_Error *error = worker_gone_locked(self);
  pthread_mutex_unlock(&self->lock);
  return error;
}

TRITONSERVER_Error *worker_gone_already(worker *self, worker_link *link)
{
  TRITONSERVER_Error *error = NULL;
  pthread_mutex_lock(&self->lock);
  if (has_ended_locked(self, link))
    error = worker_gone_locked(self);
  else
    worker_kill_locked(self);
  pthread_mutex_unlock(&self->lock);
  return error;
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

void worker_note_call(worker *self, bool is_of_model)
{
  pthread_mutex_lock(&self->lock);
  self->calls_models = self->calls_models || is_of_model;
  if (self->waiting > 0)
    pthread_cond_broadcast(&self->changed);
  pthread_mutex_unlock(&self->lock);
}

static void await_ready_locked(worker *self)
{
  uint64_t deadline = clock_monotonic_ns() + (uint64_t)START_WAIT_S * NS_PER_S;
  while (self->state == WORKER_STARTING ||
         (self->state == WORKER_DOWN && self->retry_ns <= clock_monotonic_ns()))
    if (self->death_count >= DEATHS_MANY || !thread_wait(&self->changed, &self->lock, deadline))
      return;
}

TRITONSERVER_Error *worker_acquire_slot(worker *self, worker_link **link)
{
  TRITONSERVER_Error *error = NULL;
  pthread_mutex_lock(&self->lock);
  while (
      !worker_acquire_slot_locked(self, clock_monotonic_ns() + (uint64_t)PAUSE_MOST_S * NS_PER_S))
    ;
  await_ready_locked(self);
  if (self->state == WORKER_READY) {
    *link = worker_link_ref(self->link);
  } else {
    error = worker_gone_locked(self);
    worker_release_slot_locked(self);
  }
  pthread_mutex_unlock(&self->lock);
  return error;
}

bool worker_try_acquire_slot(worker *self, worker_link **link)
{
  pthread_mutex_lock(&self->lock);
  bool acquired = self->state == WORKER_READY && self->slot_users == 0 && self->waiting == 0;
  if (acquired) {
    self->slot_users = 1;
    *link = worker_link_ref(self->link);
  }
  pthread_mutex_unlock(&self->lock);
  return acquired;
}

static bool may_share_locked(const worker *self, const worker_link *link)
{
  return self->link == link && self->state == WORKER_READY && self->slot_users > 0 &&
         self->waiting == 0 && !self->calls_models;
}

bool worker_may_share_slot(worker *self, const worker_link *link)
{
  pthread_mutex_lock(&self->lock);
  bool may = may_share_locked(self, link);
  pthread_mutex_unlock(&self->lock);
  return may;
}

bool worker_share_slot(worker *self, worker_link *link)
{
  pthread_mutex_lock(&self->lock);
  bool shared = may_share_locked(self, link);
  if (shared) {
    self->slot_users++;
    worker_link_ref(link);
  }
  pthread_mutex_unlock(&self->lock);
  return shared;
}

void worker_release_slot(worker *self, worker_link *link)
{
  worker_link_unref(link);
  pthread_mutex_lock(&self->lock);
  worker_release_slot_locked(self);
  pthread_mutex_unlock(&self->lock);
}

// SPDX-License-Identifier: Apache-2.0
// What a worker is at this moment: its name, state, link and memory. Any thread.
#include "process/worker_parts.h"

#include "base/cleanup.h"
#include "base/state.h"
#include "process_memory.h"

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

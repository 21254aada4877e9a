// SPDX-License-Identifier: Apache-2.0
// See worker_end.h. The lock is held where a function's name ends in _locked.
#include "process/worker_end.h"

#include "process/worker_parts.h"

#include "backend_config.h"
#include "backend_error.h"
#include "base/cleanup.h"
#include "base/thread.h"

#include <string.h>

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
  uint64_t deadline = worker_deadline(END_WAIT_S);
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

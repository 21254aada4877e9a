// SPDX-License-Identifier: Apache-2.0
// Waits for counts. A thread that counts down takes the lock only at 0. See drain.h.
#include "frontend/common/net/drain.h"

#include "base/cleanup.h"
#include "base/thread.h"

void drain_init(drain *d)
{
  atomic_init(&d->begun, false);
  pthread_mutex_init(&d->mutex, NULL);
  pthread_cond_init(&d->changed, NULL);
}

void drain_fini(drain *d)
{
  pthread_cond_destroy(&d->changed);
  pthread_mutex_destroy(&d->mutex);
}

void drain_signal(drain *d)
{
  LOCK_SCOPE(&d->mutex);
  pthread_cond_broadcast(&d->changed);
}

size_t drain_wait(drain *d, _Atomic size_t *count, uint64_t deadline_ns)
{
  LOCK_SCOPE(&d->mutex);
  while (atomic_load(count) > 0 && thread_wait(&d->changed, &d->mutex, deadline_ns))
    ;
  return atomic_load(count);
}

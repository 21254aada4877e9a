// SPDX-License-Identifier: Apache-2.0
// Scope-bound release of resources: the variable is released when it goes out of scope.
#ifndef NEREID_BASE_CLEANUP_H
#define NEREID_BASE_CLEANUP_H

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_free(void *pointer)
{
  free(*(void **)pointer);
}

static inline void cleanup_close(const int *descriptor)
{
  if (*descriptor >= 0)
    close(*descriptor);
}

static inline void cleanup_unlock(pthread_mutex_t **mutex)
{
  pthread_mutex_unlock(*mutex);
}

#define AUTO_FREE  __attribute__((cleanup(cleanup_free)))
#define AUTO_CLOSE __attribute__((cleanup(cleanup_close)))

// Locks `mutex` until the end of the enclosing scope.
#define LOCK_SCOPE(mutex)                                                                          \
  __attribute__((cleanup(cleanup_unlock), unused)) pthread_mutex_t *LOCK_SCOPE_NAME(__LINE__) =    \
      (pthread_mutex_lock(mutex), (mutex))
#define LOCK_SCOPE_NAME(line)  LOCK_SCOPE_NAME_(line)
#define LOCK_SCOPE_NAME_(line) scope_lock_##line

#endif

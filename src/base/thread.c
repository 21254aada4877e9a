// Thread creation in one place: name, signal mask, error text; waiting by one clock.
#include "base/thread.h"

#include "base/clock.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

int thread_create(pthread_t *thread, const char *name, void *(*run)(void *), void *argument)
{
  char short_name[16];
  sigset_t all, before;
  snprintf(short_name, sizeof(short_name), "%.15s", name);
  sigfillset(&all);
  sigdelset(&all, SIGBUS); // handled where it comes (memory_guard.h); blocked, it ends the process
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failure = pthread_create(thread, NULL, run, argument);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failure == 0)
    pthread_setname_np(*thread, short_name);
  return failure;
}

error *thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *argument)
{
  int failure = thread_create(thread, name, run, argument);
  return failure == 0 ? NULL
                      : error_new(ERROR_UNAVAILABLE, "failed to start thread '%s': %s", name,
                                  strerror(failure));
}

bool thread_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t deadline_ns)
{
  if (deadline_ns == CLOCK_NEVER)
    return pthread_cond_wait(condition, lock) == 0;
  const struct timespec deadline = clock_timespec(deadline_ns);
  return pthread_cond_clockwait(condition, lock, CLOCK_MONOTONIC, &deadline) == 0;
}

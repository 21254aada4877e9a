#include "host_thread.h"

#include <signal.h>
#include <time.h>

int host_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *argument)
{
  sigset_t all, before;
  sigfillset(&all);
  sigdelset(&all, SIGBUS); // handled where it comes (memory_guard.h); blocked, it ends the process
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failure = pthread_create(thread, NULL, run, argument);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failure == 0)
    pthread_setname_np(*thread, name);
  return failure;
}

void host_condition_init(pthread_cond_t *condition)
{
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(condition, &attributes);
  pthread_condattr_destroy(&attributes);
}

_Bool host_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t deadline_ns)
{
  struct timespec deadline = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                              .tv_nsec = (long)(deadline_ns % 1000000000u)};
  return pthread_cond_timedwait(condition, lock, &deadline) == 0;
}

// Signals and clock of the host's threads.
#include "process/host_thread.h"

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

_Bool host_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t deadline_ns)
{
  const struct timespec deadline = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                                    .tv_nsec = (long)(deadline_ns % 1000000000u)};
  return pthread_cond_clockwait(condition, lock, CLOCK_MONOTONIC, &deadline) == 0;
}

// SPDX-License-Identifier: Apache-2.0
// Starts threads, with name, signal mask and error text; waits by CLOCK_MONOTONIC.
#include "base/thread.h"

#include "base/clock.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 16 // with its end

typedef struct beginning {
  char name[NAME_BYTES];
  void *(*run)(void *);
  void *argument;
} beginning;

// Signals that a thread's own instruction raises. If such a signal is blocked, the kernel ends the
// process without calling a handler: memory_guard.h's, a sanitizer's or a crash reporter's.
static const int FAULTS[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};

// A thread names itself, so that it never runs under the name of the thread that started it.
static void *begin(void *pointer)
{
  const beginning b = *(beginning *)pointer;
  free(pointer);
  pthread_setname_np(pthread_self(), b.name);
  return b.run(b.argument);
}

int thread_create(pthread_t *thread, const char *name, void *(*run)(void *), void *argument)
{
  sigset_t blocked, before;
  beginning *b = malloc(sizeof(*b));
  if (b == NULL)
    return ENOMEM;
  *b = (beginning){.run = run, .argument = argument};
  snprintf(b->name, sizeof(b->name), "%.*s", NAME_BYTES - 1, name);
  sigfillset(&blocked);
  for (size_t i = 0; i < sizeof(FAULTS) / sizeof(*FAULTS); i++)
    sigdelset(&blocked, FAULTS[i]);
  pthread_sigmask(SIG_SETMASK, &blocked, &before);
  int failure = pthread_create(thread, NULL, begin, b);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failure != 0)
    free(b);
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

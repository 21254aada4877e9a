// Named threads. Each has an owner that joins it; docs/architecture.md lists them all.
#ifndef NEREID_BASE_THREAD_H
#define NEREID_BASE_THREAD_H

#include "base/error.h"

#include <pthread.h>

// Starts a thread with all signals blocked, so that only the main thread handles them. `name` is
// cut to the kernel's 15 characters. Errors: UNAVAILABLE with the thread's name and the system's
// reason.
error *thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *argument);

#endif

// Threads of the host: named, with all signals blocked, since signals are the server's.
#ifndef NEREID_PYTHON_HOST_THREAD_H
#define NEREID_PYTHON_HOST_THREAD_H

#include <pthread.h>
#include <stdint.h>

// Gives 0 or an errno. `name` has at most 15 bytes.
int host_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *argument);

// Waits as pthread_cond_wait does, until `deadline_ns` of backend_now_ns at the latest. False: that
// moment has come.
_Bool host_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t deadline_ns);

#endif

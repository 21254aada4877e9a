// What a model asks of the server while it runs: inferences by other models (BLS), custom metrics,
// loading and unloading of models. One object for each worker process; when the worker is gone,
// what it has under way is cancelled and its answers are dropped.
#ifndef NEREID_PYTHON_CALLS_H
#define NEREID_PYTHON_CALLS_H

#include "instance/request_table.h"
#include "process/worker_link.h"

#include <pthread.h>

typedef struct calls calls;
struct wait_node;

// How many objects a backend has; it lives longer than they.
typedef struct calls_count {
  pthread_mutex_t lock; // guards what follows
  pthread_cond_t none;
  size_t live;
} calls_count;

void calls_count_init(calls_count *self);
void calls_count_fini(calls_count *self);

// Waits until everything that was under way has ended.
void calls_count_await_none(calls_count *self);

// `where` names model and instance in log lines; copied. `node` is the instance's, until calls_end.
TRITONSERVER_Error *calls_new(TRITONSERVER_Server *server, calls_count *count, const char *where,
                              worker_link *link, struct wait_node *node, calls **made);

// Deals with the message if its kind belongs here; the caller does channel_done afterwards. Never
// waits for the server: replies come from other threads. `requests` are the worker's, whose traces
// its inferences continue. The listener's thread.
bool calls_handle(calls *self, request_table *requests, const channel_message *message);

// Whether threads other than the listener's may reply. When it says no, all that they had to say
// has been said.
bool calls_are_under_way(calls *self);

// The worker is gone or about to go: no more replies, inferences under way are cancelled, metrics
// of the worker are deleted. Returns at once; what is under way lets go of its memory when it ends.
// Gives up the caller's reference. NULL does nothing.
void calls_end(calls *self);

#endif

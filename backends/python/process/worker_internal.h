// The parts of a worker; see worker.h. worker.c has its life and its listener, worker_rpc.c what is
// said to it and asked of it besides inference.
#ifndef NEREID_PYTHON_WORKER_INTERNAL_H
#define NEREID_PYTHON_WORKER_INTERNAL_H

#include "process/worker.h"

#include <stdatomic.h>

enum {
  DEATHS_MANY = 5,      // within DEATHS_WINDOW_S: the model is unavailable
  DEATHS_WINDOW_S = 60, // a worker that lived that long starts the pauses anew
  PAUSE_MOST_S = 60,    // between an end and the next start
  START_WAIT_S = 10,    // of work, for a worker that is starting again
  READY_WAIT_S = 5,     // of a readiness check, for the slot and the answer
  NS_PER_S = 1000000000,
  KEPT_BYTES = 1024 * 1024, // of free channel memory, when it is quiet
};

typedef enum worker_state {
  WORKER_STARTING,
  WORKER_READY,
  WORKER_DOWN,
  WORKER_STOPPED
} worker_state;

// With the lock held.
void worker_set_state(worker *self, worker_state state);

// What the last check of the present worker's readiness found.
typedef enum worker_check {
  WORKER_UNCHECKED,
  WORKER_CHECKED_GOOD,
  WORKER_CHECKED_BAD
} worker_check;

struct worker {
  const worker_settings *settings;
  const worker_events *events;
  void *user;                 // of the events
  worker_placement placement; // of its workers
  pthread_t listener;
  atomic_uint_fast64_t next_number;
  _Atomic(const char *) name; // one of own_names
  char *own_names[2];         // of the start, of the instance

  pthread_mutex_t lock;   // guards what follows
  pthread_cond_t changed; // any of it
  char *arguments;        // of initialize; NULL: not to be started again
  worker_state state;
  unsigned slot_users; // executions, or a question
  bool calls_models;   // has called another one, at least once
  unsigned waiting;    // threads that wait for the slot
  uint64_t number;     // of the present worker: 1, 2, …
  uint64_t ended;      // number of the last one that ended
  char *cause;         // how it ended, or why it could not be started
  char *start_failure; // why this side ended it while it started
  worker_link *link;
  supervised *process;
  int socket; // our end; closing it tells the worker to exit
  bool has_complete;
  bool has_is_ready;
  unsigned checks; // of readiness, under way
  worker_check checked;
  uint64_t ready_until_ns;         // for the next check; 0: it has not been announced
  unsigned failures;               // ends in a row
  uint64_t ready_ns;               // since when
  uint64_t retry_ns;               // when DOWN: the next start
  uint64_t deaths_ns[DEATHS_MANY]; // the last ones, newest first
  unsigned death_count;
};

// Starts the process of a new worker, without talking to it. The lock is not held.
TRITONSERVER_Error *worker_spawn(worker *self);

// Waits until the worker says that it runs, and has it import the model.
TRITONSERVER_Error *worker_greet(worker *self, worker_link *link, const char *name);

// WORK_INITIALIZE.
TRITONSERVER_Error *worker_ask_initialize(worker *self, worker_link *link, const char *name,
                                          const char *arguments);

// WORK_FINALIZE; what goes wrong is logged.
void worker_ask_finalize(worker *self, worker_link *link);

// Waits for the slot; the lock is held. False: `deadline_ns` came first.
bool worker_acquire_slot_locked(worker *self, uint64_t deadline_ns);
void worker_release_slot_locked(worker *self);

// Why the worker behind `link` is gone. Waits a moment for its end to be seen.
TRITONSERVER_Error *worker_why_gone(worker *self, worker_link *link);

// As worker_why_gone, without waiting: NULL when the end has not been seen yet.
TRITONSERVER_Error *worker_gone_already(worker *self, worker_link *link);

// The present worker's link, referenced.
worker_link *worker_current_link(worker *self);

#endif

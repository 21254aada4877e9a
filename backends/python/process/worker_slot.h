// SPDX-License-Identifier: Apache-2.0
// The parts of a worker; see worker.h. worker_slot.c has its state and the slot, worker_rpc.c what
// is said to it and asked of it besides inference, worker.c its life and its listener.
#ifndef NEREID_PYTHON_WORKER_SLOT_H
#define NEREID_PYTHON_WORKER_SLOT_H

#include "process/process.h"
#include "process/worker.h"

#include "base/clock.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum {
  DEATHS_MANY = 5,      // within DEATHS_WINDOW_S: the model is unavailable
  DEATHS_WINDOW_S = 60, // a worker that lived that long starts the pauses anew
  PAUSE_MOST_S = 60,    // between an end and the next start
  START_WAIT_S = 10,    // of work, for a worker that is starting again
  READY_WAIT_S = 5,     // of a readiness check, for the slot and the answer
  NS_PER_S = 1000000000,
  QUIET_S = 1,              // without work: idle memory is given back
  KEPT_BYTES = 1024 * 1024, // of free channel memory, when it is quiet
  MAX_NODES = 1024          // of a machine, as the kernel has them at most
};

// Where a thread runs and takes memory from. The server puts its threads for loading where the
// instance's host policy says, and what they start is there too.
typedef struct worker_placement {
  cpu_set_t cores;
  int mode; // of memory
  unsigned long nodes[MAX_NODES / (8 * sizeof(unsigned long))];
} worker_placement;

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
  int quiet_timer;     // -1: not made yet
  atomic_bool touched; // since it was set
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
  worker_process *process;
  bool has_complete;
  bool has_is_ready;
  unsigned checks; // of readiness, under way
  worker_check checked;
  uint64_t ready_until_ns;         // for the next check; 0: it has not been announced
  unsigned failures;               // ends in a row
  uint64_t ready_ns;               // since when
  uint64_t retry_ns;               // when DOWN: the next start
  uint64_t deaths_ns[DEATHS_MANY]; // the last ones, newest first
  bool dies_often;                 // DEATHS_MANY of them were within DEATHS_WINDOW_S
};

static inline uint64_t worker_deadline(int64_t seconds)
{
  return clock_monotonic_ns() + (uint64_t)seconds * NS_PER_S;
}

// With the lock held. A worker ended at `now`, by clock_monotonic_ns: sets when the next one
// starts, and gives the pause until then: none, 1, 2, 4 … s.
unsigned worker_count_death_locked(worker *self, uint64_t now);

// Waits for the slot; the lock is held. False: `deadline_ns` came first.
bool worker_acquire_slot_locked(worker *self, uint64_t deadline_ns);
void worker_release_slot_locked(worker *self);

// Ends the present worker's process, if there is one; the lock is held.
void worker_kill_locked(worker *self);

// How the worker behind `link` ended, NULL: the last one.
TRITONSERVER_Error *worker_gone_locked(const worker *self, const worker_link *link);

// Why the worker behind `link`, NULL: the present one, is gone; one that is not is ended. `waits`:
// for a moment, until its end is seen; else NULL when it is not yet.
TRITONSERVER_Error *worker_why_gone(worker *self, const worker_link *link, bool waits);

// The present worker's link, referenced.
worker_link *worker_current_link(worker *self);

#endif

// SPDX-License-Identifier: Apache-2.0
// The parts of a worker, for the files that share them: worker_parts.c (its state), worker_end.c
// (why it is gone), worker_slot.c (the right to send to it), worker_rpc.c (messages besides
// inference) and worker.c (its life and its listener). Everybody else sees worker.h.
#ifndef NEREID_PYTHON_WORKER_PARTS_H
#define NEREID_PYTHON_WORKER_PARTS_H

#include "process/process.h"
#include "process/worker.h"

#include "base/clock.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define DEATHS_MANY     5  // within DEATHS_WINDOW_S: the model is unavailable
#define DEATHS_WINDOW_S 60 // a worker that lives this long resets the pauses
#define PAUSE_MOST_S    60 // between an end and the next start
#define END_WAIT_S      10 // of work that broke with its worker, for the worker's end
#define READY_WAIT_S    5  // of a readiness check, for the slot and the answer
#define NS_PER_S        1000000000
#define QUIET_S         1             // without work: idle memory is given back
#define KEPT_BYTES      (1024 * 1024) // of free channel memory, when it is quiet
#define MAX_NODES       1024          // of a machine, as the kernel has them at most

// The processors and memory nodes of a thread. The server's load threads follow the instance's host
// policy, and the processes that they start inherit it.
typedef struct worker_placement {
  cpu_set_t cores;
  int mode; // memory policy
  unsigned long nodes[MAX_NODES / (8 * sizeof(unsigned long))];
} worker_placement;

typedef enum worker_state {
  WORKER_STARTING,
  WORKER_READY,
  WORKER_DOWN,
  WORKER_STOPPED
} worker_state;

// The result of the last readiness check of the current worker.
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
  atomic_bool touched; // since the timer was set
  atomic_uint_fast64_t next_number;
  _Atomic(const char *) name; // one of own_names
  char *own_names[2];         // of the start, of the instance

  pthread_mutex_t lock;   // guards all below
  pthread_cond_t changed; // any of the members below
  char *arguments;        // of initialize; NULL: do not restart
  worker_state state;
  unsigned slot_users; // executions, or one readiness question
  bool calls_models;   // it has called a model at least once
  unsigned waiting;    // threads waiting for the slot
  uint64_t number;     // of the current worker: 1, 2, …
  uint64_t ended;      // number of the last one that ended
  char *cause;         // how it ended, or why it did not start
  char *start_failure; // why this side ended it during its start
  worker_link *link;
  worker_process *process;
  bool has_complete;
  bool has_is_ready;
  unsigned checks; // readiness checks in progress
  worker_check checked;
  uint64_t ready_until_ns;         // deadline of the next check; 0: not announced
  unsigned failures;               // ends in a row
  uint64_t ready_ns;               // since when it is READY
  uint64_t retry_ns;               // when DOWN: time of the next start
  uint64_t deaths_ns[DEATHS_MANY]; // the last ends, newest first
  bool dies_often;                 // DEATHS_MANY of them were within DEATHS_WINDOW_S
};

static inline uint64_t worker_deadline(int64_t seconds)
{
  return clock_monotonic_ns() + (uint64_t)seconds * NS_PER_S;
}

// With the lock held.
void worker_set_state(worker *self, worker_state state);

// The current worker's link, referenced.
worker_link *worker_current_link(worker *self);

#endif

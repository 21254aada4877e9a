// The parts of worker_keeper; see worker_keeper.h. worker_keeper.c has its life and its listener,
// keeper_talk.c the conversation with the worker.
#ifndef NEREID_PYTHON_KEEPER_INTERNAL_H
#define NEREID_PYTHON_KEEPER_INTERNAL_H

#include "instance/aside.h"
#include "process/worker_keeper.h"

#include <stdatomic.h>

enum {
  DEATHS_MANY = 5,      // within DEATHS_WINDOW_S: the model is unavailable
  DEATHS_WINDOW_S = 60, // a worker that lived that long starts the pauses anew
  PAUSE_MOST_S = 60,    // between an end and the next start
  START_WAIT_S = 10,    // of work, for a worker that is starting again
  READY_WAIT_S = 5,     // of a readiness check, for its turn and the answer
  NS_PER_S = 1000000000,
  KEPT_BYTES = 1024 * 1024, // of free channel memory, when it is quiet
};

typedef enum keeper_state {
  KEEPER_STARTING,
  KEEPER_READY,
  KEEPER_DOWN,
  KEEPER_STOPPED
} keeper_state;

// What the last check of the present worker's readiness found.
typedef enum keeper_check {
  KEEPER_UNCHECKED,
  KEEPER_CHECKED_GOOD,
  KEEPER_CHECKED_BAD
} keeper_check;

struct worker_keeper {
  const python_model *model;
  TRITONBACKEND_ModelInstance *instance; // set before the worker is ready
  worker_placement place;                // of its workers
  char *host_policy;                     // the instance's
  request_table requests;
  circle_member member;
  aside_list aside;
  pthread_t listener;
  atomic_uint_fast64_t next_id;
  execution_queue begun;      // worker_keeper_begun
  _Atomic uint64_t ewma_ns;   // worker_keeper_ewma_ns
  _Atomic(const char *) name; // one of own_names
  char *own_names[2];         // of the start, of the instance

  pthread_mutex_t lock;   // guards what follows
  pthread_cond_t changed; // any of it
  char *arguments;        // of initialize; NULL: not to be started again
  keeper_state state;
  unsigned working;    // executions, or a question, between begin and end of work
  bool calls_models;   // has called another one, at least once
  unsigned waiting;    // threads that wait for their turn to work
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
  keeper_check checked;
  uint64_t ready_until_ns;         // for the next check; 0: it has not been announced
  unsigned failures;               // ends in a row
  uint64_t ready_ns;               // since when
  uint64_t retry_ns;               // when DOWN: the next start
  uint64_t deaths_ns[DEATHS_MANY]; // the last ones, newest first
  unsigned death_count;
};

// Starts the process of a new worker, without talking to it. The lock is not held.
TRITONSERVER_Error *keeper_spawn(worker_keeper *self);

// Waits until the worker says that it runs, and has it import the model.
TRITONSERVER_Error *keeper_greet(worker_keeper *self, worker_link *link, const char *name);

// WORK_INITIALIZE.
TRITONSERVER_Error *keeper_initialize(worker_keeper *self, worker_link *link, const char *name,
                                      const char *arguments);

// WORK_FINALIZE; what goes wrong is logged.
void keeper_finalize(worker_keeper *self, worker_link *link);

// Waits for the turn to work; the lock is held. False: `deadline_ns` came first.
bool keeper_take_turn_locked(worker_keeper *self, uint64_t deadline_ns);
void keeper_end_turn_locked(worker_keeper *self);

// As worker_keeper_why_gone, without waiting: NULL when the end has not been seen yet.
TRITONSERVER_Error *keeper_gone_already(worker_keeper *self, worker_link *link);

// The present worker's link, referenced.
worker_link *keeper_link(worker_keeper *self);

#endif

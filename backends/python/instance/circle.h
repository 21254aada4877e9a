// Who waits for whom: which workers' threads of execute wait for a reply, and where the calls are
// that they, and coroutines, have made. Where all instances of a model wait in a circle, one of
// them is lent: its worker is told (REPLY_LEND) to take further work while it waits. One table for
// the whole library, since circles go through its backends. Any thread.
//
// docs/internals/python_worker.md says why this never leaves a circle standing.
#ifndef NEREID_PYTHON_CIRCLE_H
#define NEREID_PYTHON_CIRCLE_H

#include "model/python_model.h"
#include "process/worker_link.h"

enum {
  MAX_CIRCLE_DEPTH = 64 // executions of one worker that wait below the one that runs
};

// A worker, in its keeper. All of it is guarded by the table's lock.
typedef struct circle_member {
  struct circle_member *next;
  const python_model *model;
  struct circle_call *calls;     // that it has under way
  struct circle_call *waits_for; // the one of them for which execute's thread waits; NULL: it does
                                 // not, or it is lent
  struct circle_work *works;     // that answer calls, the last one first
  unsigned depth;                // lent executions that have not ended
  bool stuck;                    // while circles are looked for: what it has begun
} circle_member;

typedef enum circle_place {
  CIRCLE_QUEUED,    // by the server, for any instance of its model
  CIRCLE_EXECUTING, // by `at`, or about to be
  CIRCLE_ELSEWHERE  // `at`, if any, has it, but not in execute; or nobody knows
} circle_place;

// How whoever makes calls takes one back.
typedef struct circle_caller {
  void (*hold)(struct calls *calls); // keeps `calls` until `cancel`; with the table's lock
  // Cancels call `id`, if there still is one, and lets go of `calls`. Without the table's lock.
  void (*cancel)(struct calls *calls, uint64_t id);
} circle_caller;

// A call of a model, in its infer_call. All of it is guarded by the table's lock.
typedef struct circle_call {
  const circle_caller *caller;
  struct calls *calls;
  struct circle_call *next; // of its member
  struct circle_call **from;
  struct circle_call *next_in_bucket; // by `request`
  circle_member *member;              // NULL: not in the table
  worker_link *link;
  uint64_t id;
  uint64_t execution; // that waits for it, or will; by its number
  TRITONSERVER_Server *server;
  const char *model;
  int64_t version;                        // below 0: any
  TRITONSERVER_InferenceRequest *request; // NULL: not with the server
  circle_place place;
  circle_member *at;
  struct circle_call *next_in_work; // while EXECUTING
  struct circle_call **from_work;
  uint64_t replies; // that were sent
  bool lent;        // its worker takes work while it waits for this
  bool refused;     // it was cancelled, since nobody could be lent for it
  bool stuck;       // while circles are looked for
} circle_call;

// What an execution is for, in the execution. Guarded by the table's lock.
typedef struct circle_work {
  circle_call *calls; // that it answers
  struct circle_work *below;
  circle_member *by;
  uint64_t execution;
} circle_work;

void circle_join(circle_member *self, const python_model *model);
void circle_part(circle_member *self);

// The worker is gone, with all that it had under way.
void circle_forget(circle_member *self);

// ---- Calls. `self` needs `caller`, `calls`, `server`, `model`, `link`, `id` and `execution`.

// With `waits`, execute's thread waits for the reply from now on.
void circle_open(circle_call *self, circle_member *member, bool waits);

// The call is about to be queued as `request`. False: it must not, since that would need executions
// deeper than MAX_CIRCLE_DEPTH. From here on it may be cancelled.
bool circle_submit(circle_call *self, TRITONSERVER_InferenceRequest *request, int64_t version);

// Whether it is to be cancelled, since nobody could be lent for it.
bool circle_is_refused(const circle_call *self);

// Execute's thread waits for another reply to a call, after `seen` of them.
void circle_wait(circle_member *member, uint64_t id, uint64_t seen);

// Before a reply is sent; the `final` one takes the call out of the table. True: the worker was
// lent, WORK_RESUME is to follow the reply.
bool circle_reply(circle_call *self, bool final);

// The server has given the request back.
void circle_released(circle_call *self);

// ---- Executions. Pointers of requests are the server's and the backend's alike.

// Whether one of them is a call from one of the workers.
bool circle_has_call(TRITONBACKEND_Request *const *requests, uint32_t count);

// `by` has been given the requests. Until circle_executed `work` is in the table; after true that
// must be called.
bool circle_executing(circle_work *work, circle_member *by, uint64_t execution,
                      TRITONBACKEND_Request *const *requests, uint32_t count);
void circle_executed(circle_work *work);

// An execution was lent for the first time (1), or such a one has ended (-1).
void circle_count(circle_member *self, int difference);

// Whether execute's thread waits for a reply and takes no work.
bool circle_is_waiting(const circle_member *self);

#endif

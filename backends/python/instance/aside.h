// The executions of a worker that no thread of the server waits for, so that the instance is free
// for other requests: those whose `execute` waits in a circle while the worker is lent, and those
// that came meanwhile but are no part of a circle. The latter are run, in their order, when the
// worker has ended the former: a model is entered again only by calls that lead back to it.
#ifndef NEREID_PYTHON_ASIDE_H
#define NEREID_PYTHON_ASIDE_H

#include "instance/execution.h"

typedef struct aside_list {
  pthread_mutex_t lock; // guards what follows, and what executions in the list say of themselves
  pthread_cond_t changed;
  worker_link *link; // of the worker that lives, borrowed; NULL: nothing can be put aside
  execution *first;
  uint32_t sent; // of them, which the worker has
  uint32_t held; // executions that a thread deals with which has sent them, or is sending
} aside_list;

void aside_init(aside_list *self);
void aside_fini(aside_list *self);

// A worker begins its life. It ends with aside_fail_all.
void aside_open(aside_list *self, worker_link *link);

// Around the sending of an execution, up to its answer.
void aside_hold(aside_list *self);
void aside_let_go(aside_list *self);

// Whether nothing is put aside.
bool aside_is_empty(aside_list *self);

// Keeps for later what must not run while the worker is lent: the execution, which has its turn to
// work, or some of its requests. True: it is the list's now, and its turn has ended.
bool aside_defer(execution *owned);

// Keeps a held execution whose worker has been lent; its hold and its turn have ended then. False:
// the worker is gone, and the execution is held as before.
bool aside_put_lent(execution *owned);

// Sends the first of those that are kept for later, if the worker is free. Whoever ends a turn
// calls it.
void aside_go_on(worker_keeper *keeper);

// CALL_ANSWER. The listener's thread.
void aside_take_answer(worker_keeper *keeper, const channel_message *call);

// Answers all with an error: the worker is gone. The listener's thread.
void aside_fail_all(worker_keeper *keeper, const TRITONSERVER_Error *error);

#endif

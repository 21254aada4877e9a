// Keeps one worker alive for an instance: starts it, talks it through its start, serves its calls
// on a thread of its own (the listener), notices its end, answers what was under way with the
// cause, and starts it again with growing pauses.
//
// States: STARTING → READY ⇄ DOWN → STARTING …, and STOPPED from any. Who has work waits while it
// starts, but not through a pause.
#ifndef NEREID_PYTHON_WORKER_KEEPER_H
#define NEREID_PYTHON_WORKER_KEEPER_H

#include "instance/circle.h"
#include "instance/request_table.h"
#include "model/python_model.h"
#include "process/worker_link.h"

#include "nereid/nereid.h"

// Starts a worker where the calling thread is (placement.h) and has it import the model. Until
// worker_keeper_initialize its end is final.
TRITONSERVER_Error *worker_keeper_start(const python_model *model, const char *name,
                                        worker_keeper **made);

const char *worker_keeper_host_policy(const worker_keeper *self); // of the instance

// Whether its worker is where the calling thread is.
bool worker_keeper_is_here(const worker_keeper *self);

// Runs the model's auto_complete_config; `*completed` is the configuration that it gave, for
// free(), or NULL when the model has none.
TRITONSERVER_Error *worker_keeper_complete(worker_keeper *self, const char *config,
                                           char **completed);

// Runs the model's initialize with the JSON text `arguments`, which is copied, and from here on
// keeps the worker alive for `instance`, whose name it takes.
TRITONSERVER_Error *worker_keeper_initialize(worker_keeper *self,
                                             TRITONBACKEND_ModelInstance *instance,
                                             const char *name, const char *arguments);

// Runs the model's finalize, ends the worker, and frees all. No work may be under way. NULL does
// nothing.
void worker_keeper_stop(worker_keeper *self);

// ---- Work, between begin and end of it: one thread at a time.

// Waits for a worker that is starting, for some seconds, and for others' work. After success
// worker_keeper_end_work must be called.
TRITONSERVER_Error *worker_keeper_begin_work(worker_keeper *self, worker_link **link);
void worker_keeper_end_work(worker_keeper *self, worker_link *link);

// Begins work if that needs no waiting. False: nothing was begun.
bool worker_keeper_try_begin_work(worker_keeper *self, worker_link **link);

// Joins the work under way on `link`, behind it: worker_keeper_end_work must be called for each.
// False: the worker is not that one or not ready, or somebody waits for the turn, or the model
// calls others: executions might then wait for each other.
bool worker_keeper_join_work(worker_keeper *self, worker_link *link);
bool worker_keeper_may_join(worker_keeper *self, const worker_link *link);

// The executions that were begun and have not ended, in their order. Whose the instance is uses it.
typedef struct execution_queue {
  struct execution *first;
  struct execution *last;
  uint32_t crowded; // so many more are taken to be some of many
} execution_queue;
execution_queue *worker_keeper_begun(worker_keeper *self);

// How long `execute` takes of late, by the worker's word; 0: not known yet.
_Atomic uint64_t *worker_keeper_ewma_ns(worker_keeper *self);

// Those that nobody waits for (aside.h).
struct aside_list *worker_keeper_aside(worker_keeper *self);

// A number for work.
uint64_t worker_keeper_number(worker_keeper *self);

// Sends work on CHANNEL_WORK. False: the worker is gone.
bool worker_keeper_send(worker_link *link, const channel_message *work);

// Waits for the answer with `id`; `seconds` 0 means for ever. After success channel_done must be
// called for CHANNEL_ANSWERS. UNAVAILABLE: the time is over.
TRITONSERVER_Error *worker_keeper_await(worker_keeper *self, worker_link *link, uint64_t id,
                                        int64_t seconds, channel_message *answer);

// The same without an error for the time: false when `timeout_us` (negative: for ever) is over, or
// when the worker is about to end. True: there is an answer, or *error. Waits for nothing but the
// time, so a loop of the server may call it.
bool worker_keeper_poll(worker_keeper *self, worker_link *link, uint64_t id, int64_t timeout_us,
                        channel_message *answer, TRITONSERVER_Error **error);

// Why the worker behind `link` is gone. Waits a moment for its end to be seen.
TRITONSERVER_Error *worker_keeper_why_gone(worker_keeper *self, worker_link *link);

// The thread of execute may wait for a reply now, to a call of a model or another one: who waits
// for the turn looks again.
void worker_keeper_note_wait(worker_keeper *self, bool calls_model);

// Whether the worker is not there, and why, without asking it or waiting.
bool worker_keeper_has_fault(worker_keeper *self, char *text, size_t size);

// worker_keeper_check_ready is to follow: sends its question already, if that needs no waiting. The
// time for the answer runs from here on.
void worker_keeper_ask_ready(worker_keeper *self);

// Whether requests can be served: the worker lives and the model's is_ready says so.
TRITONSERVER_Error *worker_keeper_check_ready(worker_keeper *self);

// ---- Parts. They live as long as the keeper.

const char *worker_keeper_name(const worker_keeper *self);
const python_model *worker_keeper_model(const worker_keeper *self);
TRITONBACKEND_ModelInstance *worker_keeper_instance(const worker_keeper *self);
// What lines about it are about; a request's id may be added.
NEREID_LogSubject worker_keeper_log_subject(const worker_keeper *self);
request_table *worker_keeper_requests(worker_keeper *self);
circle_member *worker_keeper_member(worker_keeper *self);

#endif

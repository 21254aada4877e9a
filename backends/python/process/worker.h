// SPDX-License-Identifier: Apache-2.0
// Keeps one worker alive: starts it, talks it through its start, serves its calls on a thread of
// its own (the listener), notices its end, tells its owner, and starts it again with growing
// pauses.
//
// States: STARTING → READY ⇄ DOWN → STARTING …, and STOPPED from any. Who has work waits while it
// starts, but not through a pause. Any thread, unless said otherwise.
#ifndef NEREID_PYTHON_WORKER_H
#define NEREID_PYTHON_WORKER_H

#include "nereid/nereid.h"
#include "process/link.h"

typedef struct worker worker;

// What all workers of a model have in common. Borrowed.
typedef struct worker_settings {
  const char *model; // its name
  uint64_t version;
  char *const *command;
  char *const *environment;
  const char *interpreter; // its path, for texts
  size_t shared_bytes;     // worker_link_new
  int64_t timeout_s;       // for its start, and its end
  bool keeps_sequences;    // what it knows of sequences ends with it
  // What WORK_LOAD tells it, for free(); NULL: no memory.
  char *(*load_text)(const void *load_user, const char *instance_name);
  const void *load_user;
} worker_settings;

// What its owner does; all but the last on the listener's thread.
typedef struct worker_events {
  // A worker begins. An error (which is logged) ends it; `calls_ended` is not called then.
  TRITONSERVER_Error *(*calls_begun)(void *user, worker_link *link);
  // It has sent a message on CHANNEL_CALLS. The caller does channel_done.
  void (*call)(void *user, worker_link *link, const channel_message *call);
  // Whether other threads may reply to it, which cannot wake the listener when its ring is full.
  bool (*has_calls)(void *user);
  void (*calls_ended)(void *user);
  // The process is gone, `error` says how: nothing that it was given will be answered.
  void (*gone)(void *user, TRITONSERVER_Error *error);
  // Whether its thread of work waits for a reply. With the worker's lock held.
  bool (*waits)(const void *user);
} worker_events;

// Nothing is started yet. NULL: no memory.
worker *worker_new(const worker_settings *settings, const char *name, const worker_events *events,
                   void *user);

// Starts a worker where the calling thread is (its cores, its memory), as all later ones, and has
// it import the model. Until worker_initialize its end is final. After an error only worker_free
// may follow.
TRITONSERVER_Error *worker_start(worker *self);

// Whether its worker is where the calling thread is.
bool worker_is_here(const worker *self);

// Runs the model's auto_complete_config; `*completed` is the configuration that it gave, for
// free(), or NULL when the model has none.
TRITONSERVER_Error *worker_complete(worker *self, const char *config, char **completed);

// Runs the model's initialize with the JSON text `arguments`, which is copied, and takes the name
// of the instance. After that it is kept alive.
TRITONSERVER_Error *worker_initialize(worker *self, const char *name, const char *arguments);

// Runs the model's finalize, ends the worker. No work may be under way.
void worker_stop(worker *self);
// Has been stopped, or was never started. NULL does nothing.
void worker_free(worker *self);

// Bytes of memory that the worker, its guard and all that it has started take; 0: there is none.
uint64_t worker_memory(worker *self);

// The number of the worker that gets what is sent next: the present one's, or, where that has
// ended, the next one's.
uint64_t worker_life(worker *self);

// How the last one ended.
TRITONSERVER_Error *worker_gone(worker *self);

// What lines about it are about; a request's id may be added.
const char *worker_name(const worker *self);
NEREID_LogSubject worker_log_subject(const worker *self);

// ---- The slot: whoever has it sends work and takes the answer, one at a time.

// Waits for a worker that is starting, for some seconds, and for others' work. After success
// worker_release_slot must be called.
TRITONSERVER_Error *worker_acquire_slot(worker *self, worker_link **link);
void worker_release_slot(worker *self, worker_link *link);

// The same if it needs no waiting. False: it was not acquired.
bool worker_try_acquire_slot(worker *self, worker_link **link);

// Shares the slot of who has it with `link`, to send behind it: worker_release_slot must be called
// for each. False: the worker is not that one or not ready, or somebody waits for the slot, or the
// model calls others: executions might then wait for each other.
bool worker_share_slot(worker *self, worker_link *link);
bool worker_may_share_slot(worker *self, const worker_link *link);

// The model has made a call, of another model or another one. Who waits for the slot looks again
// whether the worker waits.
void worker_record_call(worker *self, bool is_of_model);

// Work begins. When there is none for a second or two, idle memory of the channel is given back.
void worker_touch(worker *self);

// A number for work, higher than those before.
uint64_t worker_next_number(worker *self);

// Waits for the answer with `id`. False when `timeout_us` (negative: for ever) is over, or when the
// worker is about to end. True: there is an answer, for which channel_done must be called, or
// *error. With a timeout it waits for nothing else, so a loop of the server may call it.
bool worker_await(worker *self, worker_link *link, uint64_t id, int64_t timeout_us,
                  channel_message *answer, TRITONSERVER_Error **error);

// ---- Readiness

// Whether the worker is not there, and why, without asking it or waiting.
bool worker_has_fault(worker *self, char *text, size_t size);

// worker_check_ready is to follow: sends its question already, if that needs no waiting. The time
// for the answer runs from here on.
void worker_ask_ready(worker *self);

// Whether requests can be served: the worker lives and the model's is_ready says so.
TRITONSERVER_Error *worker_check_ready(worker *self);

#endif

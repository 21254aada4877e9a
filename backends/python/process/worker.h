// SPDX-License-Identifier: Apache-2.0
// Keeps one worker alive: starts it, has it load the model, serves its calls on a thread of its own
// (the listener), notices its end, tells its owner, and restarts it with growing pauses.
//
// States: STARTING → READY ⇄ DOWN → STARTING …, and STOPPED from any. A thread with work waits
// while the worker starts, but not through a pause. Any thread, unless said otherwise.
#ifndef NEREID_PYTHON_WORKER_H
#define NEREID_PYTHON_WORKER_H

#include "nereid/nereid.h"
#include "process/worker_link.h"

typedef struct worker worker;

// Settings shared by all workers of a model. Borrowed.
typedef struct worker_settings {
  const char *model; // its name
  uint64_t version;
  char *const *command;
  char *const *environment;
  const char *interpreter; // path, for texts
  size_t shared_bytes;     // for worker_link_new
  int64_t timeout_s;       // for the start and for the end
  bool keeps_sequences;    // its sequences' states are lost when it ends
  // The text of WORK_LOAD, for free(); NULL: no memory.
  char *(*load_text)(const void *load_user, const char *instance_name);
  const void *load_user;
} worker_settings;

// The owner's functions; all but the last run on the listener's thread.
typedef struct worker_events {
  // A worker begins. An error is logged and ends the worker; `calls_ended` is not called then.
  TRITONSERVER_Error *(*calls_begun)(void *user, worker_link *link);
  // The worker has sent a message on CHANNEL_CALLS. The caller calls channel_done.
  void (*call)(void *user, worker_link *link, const channel_message *call);
  // Whether other threads may reply to the worker. They cannot wake the listener when the ring is
  // full.
  bool (*has_calls)(void *user);
  void (*calls_ended)(void *user);
  // The process is gone, `error` says how: none of its open work will be answered.
  void (*gone)(void *user, TRITONSERVER_Error *error);
  // Whether the worker's main thread waits for a reply. Called with the worker's lock held.
  bool (*waits)(const void *user);
} worker_events;

// Starts nothing yet. NULL: no memory.
worker *worker_new(const worker_settings *settings, const char *name, const worker_events *events,
                   void *user);

// Starts a worker on the calling thread's processors and memory nodes, as all later workers, and
// has it import the model. Until worker_initialize the worker is not restarted. After an error only
// worker_free may follow.
TRITONSERVER_Error *worker_start(worker *self);

// Whether its worker has the calling thread's processors and memory nodes.
bool worker_is_here(const worker *self);

// Runs the model's auto_complete_config. `*completed`: the completed configuration, for free(), or
// NULL when the model has no such function.
TRITONSERVER_Error *worker_complete(worker *self, const char *config, char **completed);

// Runs the model's initialize with the JSON text `arguments`, which is copied, and takes the
// instance's name. From now on the worker is restarted when it ends.
TRITONSERVER_Error *worker_initialize(worker *self, const char *name, const char *arguments);

// Runs the model's finalize and ends the worker. No work may be open.
void worker_stop(worker *self);
// Call it after worker_stop, or if the worker was never started. NULL does nothing.
void worker_free(worker *self);

// Bytes of memory that the worker, its guard and all their descendants use; 0: no worker.
uint64_t worker_memory(worker *self);

// The number of the worker that gets the next work: the current one, or the next if that has ended.
uint64_t worker_life(worker *self);

// An error that says how the last worker ended.
TRITONSERVER_Error *worker_gone(worker *self);

// The subject of log lines about it; the caller may add a request's id.
const char *worker_name(const worker *self);
NEREID_LogSubject worker_log_subject(const worker *self);

// ---- The slot: its holder sends work and takes the answer, one at a time.

// Waits for a starting worker, for some seconds, and for the slot. After success call
// worker_release_slot.
TRITONSERVER_Error *worker_acquire_slot(worker *self, worker_link **link);
void worker_release_slot(worker *self, worker_link *link);

// The same without waiting. False: not acquired.
bool worker_try_acquire_slot(worker *self, worker_link **link);

// Shares the slot with its holder, to send work behind the holder's on `link`. Call
// worker_release_slot once for each holder. False: the worker is another one or not ready, a thread
// waits for the slot, or the model calls other models, so that executions might wait for each
// other.
bool worker_share_slot(worker *self, worker_link *link);
bool worker_may_share_slot(worker *self, const worker_link *link);

// The model has made a call, to another model if `is_of_model`. Threads waiting for the slot check
// again whether the worker waits.
void worker_record_call(worker *self, bool is_of_model);

// Call it when work begins. After a second or two without work idle memory of the channel is given
// back.
void worker_touch(worker *self);

// A number for work, higher than all before.
uint64_t worker_next_number(worker *self);

// Waits for the answer with `id`. False when `timeout_us` (negative: for ever) has passed, or the
// worker is about to end. True: there is an answer, for which channel_done must be called, or
// *error. With a timeout it waits for nothing else, so a loop of the server may call it.
bool worker_await(worker *self, worker_link *link, uint64_t id, int64_t timeout_us,
                  channel_message *answer, TRITONSERVER_Error **error);

// ---- Readiness

// Whether the worker is not available, and why. Does not ask the worker and does not wait.
bool worker_has_fault(worker *self, char *text, size_t size);

// Announces worker_check_ready: sends the question now if that needs no waiting. The time for the
// answer begins now.
void worker_ask_ready(worker *self);

// Whether requests can be served: the worker lives and the model's is_ready says so.
TRITONSERVER_Error *worker_check_ready(worker *self);

#endif

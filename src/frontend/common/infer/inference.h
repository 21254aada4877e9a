// SPDX-License-Identifier: Apache-2.0
// One life of an inference, whatever protocol it came by: from the request of the core that a front
// end fills, through the core, to the responses that the front end prints.
// docs/internals/inference.md has its states, who runs what, and what fails how. The front end
// embeds it in its own object and is called back through hooks.
#ifndef NEREID_FRONTEND_COMMON_INFER_INFERENCE_H
#define NEREID_FRONTEND_COMMON_INFER_INFERENCE_H

#include "base/arena.h"
#include "base/error.h"
#include "frontend/common/observe/access_log.h"
#include "frontend/common/tensor/infer_tensors.h"
#include "frontend/trace/trace.h"
#include "nereid/nereid.h"
#include "triton/core/tritonserver.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct inference inference;

typedef enum inference_state {
  INFERENCE_FILLING,    // the front end makes the request
  INFERENCE_SUBMITTING, // the core is being given it, and may be done before it returns
  INFERENCE_RUNNING,    // the core has it
  INFERENCE_WAITING,    // the same, and the front end is to be told when it is done
  INFERENCE_DONE,       // all that the front end waits for is there
  INFERENCE_REFUSED,    // the core never had it
} inference_state;

// What a front end does for an inference. Any thread.
typedef struct inference_hooks {
  void (*ref)(inference *i); // of the object that it is embedded in
  void (*unref)(inference *i);
  void (*done)(inference *i); // it was WAITING and is DONE; from here on it is the loop's
  // A response, where each one is sent: NULL is an end without one.
  void (*respond)(inference *i, TRITONSERVER_InferenceResponse *response_owned, bool final);
  bool cancels_surplus; // where one response is sent: one more ends the request
} inference_hooks;

struct inference {
  const inference_hooks *hooks;
  TRITONSERVER_InferenceRequest *request; // until its last user is gone
  NEREID_ModelWait *wait;                 // owned: the model had to be loaded; else NULL
  const char *model_name;                 // "" before it is read, as the next one
  const char *request_id;
  int64_t model_version; // as asked for; 0 or less: any, or a name
  bool decoupled;        // any number of responses, maybe after the request was released
  bool sends_each;       // each response goes to hooks->respond; else the first is kept
  bool is_timed;         // its times are noted, for the access log
  bool awaits_release;   // the client's memory is in use: with the reply it is the client's again
  infer_tensors tensors;
  access_times times;
  trace_record *trace; // NULL: it is not traced

  _Atomic int state; // inference_state
  // Who still needs the request: the core until the release, whoever submits or cancels it, and of
  // a decoupled model its responses. The last one deletes it; nobody joins after that.
  _Atomic uint32_t users;
  _Atomic bool cancel_wanted; // nobody waits any more
  _Atomic int awaited;        // events until it is DONE: the final response, and the release

  TRITONSERVER_InferenceResponse *response; // the first one, owned, where one response is sent
  _Atomic uint32_t response_count;
};

// `arena`, `budget` and `memory` are what outputs and copies are taken from, and the client's
// memory; borrowed, as `hooks`.
void inference_init(inference *i, const inference_hooks *hooks, arena *arena, byte_budget *budget,
                    shared_memory *memory);
// Gives back what is held beyond the arena, and ends the trace.
void inference_fini(inference *i);

// What the flags of the model's transactions say (TRITONSERVER_TXN_DECOUPLED).
error *inference_read_transactions(TRITONSERVER_Server *server, const char *model, int64_t version,
                                   uint32_t *flags);

// Makes the empty request for i->model_name and i->model_version; its reference is taken. A model
// that is not loaded is an error, where it was not awaited.
error *inference_make_request(inference *i, TRITONSERVER_Server *server);

// The request has its sequence's id, if any: from here on i->model_version is what will serve it,
// for questions about it. Returns the flags of its transactions.
static inline uint32_t inference_choose_version(inference *i)
{
  uint32_t transactions;
  i->model_version = NEREID_InferenceRequestVersion(i->request, &transactions);
  return transactions;
}

// Whether the model that there was no request for may be loaded now, on demand.
bool inference_may_await(TRITONSERVER_Server *server, const error *failure);
// Has it loaded, and `awaited` called with `context` (nereid.h) if *waits. From here on
// inference_cancel ends the waiting, and so do that many microseconds; 0: any. Once.
error *inference_await_model(inference *i, TRITONSERVER_Server *server, uint64_t timeout_us,
                             NEREID_ModelAwaitedFn_t awaited, void *context, bool *waits);
// It was awaited: why there is none. Else the request can be made.
error *inference_take_model(inference *i);

// NEREID_REQUEST_FLAG_RUN_HERE, where the model may be run on the loop's thread: not for tensors of
// a size that it cannot be through with in the time that a loop may take, nor for responses without
// end. `size` is that of the message.
uint32_t inference_run_here_flag(const inference *i, size_t size);

// What infer_tensors_copy_work says, with what a trace wants.
size_t inference_copy_work(const inference *i);
// Whose threads make the copies, where a loop does not: a GPU may be busy for long.
job_kind inference_copy_kind(const inference *i);
// infer_tensors_make_copies, and what is on a GPU for the trace.
error *inference_make_copies(inference *i);

// The request is complete: has the core call back.
error *inference_set_callbacks(inference *i, TRITONSERVER_ResponseAllocator *allocator);

// Has the request traced if it is to be. `names` are those of its moments.
void inference_begin_trace(inference *i, trace_service *service, const trace_parent *parent,
                           const char *const names[2], uint64_t began_ns, uint64_t ended_ns);

// FILLING: the request is not submitted.
void inference_abandon(inference *i);

// Gives the request to the core. An error: REFUSED, and no hook is called for it.
error *inference_submit(inference *i, TRITONSERVER_Server *server);

// Is it DONE? Loop thread, after submit.
bool inference_is_done(const inference *i);

// True: the hook `done` will tell, or has told already. False: it is DONE, and the hook is not
// called. Loop thread, once after submit.
bool inference_wait(inference *i);

// Tells the core that nobody waits any more. Any thread that holds a reference.
void inference_cancel(inference *i);

// The response that was kept, for the caller; NULL when there is none.
TRITONSERVER_InferenceResponse *inference_take_response(inference *i);
void inference_delete_response(const inference *i,
                               TRITONSERVER_InferenceResponse *response_owned); // NULL is allowed

// DONE or REFUSED, and the reply is made: the response that was not taken is deleted, the client's
// memory is given back. Outputs refer to the inference: without this it would live for ever.
void inference_settle(inference *i);

#endif

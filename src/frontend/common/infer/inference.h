// SPDX-License-Identifier: Apache-2.0
// The life of an inference in any front end: the front end fills a request of the core, submits it,
// and prints the responses. docs/internals/inference.md has the states, threads and failures. The
// front end embeds an `inference` in its own object and is called back through hooks.
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
  INFERENCE_SUBMITTING, // ServerInferAsync has been called; the inference may be DONE before it
                        // returns
  INFERENCE_RUNNING,    // the core has it
  INFERENCE_WAITING,    // the same, and the hook `done` will be called
  INFERENCE_DONE,       // everything that the front end waits for is there
  INFERENCE_REFUSED,    // the core never accepted it
} inference_state;

// A front end's part of an inference. Called on any thread.
typedef struct inference_hooks {
  void (*ref)(inference *i); // a reference to the object with the inference in it
  void (*unref)(inference *i);
  void (*done)(inference *i); // WAITING became DONE; the loop alone uses it from now on
  // With sends_each: a response, or NULL for an end without a response.
  void (*respond)(inference *i, TRITONSERVER_InferenceResponse *response_owned, bool final);
  bool cancels_surplus; // without sends_each: a second response cancels the request
} inference_hooks;

struct inference {
  const inference_hooks *hooks;
  TRITONSERVER_InferenceRequest *request; // valid until its last user is gone
  NEREID_ModelWait *wait;                 // owned; NULL unless the model had to be loaded
  const char *model_name;                 // "" until it is read; so is request_id
  const char *request_id;
  int64_t model_version; // as asked; 0 or less: any version, or a label
  bool decoupled;        // any number of responses, even after the request was released
  bool sends_each;       // each response goes to hooks->respond; else the first is kept
  bool is_timed;         // fills `times`, for the access log
  bool awaits_release;   // the client's memory is in use: only after the release may the reply give
                         // it back
  infer_tensors tensors;
  access_times times;
  trace_record *trace; // NULL: not traced

  _Atomic int state; // inference_state
  // Users of the request: the core until the release, any thread that submits or cancels it, and
  // the responses of a decoupled model. The last user deletes it; at 0 nobody joins.
  _Atomic uint32_t users;
  _Atomic bool cancel_wanted; // the client no longer waits
  _Atomic int awaited;        // events until DONE: the final response, and maybe the release

  TRITONSERVER_InferenceResponse *response; // owned; the first, unless sends_each
  _Atomic uint32_t response_count;
};

// Outputs and copies are made in `arena` and count for `budget`; `memory` is the clients' memory.
// All are borrowed, and so is `hooks`.
void inference_init(inference *i, const inference_hooks *hooks, arena *arena, byte_budget *budget,
                    shared_memory *memory);
// Gives back all that is not in the arena, and ends the trace.
void inference_fini(inference *i);

// Reads the model's transaction flags (TRITONSERVER_TXN_DECOUPLED).
error *inference_read_transactions(TRITONSERVER_Server *server, const char *model, int64_t version,
                                   uint32_t *flags);

// Makes the empty request for i->model_name and i->model_version, and takes a reference for it. A
// model that is not loaded is an error, unless it was awaited.
error *inference_make_request(inference *i, TRITONSERVER_Server *server);

// Sets i->model_version to the version that will serve the request, for later questions about it.
// The request must have its sequence's id, if any. Returns the version's transaction flags.
static inline uint32_t inference_choose_version(inference *i)
{
  uint32_t transactions;
  i->model_version = NEREID_InferenceRequestVersion(i->request, &transactions);
  return transactions;
}

// After `failure` of a request for a model that is not loaded: may the server load it on demand?
bool inference_may_await(TRITONSERVER_Server *server, const error *failure);
// Asks for the model. If *waits, `awaited` is called with `context` later (nereid.h). The wait ends
// after `timeout_us` (0: never) or with inference_cancel. Once per inference.
error *inference_await_model(inference *i, TRITONSERVER_Server *server, uint64_t timeout_us,
                             NEREID_ModelAwaitedFn_t awaited, void *context, bool *waits);
// After `awaited`: the error if there is no model; else the request can be made.
error *inference_take_model(inference *i);

// NEREID_REQUEST_FLAG_RUN_HERE if the loop's thread may run the model. Large tensors (`size` is the
// message's) and many responses would hold up the loop's other clients.
uint32_t inference_run_here_flag(const inference *i, size_t size);

// infer_tensors_copy_work, plus the copies for a trace.
size_t inference_copy_work(const inference *i);
// The kind of job that makes the copies: a GPU may keep its caller waiting.
job_kind inference_copy_kind(const inference *i);
// infer_tensors_make_copies, plus the inputs on a GPU that a trace wants.
error *inference_make_copies(inference *i);

// Sets the callbacks of the complete request.
error *inference_set_callbacks(inference *i, TRITONSERVER_ResponseAllocator *allocator);

// Begins a trace if the request shall be traced, with two moments: `names[0]` at `began_ns` and
// `names[1]` at `ended_ns`.
void inference_begin_trace(inference *i, trace_service *service, const trace_parent *parent,
                           const char *const names[2], uint64_t began_ns, uint64_t ended_ns);

// FILLING: drops the request, which is REFUSED.
void inference_abandon(inference *i);

// Gives the request to the core. After an error it is REFUSED, and no hook is called.
error *inference_submit(inference *i, TRITONSERVER_Server *server);

// Loop thread, after submit.
bool inference_is_done(const inference *i);

// True: the hook `done` will be called, or has been. False: the inference is DONE, and the hook is
// not called. Loop thread, once after submit.
bool inference_wait(inference *i);

// Tells the core that the client no longer waits. Any thread that holds a reference.
void inference_cancel(inference *i);

// Gives the kept response to the caller; NULL when there is none.
TRITONSERVER_InferenceResponse *inference_take_response(inference *i);
void inference_delete_response(const inference *i,
                               TRITONSERVER_InferenceResponse *response_owned); // NULL is allowed

// DONE or REFUSED, after the reply is made: deletes a response that was not taken, and gives back
// the client's memory. Without this call the inference lives for ever, because outputs refer to it.
void inference_settle(inference *i);

#endif

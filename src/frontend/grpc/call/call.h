// SPDX-License-Identifier: Apache-2.0
// A remote procedure call: an HTTP/2 stream with its request messages, reply messages and status.
// References: its stream until that is closed, the core while it has a request of the call, a job,
// and reply messages until they are sent. The loop thread of its connection handles a call, or a
// job's thread while the loop waits for it. Functions that other threads may call say so.
#ifndef NEREID_FRONTEND_GRPC_CALL_CALL_H
#define NEREID_FRONTEND_GRPC_CALL_CALL_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/refcount.h"
#include "base/slice.h"
#include "frontend/common/net/listener.h"
#include "frontend/common/observe/access_log.h"
#include "frontend/grpc/call/grpc_message.h"
#include "frontend/grpc/call/method.h"
#include "frontend/grpc/codec/status.h"
#include "frontend/grpc/transport/loop.h"
#include "nereid/nereid.h"
#include "triton/core/tritonserver.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define CALL_ARENA_BYTES 4096
#define CALL_COST_BYTES  (CALL_ARENA_BYTES + 2048) // with nghttp2's memory for the stream, roughly

typedef struct call call;
typedef struct grpc_reply grpc_reply;
typedef struct grpc_connection grpc_connection;

// A field of the request's metadata; both slices live as long as the call.
typedef struct metadata {
  slice name; // lower case
  slice value;
} metadata;

typedef enum call_state {
  CALL_RECEIVING,  // header and messages are coming; a streaming method gets each as it comes
  CALL_DISPATCHED, // the method has the whole request; nothing more is read
  CALL_ENDED,      // HTTP/2 has the status, or the client is gone
} call_state;

// The request messages (call_body.c).
typedef struct call_body {
  message_reader reader;  // assembles them
  grpc_message *message;  // the complete message of a unary call, owned
  grpc_message *unpacked; // made by a worker
  message_fault fault;    // set by the worker if it made none
  bool paused;            // takes no more messages now: the method or a worker is busy
  bool late;              // the last message came after the drain began
  uint64_t moved_ns;      // when bytes of a message last came
  buffer held;            // bytes that came while paused, for which the window stays smaller
  size_t held_read;       // bytes of `held` that are read
  size_t held_window;     // bytes that the window lacks
  size_t held_cost;       // cost of `held` in the connection's share
  size_t part_cost;       // cost of an incomplete short message
  size_t bytes;           // of all messages
} call_body;

// The reply messages and the end (call_reply.c).
typedef struct call_replies {
  list unsent;         // grpc_reply objects that HTTP/2 has not taken yet
  size_t unsent_bytes; // of `unsent`
  size_t unsent_count;
  size_t bytes;        // of all messages
  bool begun;          // HTTP/2 has the header
  size_t foreign_sent; // sent bytes of the text for clients that do not speak gRPC
  grpc_status status;  // the status sent, in CALL_ENDED
  const char *failure; // its text, escaped; NULL: none
} call_replies;

typedef enum call_job_state {
  CALL_JOB_NONE,
  CALL_JOB_RUNS, // or waits for a thread
  CALL_JOB_DONE, // the loop has not seen it yet
} call_job_state;

// Work of another thread for the call; one piece at a time (call_job.c).
typedef struct call_job {
  struct job queued;
  _Atomic call_job_state state;
  void (*run)(call *c);
  void (*done)(call *c);   // NULL: nothing follows
  void (*cancel)(call *c); // called when the call ends meanwhile; NULL: nothing to do
  void *data;              // for these functions
} call_job;

struct call {
  grpc_stream stream;
  listener *server;
  grpc_loop *loop;                  // its thread handles the call
  grpc_connection *kept_connection; // the stream's, referenced as long as the call lives
  refcount references;
  call_state state;   // see call_set_state
  atomic_bool wanted; // the call is in the loop's woken streams
  size_t cost;        // of the call and its metadata, in its connection's share
  uint64_t began_ns;  // when the stream began

  const method *method; // NULL: unknown method
  metadata *metadata;
  size_t metadata_count;
  size_t metadata_bytes; // as HPACK counts them
  slice path;
  slice authority;
  bool is_post;
  bool is_grpc;          // according to its content-type
  slice odd_coding;      // an unknown grpc-encoding
  content_coding coding; // of compressed request messages
  content_coding reply_coding;
  uint64_t deadline_ns; // on the monotonic clock; 0: none
  conn_timer deadline;

  call_body body;
  call_replies replies;
  call_job job;

  // --- The outcome, set by the thread that handles the call, maybe a job's.
  grpc_status status;                       // GRPC_UNDECIDED at first
  const char *failure;                      // its text, escaped, in the arena; NULL: none
  const char *trailer_name, *trailer_value; // sent with the status; in the arena, or NULL
  grpc_reply *reply;                        // of a unary call, NULL until made

  // --- Set by the method; each may be NULL. Loop thread.
  void *handler_data;
  void (*take_message)(call *c, grpc_message *message_owned); // a streaming call's message came
  void (*half_close)(call *c);                      // a streaming call's last message came
  void (*woken)(call *c);                           // after call_wake
  void (*cancelled)(call *c);                       // the client left or the deadline passed
  void (*describe)(call *c, access_record *record); // adds to the call's access log line
  void (*closed)(call *c);                          // the stream is closed

  arena arena;
  char arena_memory[CALL_ARENA_BYTES];
};

void call_ref(call *c);   // any thread
void call_unref(call *c); // any thread

// Makes the loop run c->woken soon, once for all wakes before that. Any thread.
void call_wake(call *c);

// Changes the state; asserts that the change is allowed. Loop thread, as the next.
void call_set_state(call *c, call_state to);

static inline bool call_is_ended(const call *c)
{
  return c->state == CALL_ENDED;
}

// The request's metadata of that name (lower case); {NULL, 0} if absent.
slice call_metadata(const call *c, const char *name);

// The call's part of an access log line; texts live as long as the call.
access_record call_access_record(const call *c, grpc_status status);

// --- For handlers of unary methods. They reply or fail once; only the first counts.

// The request message; lives as long as the call.
slice call_request(const call *c);

// Replies OK with a protobuf message, which is moved.
void call_reply_packed(call *c, buffer *message_owned);

// Ends the call with a status and a text, which is cut if long, and escaped.
void call_fail(call *c, grpc_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// The same with an error, which is released; returns false for NULL.
bool call_fail_if_error(call *c, error *failure_owned);

// Runs `run` on a job thread, for work that may block, then `done` (may be NULL) on the loop. `run`
// may reply. What a handler does outside of jobs must not take long. False when there is no thread:
// the call has failed.
bool call_run_job(call *c, job_kind kind, void (*run)(call *c), void (*done)(call *c));

// --- For streaming methods and inferences

// Runs `work` on a message by a job thread, then `done` on the loop; the call is paused meanwhile.
// The call may have ended by then.
void call_run_work(call *c, job_kind kind, void (*work)(call *c), void (*done)(call *c));

// The same for work elsewhere, which ends with one call_awaited on any thread; when the call ends,
// `cancel` must make that come soon. The last thing that a handler, or a job's `done`, calls.
void call_await(call *c, void (*done)(call *c), void (*cancel)(call *c));
void call_awaited(call *c);

// A message's memory besides its tensors, roughly: its object and its response.
#define REPLY_COST_BYTES ((size_t)6 << 10)

// The memory that a reply message's parts are in; {0}: none.
typedef struct reply_sources {
  buffer text;
  TRITONSERVER_InferenceResponse *response; // owned; NULL: none
  arena memory;
} reply_sources;

void reply_sources_fini(reply_sources *s);

// Makes a reply message of parts, which are views of `from` or of memory that lives as long as the
// call; compresses it if client and server agreed on that. NULL when memory is short.
grpc_reply *call_make_reply(call *c, const slice *parts, size_t count, reply_sources *from_owned);
void grpc_reply_unref(grpc_reply *r);

// Queues a reply message and takes it over. False when the budget is full: the call must be cut.
bool call_queue(call *c, grpc_reply *message_owned) __attribute__((warn_unused_result));
// The same with a protobuf message, which is moved; cuts the call itself when the budget is full.
void call_queue_packed(call *c, buffer *message_owned);

// Ends the call now because too many replies are unread; `why` is static. The log names the request
// `about`, or NULL.
void call_cut(call *c, const NEREID_LogSubject *about, const char *why);

// Bytes that queued messages take until the client reads them.
size_t call_unsent(const call *c);

// Ends the call with c->status and c->failure after the queued messages.
void call_end(call *c);

// Ends the call now, even while a job has it; `text` is static. A later outcome is ignored.
void call_end_early(call *c, grpc_status status, const char *text);

// Takes no more messages, not even those that came already, until call_resume.
void call_pause(call *c);
void call_resume(call *c);

#endif

// SPDX-License-Identifier: Apache-2.0
// One remote procedure call: an HTTP/2 stream with its request messages, reply messages and status.
// Referenced by its stream until that is closed, by the core while it has a request of the call, by
// a job, and by reply messages until they are sent. A call is handled on the loop thread of its
// connection, or by a job on the thread that runs it while the loop waits; functions say so where
// other threads may call them.
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
#define CALL_COST_BYTES  (CALL_ARENA_BYTES + 2048) // with what HTTP/2 keeps of its stream, roughly

typedef struct call call;
typedef struct grpc_reply grpc_reply;
typedef struct grpc_connection grpc_connection;

// A field of the request's metadata; both views live as long as the call.
typedef struct metadata {
  slice name; // lower case
  slice value;
} metadata;

typedef enum call_state {
  CALL_RECEIVING,  // its header and messages come; a streaming method has them as they come
  CALL_DISPATCHED, // the method has the whole request: nothing more is read
  CALL_ENDED,      // the status is given to HTTP/2, or nobody would get it
} call_state;

// The request's messages (call_body.c).
typedef struct call_body {
  message_reader reader;  // puts them together
  grpc_message *message;  // the complete message of a unary call, owned
  grpc_message *unpacked; // by a worker
  message_fault fault;    // of that
  bool paused;            // no more messages now: the method, or a worker, is busy
  bool late;              // the last message came when the server was stopping
  uint64_t moved_ns;      // when bytes of a message came last
  buffer held;            // what came nevertheless; the window does not know of it yet
  size_t held_read;       // bytes of it that were
  size_t held_window;     // bytes
  size_t held_cost;       // of it, as the connection counts it
  size_t part_cost;       // the same of a short message that is not complete
  size_t bytes;           // of all messages
} call_body;

// The replies' messages, and the end (call_reply.c).
typedef struct call_replies {
  list unsent;         // grpc_reply that HTTP/2 has not taken yet
  size_t unsent_bytes; // of them
  size_t unsent_count;
  size_t bytes;        // of all messages
  bool begun;          // the header is given to HTTP/2
  size_t foreign_sent; // bytes of the text that says that this is no gRPC
  grpc_status status;  // of the end, in CALL_ENDED
  const char *failure; // escaped; NULL: none
} call_replies;

typedef enum call_job_state {
  CALL_JOB_NONE,
  CALL_JOB_RUNS, // or waits for its thread
  CALL_JOB_DONE, // which the loop has yet to see
} call_job_state;

// What another thread does for the call: one at a time (call_job.c).
typedef struct call_job {
  struct job queued;
  _Atomic call_job_state state;
  void (*run)(call *c);
  void (*done)(call *c);   // NULL: nothing is left to do
  void (*cancel)(call *c); // the call has ended otherwise; NULL: that is not told
  void *data;              // of all
} call_job;

struct call {
  grpc_stream stream;
  listener *server;
  grpc_loop *loop;                  // whose thread handles it
  grpc_connection *kept_connection; // the stream's, referenced as long as the call lives
  refcount references;
  call_state state;   // see call_set_state
  atomic_bool wanted; // it is among the loop's woken ones
  size_t cost;        // of the call and its metadata, as its connection counts them
  uint64_t began_ns;  // when the stream began

  const method *method; // NULL: there is none of that name
  metadata *metadata;
  size_t metadata_count;
  size_t metadata_bytes; // as HPACK counts them
  slice path;
  slice authority;
  bool is_post;
  bool is_grpc;          // by its content-type
  slice odd_coding;      // grpc-encoding, if it is none that is known
  content_coding coding; // of compressed request messages
  content_coding reply_coding;
  uint64_t deadline_ns; // on the monotonic clock; 0: none
  conn_timer deadline;

  call_body body;
  call_replies replies;
  call_job job;

  // The outcome, by whoever handles the call: a job's thread, too.
  grpc_status status;                       // GRPC_UNDECIDED before
  const char *failure;                      // its text, escaped, in the arena; NULL: none
  const char *trailer_name, *trailer_value; // sent with the status; in the arena, or NULL
  grpc_reply *reply;                        // of a unary call, NULL until made

  // The method's, which sets them; any may be NULL. Loop thread.
  void *handler_data;
  void (*take_message)(call *c, grpc_message *message_owned); // of a streaming call
  void (*half_close)(call *c);                                // the same, after the last message
  void (*woken)(call *c);                                     // after call_wake
  void (*cancelled)(call *c);                       // the client left or the deadline passed
  void (*describe)(call *c, access_record *record); // adds to its line of the access log
  void (*closed)(call *c);                          // the stream is closed

  arena arena;
  char arena_memory[CALL_ARENA_BYTES];
};

void call_ref(call *c);   // any thread
void call_unref(call *c); // any thread

// Has the loop run c->woken soon, once for any number of wakes before that. Any thread.
void call_wake(call *c);

// The only way from one state to another. Loop thread, as the next.
void call_set_state(call *c, call_state to);

static inline bool call_is_ended(const call *c)
{
  return c->state == CALL_ENDED;
}

// The request's metadata of that name (lower case); size 0 and no data when absent.
slice call_metadata(const call *c, const char *name);

// What the access log says of any call; texts as long as the call.
access_record call_access_record(const call *c, grpc_status status);

// --- For handlers of unary methods: exactly one reply or failure; the first counts

// The request message, which lives as long as the call.
slice call_request(const call *c);

// Replies with a packed message, which is moved, and OK.
void call_reply_packed(call *c, buffer *message_owned);

// Ends the call with a status and a text, which is cut and escaped as errors are.
void call_fail(call *c, grpc_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// The same from an error, which is released; false for NULL.
bool call_fail_if_error(call *c, error *failure_owned);

// Runs `run` on a thread for its kind, for what may block, and then `done` (NULL: nothing) on the
// loop's thread. The call may be replied to in `run`. What the handler does not do in a job must
// not take long. False when there is no thread: the call has failed.
bool call_run_job(call *c, job_kind kind, void (*run)(call *c), void (*done)(call *c));

// --- For streaming methods and inferences

// Has a thread for the kind do `work` with a message, and then the loop `done`; the client waits
// with more messages meanwhile. The call may have ended when it is done.
void call_run_work(call *c, job_kind kind, void (*work)(call *c), void (*done)(call *c));

// The same for what others do, who call call_awaited once on any thread; `cancel` is to make them
// do so soon when the call ends. The handler, or `done` of a job, calls this last.
void call_await(call *c, void (*done)(call *c), void (*cancel)(call *c));
void call_awaited(call *c);

// What a message's parts are views of; zeroed: nothing.
typedef struct reply_sources {
  buffer text;
  TRITONSERVER_InferenceResponse *response; // owned; NULL: none
  arena memory;
} reply_sources;

void reply_sources_fini(reply_sources *s);

// Makes a reply message of parts, which are views of `from` (and of what lives as long as the
// call); packs it where client and server agreed on that. NULL when memory is short.
grpc_reply *call_make_reply(call *c, const slice *parts, size_t count, reply_sources *from_owned);
void grpc_reply_unref(grpc_reply *r);

// Queues a reply message, which is owned. False: the server holds as many answers as it may, and
// the call is to be cut.
bool call_queue(call *c, grpc_reply *message_owned) __attribute__((warn_unused_result));
// The same with a packed one, which is moved; where there is no room the call is cut.
void call_queue_packed(call *c, buffer *message_owned);

// Ends the call now since its client leaves too much unread, or all clients do: `why` is static.
// The log has it, with what is known of the request, or NULL.
void call_cut(call *c, const NEREID_LogSubject *about, const char *why);

// What queued messages take until the client reads them: bytes.
size_t call_unsent(const call *c);

// Ends the call with c->status and c->failure once what is queued is sent.
void call_end(call *c);

// Ends it now, whoever has it; `text` is static. What its handler says later is not heard.
void call_end_early(call *c, grpc_status status, const char *text);

// Has the client wait with more messages, and what came already, until call_resume.
void call_pause(call *c);
void call_resume(call *c);

#endif

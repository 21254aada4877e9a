// One remote procedure call: an HTTP/2 stream with its request messages, reply messages and status.
// Referenced by its stream until that is closed, by the core while it has a request of the call, by
// a job, and by reply messages until they are sent. A call is handled on the loop thread of its
// connection, or by a job on the thread that runs it while the loop waits; functions say so where
// other threads may call them.
#ifndef NEREID_FRONTEND_GRPC_CALL_H
#define NEREID_FRONTEND_GRPC_CALL_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/refcount.h"
#include "base/slice.h"
#include "frontend/common/net/jobs.h"
#include "frontend/grpc/call/message.h"
#include "frontend/grpc/call/methods.h"
#include "frontend/grpc/call/outgoing.h"
#include "frontend/grpc/transport/conn_timer.h"
#include "frontend/grpc/transport/status.h"
#include "triton/core/tritonserver.h"

#include <protobuf-c/protobuf-c.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define CALL_ARENA_BYTES 4096

typedef struct call call;
typedef struct grpc_connection grpc_connection;
typedef struct grpc_server grpc_server;
typedef struct grpc_loop grpc_loop;

// A field of the request's metadata; both views live as long as the call.
typedef struct metadata {
  slice name; // lower case
  slice value;
} metadata;

struct call {
  grpc_server *server;
  grpc_loop *loop;                  // whose thread handles it
  grpc_connection *connection;      // NULL once the stream is closed; loop thread
  grpc_connection *kept_connection; // the same, referenced as long as the call lives
  int32_t stream_id;
  refcount references;
  call *next_woken; // list of the loop

  const method *method; // NULL: there is none of that name
  metadata *metadata;
  size_t metadata_count;
  size_t metadata_bytes; // as HPACK counts them
  slice path;
  slice authority;
  bool is_post;
  bool is_grpc;          // by its content-type
  message_coding coding; // of compressed request messages
  message_coding reply_coding;
  uint64_t deadline_ns; // on the monotonic clock; 0: none
  conn_timer deadline;

  message_reader reader; // puts request messages together
  message *message;      // the complete message of a unary call, owned
  void (*take_message)(call *c, message *message_owned); // of a streaming call
  void (*half_close)(call *c);                           // the same, after the last message
  outgoing *first_outgoing;                              // replies that HTTP/2 has not taken yet
  outgoing *last_outgoing;
  size_t outgoing_bytes; // of them
  size_t outgoing_count;
  bool paused;         // of a streaming call: no more messages now
  uint64_t moved_ns;   // when bytes of a request message came last
  size_t held_window;  // bytes
  buffer held;         // what came nevertheless; the window does not know of it yet
  size_t held_read;    // bytes of it that were
  bool is_foreign;     // it is HTTP, but not gRPC
  size_t foreign_sent; // bytes of the text that says so
  slice odd_coding;    // grpc-encoding, if it is none that is known
  bool half_closed;    // the client sends no more
  bool replied;        // the header is given to HTTP/2
  bool ended;          // the status is given to HTTP/2, or nobody would get it
  grpc_status end_status;
  const char *end_failure; // escaped
  bool dispatched;         // the handler ran
  bool refused;            // messages that still come are dropped

  bool in_job;             // what follows is the job's
  grpc_status status;      // of the end
  const char *failure;     // its text, escaped, in the arena; NULL: none
  const char *load_report; // of ORCA, sent with the status; in the arena, or NULL
  bool finished;           // status is decided
  outgoing *reply;         // of a unary call, NULL until made

  call *previous, *next; // all of the connection
  struct job queued;
  void (*job)(call *c);
  void (*woken)(call *c);     // what the loop does once it is woken (grpc_loop_wake_call)
  bool late;                  // its last message came when the server was stopping
  bool working;               // a worker has a message of it
  atomic_bool worked;         // no longer
  void (*work_done)(call *c); // what the loop does then
  message *unpacked;          // by a worker
  message_fault unpack_fault;
  struct grpc_inference *filling;   // its message is being read
  atomic_bool wanted;               // is in the loop's list
  struct grpc_inference *inference; // of ModelInfer
  struct grpc_inference *answered;  // the same, when it is over
  struct infer_stream *stream;      // of ModelStreamInfer
  struct health_watch *watch;       // of Watch, in the arena
  void (*cancelled)(call *c); // the client left or the deadline passed; NULL: nothing to cancel
  uint64_t began_ns;          // when the stream began
  size_t bytes_in;            // of request messages
  size_t bytes_out;           // of reply messages

  arena arena;
  char arena_memory[CALL_ARENA_BYTES];
};

void call_ref(call *c);   // any thread
void call_unref(call *c); // any thread

// The request's metadata of that name (lower case); size 0 and no data when absent.
slice call_metadata(const call *c, const char *name);

// --- For handlers of unary methods: exactly one reply or failure; the first counts

// The request message, which lives as long as the call.
slice call_request(const call *c);

// Replies with the packed message and OK.
void call_reply_message(call *c, const ProtobufCMessage *reply);

// Ends the call with a status and a text, which is cut and escaped as errors are.
void call_fail(call *c, grpc_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// The same from an error, which is released; false for NULL.
bool call_fail_if(call *c, TRITONSERVER_Error *failure_owned);
bool call_fail_if_error(call *c, error *failure_owned);

// Runs `job` on a thread of the pool: for what may block. The call may be replied to in there. What
// the handler does not do in a job must not take long.
void call_run_job(call *c, jobs *pool, void (*job)(call *c));

#endif

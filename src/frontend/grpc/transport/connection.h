// A client's connection: socket, TLS, HTTP/2 session (nghttp2), and what waits to be sent. Loop
// thread, unless a function says otherwise. Referenced by its loop until it is closed, and by its
// calls, which may outlive it.
#ifndef NEREID_FRONTEND_GRPC_CONNECTION_H
#define NEREID_FRONTEND_GRPC_CONNECTION_H

#include "base/refcount.h"
#include "frontend/common/net/peer.h"
#include "frontend/grpc/transport/conn_timer.h"
#include "frontend/grpc/transport/output.h"
#include "frontend/grpc/transport/wire.h"
#include <nghttp2/nghttp2.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define CONNECTION_MAX_STREAMS  1024u
#define CONNECTION_STREAM_BYTES (1u << 20)  // window of one stream
#define CONNECTION_BYTES        (16u << 20) // window of all of them
#define CONNECTION_FRAME_BYTES  (256u << 10)
#define CONNECTION_HEADER_BYTES (16u << 10) // of one call's metadata

typedef struct call call;
typedef struct grpc_server grpc_server;
typedef struct grpc_loop grpc_loop;

typedef struct grpc_connection grpc_connection;
struct grpc_connection {
  grpc_server *server;
  grpc_loop *loop;
  refcount references;
  grpc_connection *previous, *next; // all of the loop
  grpc_connection *next_marked;     // those with something to send
  bool marked;
  bool closed;
  wire wire;
  nghttp2_session *session;
  output output;
  bool watches_output;

  bool is_local;              // the client is on this machine
  bool is_unix;               // at a Unix socket
  char peer[PEER_TEXT_BYTES]; // its address

  call *calls; // list of the open ones
  size_t call_count;
  size_t used;                 // calls, requests and replies it has had
  size_t unsent;               // bytes of replies that HTTP/2 has not taken yet, of all calls
  _Atomic uint32_t alive;      // calls that exist, closed streams' ones too
  _Atomic uint32_t inferences; // the same of inferences

  bool established;  // the preface came
  uint64_t left_ns;  // when the client was asked to go; 0: it was not
  bool leaving;      // it got to know which calls are taken yet
  bool ending;       // all is sent; what still comes is dropped until the client closes
  uint64_t ended_ns; // since then
  bool failed;       // nothing more is read; what HTTP/2 has to say about it is still sent
  uint64_t began_ns;
  uint64_t heard_ns;     // when something came last
  bool waits;            // for the client to take output
  uint64_t moved_ns;     // when some moved last, or there was none
  uint64_t pinged_ns;    // when a sign was asked for; 0: not waiting for one
  unsigned pings;        // that it has yet to answer
  uint64_t ping_came_ns; // the client's last
  unsigned strikes;      // of pings
  size_t header_bytes;   // of the header that is coming, as HPACK counts them
  double credit;         // of frames that do nothing
  uint64_t credit_ns;    // when it was counted
  conn_timer timer;      // the next thing to look after
};

// Takes on an accepted, non-blocking socket, which it owns whatever happens. NULL when it cannot.
grpc_connection *grpc_connection_open(grpc_loop *l, int socket_fd,
                                      const struct sockaddr_storage *address);

// The socket is ready.
void grpc_connection_readable(grpc_connection *c);
void grpc_connection_writable(grpc_connection *c);

// Hands everything that can be sent to the socket, and closes the connection if it is over.
void grpc_connection_flush(grpc_connection *c);

// Asks the client to go; its calls go on.
void grpc_connection_leave(grpc_connection *c);

// The client answered a ping.
void grpc_connection_answered(grpc_connection *c);

// One more call is open.
void grpc_connection_call_opened(grpc_connection *c);

// A call begins to receive a message.
void grpc_connection_call_receives(grpc_connection *c);

// Closes the socket, and ends the calls. The connection stays until the loop's pass is over.
void grpc_connection_close(grpc_connection *c);

void grpc_connection_ref(grpc_connection *c);   // any thread
void grpc_connection_unref(grpc_connection *c); // any thread

#endif

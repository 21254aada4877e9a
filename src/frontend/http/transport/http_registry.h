// SPDX-License-Identifier: Apache-2.0
// Internals of connections.h, for http_registry.c, http_connection.c and watcher.c.
#ifndef NEREID_FRONTEND_HTTP_TRANSPORT_HTTP_REGISTRY_H
#define NEREID_FRONTEND_HTTP_TRANSPORT_HTTP_REGISTRY_H

#include "base/list.h"
#include "frontend/common/net/acceptor.h"
#include "frontend/common/net/room.h"
#include "frontend/http/transport/connections.h"
#include "frontend/http/transport/linger.h"

#include <pthread.h>
#include <stdatomic.h>

struct connection {
  connections *all;
  list_node node; // in `open`, guarded by all->mutex
  int socket_fd;
  const loop *owner;
  gnutls_session_t tls; // libmicrohttpd's, or NULL; loop thread
  tls_wire wire;        // moves the session's bytes
  // Data of its epoll events: the descriptor and a generation, so that an event from before the
  // descriptor's reuse is recognized. Never a pointer.
  uint64_t tag;
  _Atomic connection_state state; // set on the loop thread
  _Atomic uint64_t since_ms;      // when the state was entered or progress was made
  request_scan scan;              // of received bytes; loop thread
  uint64_t received_bytes;        // of a body since the last progress; loop thread
  _Atomic bool closing;           // the server closes it: the client's leaving is ignored
  uint64_t acknowledged_bytes;    // of the reply at the last check; watcher only
  int unsent_bytes;               // the same for Unix sockets: bytes in the send queue
  pthread_mutex_t exchange_mutex; // guards what follows
  exchange *exchange;
  bool left;         // the client has left
  exchange *request; // the current one; loop thread
  bool surplus;      // the limit was reached when it was opened; loop thread
};

#define CONNECTION_PAGES      1024
#define CONNECTIONS_OF_A_PAGE 1024

typedef struct connection_page {
  connection *_Atomic of[CONNECTIONS_OF_A_PAGE];
} connection_page;

struct connections {
  const listener_options *options;
  const exchange_calls *calls;
  loops *adopters;
  int epoll_fd;           // the watcher's
  int wake_fd;            // wakes the watcher: some field below has changed
  linger_list *lingering; // watcher and loop threads

  // By descriptor. Changed with the mutex held; a loop looks up its own connections without it.
  connection_page *_Atomic pages[CONNECTION_PAGES];
  library_traits traits;

  pthread_mutex_t mutex; // guards what follows up to the blank line
  list open;
  uint32_t generation; // for the next connection's tag

  _Atomic size_t count; // changed with the mutex held
  _Atomic bool crowded; // accepting is paused because of a limit
  _Atomic bool freed;   // connections_record_freed was called
  room_giver giver;     // sets `giving`
  _Atomic bool giving;  // silent connections must give way
  _Atomic bool stopping;
  _Atomic bool draining;
  _Atomic bool held;         // nobody is accepted yet
  _Atomic unsigned quiet_ms; // set by connections_retire
  _Atomic bool accepted;     // the backlog is accepted, the listening socket closed

  pthread_t watcher;
  bool watched;         // the watcher runs
  acceptor acceptor;    // watcher only, as the next
  bool is_unix;         // a Unix socket
  uint64_t next_ask_ms; // ports are not asked for room before
  size_t peak_count;    // most connections since memory was last given back
  unsigned quiet_ticks; // ticks without a connection since the last arrival
  bool blocks_kept;     // freed blocks are kept until the next tick
};

// A coarse clock: some milliseconds late, but fast.
uint64_t connections_now_ms(void);

void connections_wake(connections *all);

// With so many others open, is a connection only for health and admin requests?
bool connections_are_surplus(const connections *all, int socket_fd, size_t others);

// --- Watcher thread

// The client of the event's connection has left: cancels its exchange.
void connections_client_left(connections *all, uint64_t tag);

// Bytes that must move within a timeout to count as progress.
uint64_t connection_min_bytes(const listener_options *options, unsigned timeout_ms);

#endif

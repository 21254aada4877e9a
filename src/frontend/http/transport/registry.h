// SPDX-License-Identifier: Apache-2.0
// The connections of a listener from within: for registry.c, connection.c and the watcher.
#ifndef NEREID_FRONTEND_HTTP_TRANSPORT_REGISTRY_H
#define NEREID_FRONTEND_HTTP_TRANSPORT_REGISTRY_H

#include "base/list.h"
#include "frontend/common/net/acceptor.h"
#include "frontend/common/net/room.h"
#include "frontend/http/transport/connections.h"
#include "frontend/http/transport/linger.h"

#include <pthread.h>
#include <stdatomic.h>

struct connection {
  connections *all;
  list_node node; // of all, guarded by all->mutex
  int socket_fd;
  const loop *owner;
  gnutls_session_t tls; // libmicrohttpd's, or NULL; loop thread
  tls_wire wire;        // moves its bytes
  // Of its events: the descriptor, and a number that tells an event that was fetched before the
  // descriptor was closed and reused. Never the address of something.
  uint64_t tag;
  _Atomic connection_state state; // set on the loop thread
  _Atomic uint64_t since_ms;      // when the state was entered or last made progress
  request_scan scan;              // of what came; loop thread
  uint64_t received_bytes;        // of a body, since it last made progress; loop thread
  _Atomic bool closing;           // this side wants it closed: a client's leaving means nothing
  uint64_t acknowledged_bytes;    // of the reply, at the last look; watcher only
  int unsent_bytes;               // the same for Unix sockets: what waits for the client
  pthread_mutex_t exchange_mutex; // guards what follows
  exchange *exchange;
  bool left;         // the client has
  exchange *request; // that it is in; loop thread
  bool surplus;      // there were as many as the limit when it was opened; loop thread
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
  int wake_fd;            // a wakeup of the watcher: something of what follows has changed
  linger_list *lingering; // watcher and loop threads

  // Index: descriptor. Changed with the mutex held; a loop looks for its own without.
  connection_page *_Atomic pages[CONNECTION_PAGES];
  library_traits traits;

  pthread_mutex_t mutex; // guards what follows up to the blank line
  list open;
  uint32_t generation; // of the next connection

  _Atomic size_t count; // changed with the mutex held
  _Atomic bool crowded; // accepting was paused because of a limit
  _Atomic bool freed;   // connections_record_freed was called
  room_giver giver;     // asks for what follows
  _Atomic bool giving;  // silent connections are to give way
  _Atomic bool stopping;
  _Atomic bool draining;
  _Atomic bool accepted; // all of them: the listening socket is closed

  pthread_t watcher;
  bool watched;         // there is one
  acceptor acceptor;    // watcher only, as what follows
  bool is_unix;         // a Unix socket
  size_t peak_count;    // of connections since memory was given back
  unsigned quiet_ticks; // looks without a connection since the last one came
  bool blocks_kept;     // memory waits for the next tick
};

// Coarse: a few milliseconds old, a few nanoseconds to get.
uint64_t connections_now_ms(void);

void connections_wake(connections *all);

// Is a connection beside so many others one of those that are for health and admin requests only?
bool connections_are_surplus(const connections *all, int socket_fd, size_t others);

// --- Watcher thread

// The client of the connection that the event speaks of has left: cancels what nobody waits for
// now.
void connections_client_left(connections *all, uint64_t tag);

// What must move in a whole timeout to count as progress.
uint64_t connection_min_bytes(const listener_options *options, unsigned timeout_ms);

#endif

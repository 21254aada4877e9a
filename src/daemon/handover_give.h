// SPDX-License-Identifier: Apache-2.0
// The running server's side of an upgrade (docs/upgrading.md): it waits at --upgrade-address for a
// new server, and hands its listening sockets over. Until the new one says that it serves, this one
// goes on as if nobody had asked. Main thread, which watches the descriptors and never waits here
// except for the other side to read.
#ifndef NEREID_DAEMON_HANDOVER_GIVE_H
#define NEREID_DAEMON_HANDOVER_GIVE_H

#include "daemon/handover_link.h"
#include "daemon/ports.h"

#include <poll.h>

#define HANDOVER_WATCHED 2 // descriptors

#define HANDOVER_SOCKET_NAME "upgrade" // of the upgrade address's own socket

typedef enum handover_stage {
  HANDOVER_NONE,    // nobody asks
  HANDOVER_ASKED,   // connected, has said nothing
  HANDOVER_LOADING, // has the sockets
  HANDOVER_BEGINS,  // has everything, is about to serve
  HANDOVER_DONE,    // serves; this server is to drain
} handover_stage;

typedef struct handover_giver {
  ports *ports;         // borrowed
  listen_socket socket; // the upgrade address; -1: none
  handover_link link;   // to the new server
  handover_stage stage;
} handover_giver;

#define HANDOVER_NO_GIVER ((handover_giver){.socket.socket_fd = -1, .link.fd = -1})

// Listens at the flags' upgrade address, if there is one. `handed`: sockets of the server that ran
// before, of which it takes its own; NULL: none.
error *handover_giver_open(handover_giver *g, ports *p, handover_sockets *handed);

// What to poll; a descriptor may be -1.
void handover_giver_watch(const handover_giver *g, struct pollfd watched[HANDOVER_WATCHED]);

// Handles what poll has found. `busy`: why no upgrade can begin now, as in "the server <busy>";
// NULL: it can. True when another server has taken over.
bool handover_giver_hear(handover_giver *g, const struct pollfd watched[HANDOVER_WATCHED],
                         const char *busy);

// The server stops: no upgrade any more. A new server that has the sockets keeps them and serves
// when it is ready; files of Unix sockets stay for it. Idempotent.
void handover_giver_stop(handover_giver *g);

#endif

// SPDX-License-Identifier: Apache-2.0
// Descriptors, which all ports, workers and loads of the process share. Clients' connections get
// those below a bound; the rest is kept for metrics, health, admin requests, workers and loads. The
// kernel gives out the lowest free descriptor, so its number tells how many are open. Where there
// is no room, each port closes connections that have never sent a byte.
#ifndef NEREID_FRONTEND_COMMON_NET_ROOM_H
#define NEREID_FRONTEND_COMMON_NET_ROOM_H

#include "base/list.h"

#include <stdbool.h>
#include <stddef.h>

// Users of descriptors, each with its own bound.
typedef enum room_class {
  ROOM_CLIENTS, // the ports for inference
  ROOM_KEPT,    // metrics, admin, and connections that HTTP takes for health and admin requests
} room_class;

// How many of `all` descriptors may be open when a connection of class `who` comes.
size_t room_bound(size_t all, room_class who);

// Is the descriptor `number`, the lowest that was free, within the bound? Any thread.
bool room_has(room_class who, int number);

// Would the next descriptor be within the bound? `last` is the caller's newest: while it is far
// below the bound, the system is not asked. Any thread.
bool room_is_left(room_class who, int last);

// How many silent connections a port (gRPC: each of its loops) closes at a time, the oldest first,
// and how long each must have been silent: a new client is about to send something.
#define ROOM_GIVEN     16
#define ROOM_SILENT_MS 1000
// In a crowd, when more than ROOM_GIVEN clients wait to be accepted, an HTTP port closes as many
// connections as clients wait, each silent for this long, and repeats it as often. A client's first
// bytes follow its connection at once.
#define ROOM_CROWD_MS 100

// Has the peer of a TCP socket never sent a byte?
bool room_is_silent(int socket_fd);

// A port that can close silent connections.
typedef struct room_giver {
  list_node node;
  void (*give)(struct room_giver *g); // closes some soon; called with a lock held on any thread,
                                      // must not wait
} room_giver;

void room_join(room_giver *g);
void room_leave(
    room_giver *g); // `give` is not called after this returns; also for a giver that never joined

// Asks all ports to close silent connections. Any thread.
void room_ask(void);

#endif

// SPDX-License-Identifier: Apache-2.0
// Descriptors, which all ports, workers and loads of the process share. A connection of a client
// may have one below a bound; those above it are left for what has to go on: metrics, health, admin
// requests, workers, loads. A new descriptor is the lowest one that is free, so its number says how
// many there are. Where there is no room, connections that have never sent a byte give way, of
// whichever port.
#ifndef NEREID_FRONTEND_COMMON_NET_ROOM_H
#define NEREID_FRONTEND_COMMON_NET_ROOM_H

#include "base/list.h"

#include <stdbool.h>
#include <stddef.h>

// Who may have how many of the descriptors.
typedef enum room_class {
  ROOM_CLIENTS, // the ports for inference
  ROOM_KEPT,    // metrics, admin, and connections that HTTP takes for health and admin requests
} room_class;

// So many descriptors of `all` may be open when one of that class comes.
size_t room_bound(size_t all, room_class who);

// Is a descriptor of that number, which is the lowest that was free, within the bound? Any thread.
bool room_has(room_class who, int number);

// Would the next one be? `last` is the number of the last one that the caller had: while that is
// far below, the system is not asked. Any thread.
bool room_is_left(room_class who, int last);

// How many silent connections a port (gRPC: each of its loops) closes at a time, the oldest first;
// and how long each has been silent: a client that has just come is about to say something.
#define ROOM_GIVEN     16
#define ROOM_SILENT_MS 1000

// Has the other end of a TCP socket never sent a byte?
bool room_is_silent(int socket_fd);

// A port whose silent connections can give way.
typedef struct room_giver {
  list_node node;
  void (*give)(struct room_giver *g); // closes some soon; any thread, does not wait
} room_giver;

void room_join(room_giver *g);
void room_leave(
    room_giver *g); // not asked any more once this has returned; also of none that joined

// Asks all ports to have silent connections give way. Any thread.
void room_ask(void);

#endif

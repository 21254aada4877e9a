// SPDX-License-Identifier: Apache-2.0
// What two servers say to each other at an upgrade (docs/upgrading.md): JSON objects, one after the
// other, each with a NUL behind it. They come from another process: nothing in them is trusted.
#ifndef NEREID_DAEMON_HANDOVER_MESSAGE_H
#define NEREID_DAEMON_HANDOVER_MESSAGE_H

#include "base/error.h"
#include "base/slice.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HANDOVER_PROTOCOL      1
#define HANDOVER_SOCKETS       8
#define HANDOVER_NAME_BYTES    16         // of a socket's name, with its NUL
#define HANDOVER_MESSAGE_BYTES (8u << 20) // 4096 regions of clients fit

// A listening socket of the running server.
typedef struct handover_socket {
  char name[HANDOVER_NAME_BYTES]; // as of a service manager's socket, or "upgrade"
  bool by_manager;                // the service manager opened it: its address is not the flags'
  uint64_t device, file;          // identity of a Unix socket's file; 0: it has none
  int fd;                         // -1: taken
} handover_socket;

typedef struct handover_sockets {
  size_t count;
  handover_socket of[HANDOVER_SOCKETS];
} handover_sockets;

// The object in `text`, or INVALID_ARG. The caller owns it.
error *handover_message_read(slice text, json_t **message);

// The value of the message's first member is what it is about; INVALID_ARG with the other side's
// reason if it refuses, or with what was expected.
error *handover_message_expect(const json_t *message, const char *kind);

json_t *handover_print_sockets(const handover_sockets *sockets); // NULL: no memory

// The descriptors are the caller's; there must be as many as sockets. INVALID_ARG for anything that
// handover_print_sockets would not print, and for a name that comes twice.
error *handover_read_sockets(const json_t *message, const int *fds, size_t fd_count,
                             handover_sockets *sockets);

// The socket of that name that nobody has taken, or NULL.
handover_socket *handover_find(handover_sockets *sockets, const char *name);

// Closes what is not taken.
void handover_sockets_fini(handover_sockets *sockets);

#endif

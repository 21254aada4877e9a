// SPDX-License-Identifier: Apache-2.0
// Opens TCP and Unix sockets for all listeners. An address is a machine's ("0.0.0.0", "::",
// "[::1]", a host's name), "unix:<path>", or "unix:@<name>" (abstract: a name without a file).
#ifndef NEREID_FRONTEND_COMMON_NET_LISTEN_H
#define NEREID_FRONTEND_COMMON_NET_LISTEN_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#define LISTEN_UNIX_PREFIX "unix:"

// Connections that the kernel keeps until they are accepted.
#define LISTEN_BACKLOG 1024

typedef struct listen_options {
  char *address;      // borrowed; may be NULL with `given`, which has an address
  int given;          // a bound socket that listen_open takes over, even if it fails; 0: none
  unsigned port;      // 0: any free port; Unix sockets ignore it
  bool reuse_port;    // share the port with other processes (SO_REUSEPORT)
  unsigned unix_mode; // permissions of a Unix socket's file; 0: the umask decides
} listen_options;

typedef struct listen_socket {
  int socket_fd; // -1 once it is closed
  char *where;   // "<address>:<port>" or "unix:…", for the log; owned
  bool is_unix;
  char *path;            // a Unix socket's file, else NULL; owned
  uint64_t device, file; // identity of that file
} listen_socket;

// Binds and listens; accepted sockets inherit TCP_NODELAY. Replaces the file of a Unix socket that
// nobody listens on any more; leaves the file of a given socket alone, now and at the end. Errors:
// UNAVAILABLE "Socket '<where>' already in use ", INVALID_ARG for an address that is none and a
// given descriptor that is no stream socket, UNAVAILABLE with the system's reason otherwise. `s`
// needs listen_fini even after an error.
error *listen_open(const listen_options *options, listen_socket *s);

// Binds a TCP port without listening: no other process can take it (except with `reuse_port`), and
// connects are refused. The caller owns the descriptor, to pass it as `given`. Errors as above.
error *listen_reserve(const listen_options *options, int *socket_fd);
bool listen_is_unix(const char *address);

// The address of `name`, which follows LISTEN_UNIX_PREFIX. INVALID_ARG for an empty or a long one.
error *listen_unix_address(const char *name, struct sockaddr_un *address, socklen_t *size);

// Removes the socket's file, so that nobody connects any more, if it is still the one that
// listen_open made. Idempotent. The descriptor stays open.
void listen_remove(listen_socket *s);

// Closes the descriptor. Idempotent.
void listen_close(listen_socket *s);

// Removes, closes and frees.
void listen_fini(listen_socket *s);

#endif

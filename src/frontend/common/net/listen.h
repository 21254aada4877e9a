// SPDX-License-Identifier: Apache-2.0
// Opens listening sockets, for all listeners: TCP and Unix. An address is that of a machine
// ("0.0.0.0", "::", "[::1]", a host's name), "unix:<path>" or "unix:@<name>" (abstract: a name
// without a file).
#ifndef NEREID_FRONTEND_COMMON_NET_LISTEN_H
#define NEREID_FRONTEND_COMMON_NET_LISTEN_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

// Connections that wait to be accepted.
#define LISTEN_BACKLOG 1024

typedef struct listen_options {
  char *address;      // borrowed; NULL with `given`: it says itself where it is
  int given;          // a bound socket that listen_open takes over, whatever it returns; 0: none
  unsigned port;      // 0: any free port; of no meaning to Unix sockets
  bool reuse_port;    // share the port with other processes (SO_REUSEPORT)
  unsigned unix_mode; // permissions of a Unix socket's file; 0: as the umask says
} listen_options;

typedef struct listen_socket {
  int socket_fd; // -1 once it is closed
  char *where;   // "<address>:<port>" or "unix:…", for the log; owned
  bool is_unix;
  char *path;            // of a Unix socket's file, else NULL; owned
  uint64_t device, file; // which file that is
} listen_socket;

// Binds and listens, with TCP_NODELAY inherited by what is accepted. The file of a Unix socket that
// nobody listens on any more is replaced; that of a given one is left alone, now and at the end.
// Errors: UNAVAILABLE "Socket '<where>' already in use ", INVALID_ARG for an address that is none
// and a given descriptor that is no stream socket, UNAVAILABLE with the system's reason otherwise.
// `s` needs listen_fini whatever happens.
error *listen_open(const listen_options *options, listen_socket *s);

// Binds a TCP port without listening: nobody else can have it (but with `reuse_port`), and who
// connects is refused. The descriptor is the caller's, for `given`. Errors as above.
error *listen_reserve(const listen_options *options, int *socket_fd);
bool listen_is_unix(const char *address);

// Removes the socket's file if it is still the one that listen_open made, so that nobody connects
// any more; may be called again. The descriptor stays open.
void listen_remove(listen_socket *s);

// Closes the descriptor; may be called again.
void listen_close(listen_socket *s);

// Removes, closes and frees.
void listen_fini(listen_socket *s);

#endif

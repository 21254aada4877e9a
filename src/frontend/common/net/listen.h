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
  char *address; // borrowed; may be NULL with `given`, which has an address
  int given;     // a bound socket that listen_open takes over, even if it fails; 0: none
  uint64_t given_device, given_file; // of the file of a given Unix socket, which another process
                                     // may leave to this one (listen_own); 0: it stays alone
  unsigned port;                     // 0: any free port; Unix sockets ignore it
  bool reuse_port;                   // share the port with other processes (SO_REUSEPORT)
  unsigned unix_mode;                // permissions of a Unix socket's file; 0: the umask decides
} listen_options;

typedef struct listen_socket {
  int socket_fd; // -1 once it is closed
  char *where;   // "<address>:<port>" or "unix:…", for the log; owned
  bool is_unix;
  char *path;            // a Unix socket's file, else NULL; owned
  uint64_t device, file; // identity of that file
  bool lent;             // it is another process's file: not removed here
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

// Whether a listening socket is at the address that `options` ask for, which has a port of 0 for
// any. `device` and `file` are those of a Unix socket's file, as the owner of the socket knows it.
bool listen_is_at(const listen_options *options, int socket_fd, uint64_t device, uint64_t file);

// The socket's file passes from the process that lends it to the one that owns it from now on, and
// removes it. A socket without a file is left as it is.
void listen_lend(listen_socket *s);
void listen_own(listen_socket *s);

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

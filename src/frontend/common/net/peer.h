// SPDX-License-Identifier: Apache-2.0
// Who is at the other end of a socket, and what a request tells of a way that led through others:
// for all listeners (docs/security.md). Pure.
#ifndef NEREID_FRONTEND_COMMON_NET_PEER_H
#define NEREID_FRONTEND_COMMON_NET_PEER_H

#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#define PEER_TEXT_BYTES 64

// Is the client on this machine, as far as its address tells: loopback, or a Unix socket?
bool peer_is_local(const struct sockaddr *address);

// The value of Host or :authority is "localhost" or a loopback address, written as clients write
// them, with a port or without. Whatever else there is in it makes it another machine's.
bool peer_names_this_machine(slice authority);

// Does a proxy or gateway put a header (or metadata) field of this name, in any case, into requests
// of others, who may be anywhere?
bool peer_is_proxy_field(slice name);

// Writes "<address>:<port>", "[<address>]:<port>" or "unix" into `text`.
void peer_print(const struct sockaddr *address, char *text, size_t size);

#endif

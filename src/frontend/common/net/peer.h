// SPDX-License-Identifier: Apache-2.0
// Where a client is: the address of its socket, and the header fields that a proxy adds. For all
// listeners (docs/security.md). Pure.
#ifndef NEREID_FRONTEND_COMMON_NET_PEER_H
#define NEREID_FRONTEND_COMMON_NET_PEER_H

#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#define PEER_TEXT_BYTES 64

// Is the address on this machine: loopback, or a Unix socket?
bool peer_is_local(const struct sockaddr *address);

// Is the value of Host or :authority "localhost" or a loopback address, with a port or without?
// Anything else in it makes it another machine's.
bool peer_names_this_machine(slice authority);

// Do proxies or gateways add a header or metadata field of this name (in any case) to the requests
// that they forward?
bool peer_is_proxy_field(slice name);

// Writes "<address>:<port>", "[<address>]:<port>" or "unix" into `text`.
void peer_print(const struct sockaddr *address, char *text, size_t size);

#endif

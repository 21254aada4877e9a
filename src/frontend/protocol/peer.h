// Who is at the other end of a socket, for all listeners. Pure.
#ifndef NEREID_FRONTEND_PROTOCOL_PEER_H
#define NEREID_FRONTEND_PROTOCOL_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#define PEER_TEXT_BYTES 64

// Is the client on this machine, as far as its address tells: loopback, or a Unix socket?
bool peer_is_local(const struct sockaddr *address);

// Writes "<address>:<port>", "[<address>]:<port>" or "unix" into `text`.
void peer_print(const struct sockaddr *address, char *text, size_t size);

#endif

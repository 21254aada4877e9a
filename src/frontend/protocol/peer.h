// Who is at the other end of a socket, for all listeners. Pure.
#ifndef NEREID_FRONTEND_PROTOCOL_PEER_H
#define NEREID_FRONTEND_PROTOCOL_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#define PEER_TEXT_BYTES 64

// Is the client on this machine, as far as its address tells: loopback, or a Unix socket?
bool peer_is_local(const struct sockaddr *address);

// Names of the header fields by which a proxy says that it speaks for somebody else, who may be
// anywhere: in lower case, NULL at the end.
extern const char *const peer_proxy_headers[];

// Writes "<address>:<port>", "[<address>]:<port>" or "unix" into `text`.
void peer_print(const struct sockaddr *address, char *text, size_t size);

#endif

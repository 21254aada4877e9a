// Opens listening sockets, for both listeners of this folder.
#ifndef NEREID_FRONTEND_HTTP_LISTEN_H
#define NEREID_FRONTEND_HTTP_LISTEN_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

// Binds `address`:`port` (0: any free port) and listens, with TCP_NODELAY inherited by what is
// accepted. Errors: UNAVAILABLE "Socket 'a:p' already in use ", INVALID_ARG for an address that is
// none, UNAVAILABLE with the system's reason otherwise.
error *listen_open(const char *address, uint16_t port, bool reuse_port, unsigned backlog,
                   int *socket_fd, uint16_t *bound_port);

#endif

// SPDX-License-Identifier: Apache-2.0
// The connection between two servers at an upgrade: a Unix stream socket that carries messages and
// descriptors (SCM_RIGHTS). Both ends belong to the same user. Main thread.
#ifndef NEREID_DAEMON_HANDOVER_LINK_H
#define NEREID_DAEMON_HANDOVER_LINK_H

#include "base/buffer.h"
#include "base/error.h"
#include "daemon/handover_message.h"

#include <stdbool.h>
#include <sys/types.h>

#define HANDOVER_PATIENCE_MS 60000 // for the other side's answer, and for it to read

typedef struct handover_link {
  int fd;       // -1: none
  pid_t peer;   // the process at the other end
  bool ended;   // the other end has closed, or its process is gone
  buffer input; // not taken yet
  int fds[HANDOVER_SOCKETS];
  size_t fd_count; // received and not taken; the link closes them at its end
} handover_link;

#define HANDOVER_NO_LINK ((handover_link){.fd = -1})

// Takes over a connected socket. UNAVAILABLE when the other end belongs to another
// user; the socket is then closed.
error *handover_link_open(handover_link *link, int fd_owned);
void handover_link_close(handover_link *link); // also of one that is not open

// Sends within HANDOVER_PATIENCE_MS. UNAVAILABLE when the other end is gone or does not read.
error *handover_link_send(handover_link *link, json_t *message_owned, const int *fds,
                          size_t fd_count);

// Reads what is there, without waiting. UNAVAILABLE at the end of the stream (`ended`).
error *handover_link_read(handover_link *link);

// Whether the other end is still there: has neither closed nor died.
bool handover_link_is_alive(const handover_link *link);

// The next message, complete; NULL while it is not. INVALID_ARG if it is none or too long.
error *handover_link_take(handover_link *link, json_t **message);

// Sends, waits for the answer and checks that it is of this kind (handover_message_expect). The
// other end may have refused already, and closed: then its reason is the error. The caller owns
// *answer; NULL after an error.
error *handover_link_ask(handover_link *link, json_t *message_owned, const char *kind,
                         json_t **answer);

#endif

// SPDX-License-Identifier: Apache-2.0
// The new server's side of an upgrade (--upgrade, docs/upgrading.md). Main thread.
#ifndef NEREID_DAEMON_HANDOVER_TAKE_H
#define NEREID_DAEMON_HANDOVER_TAKE_H

#include "daemon/handover_give.h"

typedef struct handover_taker {
  handover_link link;       // to the running server; none: it has ended, or there was none
  handover_sockets sockets; // its sockets, until they are taken
  bool takes;               // there was a running server
} handover_taker;

#define HANDOVER_NO_TAKER ((handover_taker){.link.fd = -1})

// Asks the server at `address` for its sockets. Without a server there it does nothing, and logs
// that. UNAVAILABLE with that server's reason when it refuses.
error *handover_taker_ask(handover_taker *t, const char *address);

// This server is ready. Takes over what clients have registered; if the running server has ended
// meanwhile, there is nothing to take over. UNAVAILABLE when it refuses after all.
error *handover_taker_begin(handover_taker *t, shared_memory *memory);

// This server accepts: the running one is to drain. Its silence does not matter any more.
void handover_taker_finish(handover_taker *t, handover_giver *own);

// Ends the connection, and closes the sockets that nobody has taken. Idempotent.
void handover_taker_fini(handover_taker *t);

#endif

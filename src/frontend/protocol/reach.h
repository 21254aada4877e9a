// What strangers, clients on other machines, can do at a listener, said in the log when it starts
// (docs/security.md). The thread that starts the listener.
#ifndef NEREID_FRONTEND_PROTOCOL_REACH_H
#define NEREID_FRONTEND_PROTOCOL_REACH_H

#include "frontend/protocol/listen.h"
#include "frontend/protocol/restricted.h"
#include "frontend/protocol/shared_memory.h"

#include <stdbool.h>

typedef struct reach {
  const restrictions *restricted;
  const shared_memory *memory; // of clients
  bool admin_local_only;       // admin categories are for clients on this machine
  bool allow_model_upload;     // loads may bring code from other machines
} reach;

// Does the address leave out clients on other machines? To be asked while the socket is open.
bool reach_is_loopback_only(const listener *l);

// Logs a line with the admin categories that strangers can use without a key at the listener, and
// warnings where these include code or memory.
void reach_log(const reach *r, const listener *l, bool loopback_only);

#endif

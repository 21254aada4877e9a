// SPDX-License-Identifier: Apache-2.0
// Polling: models that come, go or change in the repositories do so in the server. One poller for a
// server under --model-control-mode=poll, with a thread of its own unless whoever embeds the server
// calls poller_poll. The rules are poll_policy.h's.
#ifndef NEREID_CORE_POLLER_H
#define NEREID_CORE_POLLER_H

#include "base/error.h"
#include "core/server.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct poller poller;

// After the start-up loads are over. A poll each `interval_seconds`; 0: no thread.
error *poller_new(server *s, unsigned interval_seconds, poller **result);

// Polls now and waits for the loads, which are logged where they fail. What still changes is left
// to the next call. Blocks; any thread.
void poller_poll(poller *p);

// Nothing begins any more; the poll under way and the thread end. Waits for that until the
// monotonic moment `deadline_ns`: false when it has come.
bool poller_stop(poller *p, uint64_t deadline_ns);
// When it has stopped in time and the server's load pool has ended. NULL does nothing.
void poller_free(poller *p);

#endif

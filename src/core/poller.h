// SPDX-License-Identifier: Apache-2.0
// Polling: models that come, go or change in the repositories do so in the server. One poller for a
// server under --model-control-mode=poll. It has a thread of its own, unless the embedding program
// calls poller_poll. The rules are poll_policy.h's.
#ifndef NEREID_CORE_POLLER_H
#define NEREID_CORE_POLLER_H

#include "base/error.h"
#include "core/server.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct poller poller;

// Called after the start-up loads. Polls each `interval_seconds`; 0: no thread.
error *poller_new(server *s, unsigned interval_seconds, poller **result);

// Polls now and waits for the loads; failures are logged. Models that still change are left to the
// next call. Blocks; any thread.
void poller_poll(poller *p);

// Nothing begins any more; waits for the end of the poll under way and of the thread until the
// monotonic moment `deadline_ns`. False: that moment has come.
bool poller_stop(poller *p, uint64_t deadline_ns);
// Called after a stop in time and the end of the server's load pool. NULL does nothing.
void poller_free(poller *p);

#endif

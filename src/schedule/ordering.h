// SPDX-License-Identifier: Apache-2.0
// preserve_ordering: responses leave in the order in which their requests left the queue, in
// whatever order instances finish. Each request gets a slot when it leaves the queue; responses in
// a slot wait until all earlier slots are complete. Slots and payloads are embedded in requests and
// responses: nothing is allocated. Any thread.
#ifndef NEREID_SCHEDULE_ORDERING_H
#define NEREID_SCHEDULE_ORDERING_H

#include "base/error.h"
#include "base/list.h"

#include <stdbool.h>

typedef struct ordering ordering;

// One response on its way; the sender finds its own object around it.
typedef struct ordering_payload {
  list_node node; // the ordering's own
  bool final;     // set by ordering_deliver: the last one of its slot
} ordering_payload;

// One request's slot. All fields are the ordering's own; zeroed when no slot is reserved.
typedef struct ordering_slot {
  list_node node;
  list payloads;
  bool reserved;
} ordering_slot;

// Sends a payload. Called in order, by one thread at a time, with no lock held. May free the
// payload and, at the final one, the slot, which the ordering has then forgotten.
typedef void ordering_send(void *context, ordering_payload *payload_owned);

error *ordering_new(ordering_send *send, void *context, ordering **o);
void ordering_free(ordering *o); // no slot is reserved, no thread is in ordering_deliver

// Reserves the next slot. The scheduler calls this under its lock, in queue order; a cached answer
// gets its slot when it is found.
void ordering_reserve(ordering *o, ordering_slot *slot);

// Delivers the next response of a slot; the last one is `final`. Runs `send` at once if the slot is
// at the head and no other thread is sending; else the sending thread, or the one that completes
// the previous slot, sends it. At the head, responses of a decoupled model pass at once, before the
// final one.
void ordering_deliver(ordering *o, ordering_slot *slot, ordering_payload *payload_owned,
                      bool final);

#endif

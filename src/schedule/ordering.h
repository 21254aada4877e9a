// SPDX-License-Identifier: Apache-2.0
// preserve_ordering: responses leave in the order in which their requests were dispatched, however
// the instances finish. A slot is reserved for each request when it leaves the queue; what is
// delivered to a slot waits until all slots before it are complete. Slots and payloads are embedded
// in requests and responses: nothing is allocated. Any thread.
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

// Sends a payload. Called with no lock held, by one thread at a time, in order. When it runs for
// the final payload the ordering no longer knows the slot: the callback may free payload and slot.
typedef void ordering_send(void *context, ordering_payload *payload_owned);

error *ordering_new(ordering_send *send, void *context, ordering **o);
void ordering_free(ordering *o); // no slot reserved, nobody in ordering_deliver

// Reserves the next slot. The scheduler calls this under its lock, in queue order; an answer that
// is found in the cache gets its slot then.
void ordering_reserve(ordering *o, ordering_slot *slot);

// Hands in the next response of a slot; exactly one of a slot is final, and nothing follows it.
// Runs `send` for it at once when the slot is at the head and no other thread is sending; else the
// thread that is sending, or the one that completes the slot before, does so. Responses of a
// decoupled model at the head pass through without waiting for the final one.
void ordering_deliver(ordering *o, ordering_slot *slot, ordering_payload *payload_owned,
                      bool final);

#endif

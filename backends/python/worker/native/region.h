// SPDX-License-Identifier: Apache-2.0
// This worker's own region: blocks for what it sends, and when they may be used again. A message
// that was sent names memory which is the host's to read until it has finished with the message;
// blocks, and references to arrays whose memory the message names, are held until then.
#ifndef NEREID_REGION_H
#define NEREID_REGION_H

#include "native.h"

// What a message needs until the host has finished with it.
typedef struct region_loan {
  uint64_t offset; // a block to release; UINT64_MAX: none
  PyObject *keeps; // what to let go of; may be NULL
} region_loan;

// A block, after taking back what the host has finished with. False with MemoryError set.
bool region_allocate(size_t size, uint64_t *offset);

// Sends and holds the loan, which is taken over, until the message is finished with. Lets go of the
// GIL when it must wait for room. `count`: the message's number, for region_await. False with an
// exception set: the channel is closed.
bool region_send(channel_ring ring, const channel_message *message, region_loan loan,
                 uint64_t *count);

// Sends; the loan stays the caller's.
bool region_send_plain(channel_ring ring, const channel_message *message);

// Waits, without the GIL, until the host has finished with that many messages of the ring.
void region_await(channel_ring ring, uint64_t count);

// Ends a loan now.
void region_end_loan(region_loan loan);

// Takes back what the host has finished with.
void region_reclaim(void);

// Whether loans are out.
bool region_has_loans(void);

#endif

// SPDX-License-Identifier: Apache-2.0
// This worker's own region: blocks for messages, and when they may be reused. The host reads the
// memory that a message names until it has finished with the message; until then a loan keeps that
// memory. All functions need the GIL.
#ifndef NEREID_NATIVE_REGION_H
#define NEREID_NATIVE_REGION_H

#include "native.h"

// Resources that a message needs until the host has finished with it.
typedef struct region_loan {
  uint64_t offset; // a block to release; UINT64_MAX: none
  PyObject *keeps; // references to drop; may be NULL
} region_loan;

// Allocates a block, after taking back finished loans. False with MemoryError set.
bool region_allocate(size_t size, uint64_t *offset);

// Sends the message and takes over the loan, which ends when the host has finished with the
// message, or at once if sending fails. Releases the GIL while it waits for room. `count`: for
// region_await. False with an exception set: the channel is closed.
bool region_send(channel_ring ring, const channel_message *message, region_loan loan,
                 uint64_t *count);

// The same without a loan.
bool region_send_plain(channel_ring ring, const channel_message *message);

// Waits, without the GIL, until the host has finished with the ring's first `count` messages, or
// the channel is closed.
void region_await(channel_ring ring, uint64_t count);

// Ends a loan now.
void region_end_loan(region_loan loan);

// Ends the loans of finished messages, and sends releases that found the ring full (block_flush).
void region_reclaim(void);

// Whether any loan is open.
bool region_has_loans(void);

#endif

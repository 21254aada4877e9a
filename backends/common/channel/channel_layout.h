// SPDX-License-Identifier: Apache-2.0
// The layout of the shared memory: header | rings | host's region | worker's region. Included by
// channel.c, and by tests that play a hostile peer.
#ifndef NEREID_CHANNEL_LAYOUT_H
#define NEREID_CHANNEL_LAYOUT_H

#include "channel.h"
#include "channel_wait.h"

#include <fcntl.h>

#define CHANNEL_VERSION      1
#define CHANNEL_HEADER_BYTES 4096
#define CHANNEL_SLOT_WORDS   8
#define CHANNEL_SEALS        (F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL)

#define CHANNEL_MAGIC UINT64_C(0x6c656e6e61686372)

// Atomic words, since a hostile sender may write while the receiver reads.
typedef struct channel_slot {
  _Atomic uint64_t words[CHANNEL_SLOT_WORDS];
} channel_slot;

typedef struct channel_header {
  uint64_t magic; // the first three are written before the other side exists, which reads them once
  uint64_t version;
  uint64_t region_size;
  struct {
    channel_position sent; // written by the sender
    channel_position done; // written by the receiver; never beyond `sent`
  } rings[CHANNEL_RING_COUNT];
} channel_header;

_Static_assert(sizeof(channel_header) <= CHANNEL_HEADER_BYTES, "the header has a place of its own");
_Static_assert(sizeof(channel_message) <= sizeof(channel_slot), "a message fits");
_Static_assert(sizeof(channel_message) % sizeof(uint64_t) == 0, "a message is whole words");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "atomics between processes");

#endif

// SPDX-License-Identifier: Apache-2.0
// A channel between the server's process (the host) and one worker process: a memfd that both map,
// with four one-way rings of fixed slots and a memory region for each side. It has no name
// anywhere, so nobody else can open it and a crash leaves nothing behind. It knows nothing of
// Python or of inference, and calls nothing of the server's: the same code is linked into the
// backend and into the worker.
//
// Trust: the host believes nothing that it reads here. What it must rely on (positions that it
// writes, blocks in use) is in memory of its own; indices and offsets of the other side are checked
// at each use; the memfd is sealed against growing and shrinking, so that an access never faults.
//
// docs/internals/channel.md has the layout, the costs and the memory order.
#ifndef NEREID_CHANNEL_H
#define NEREID_CHANNEL_H

#include "channel_align.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct channel channel;

// The rings. Each has one direction, any number of sending threads, one receiving thread at a time.
typedef enum channel_ring {
  CHANNEL_WORK,    // host → worker: what the worker's main thread is to do
  CHANNEL_REPLIES, // host → worker: replies to calls
  CHANNEL_ANSWERS, // worker → host: the answer to each piece of work
  CHANNEL_CALLS,   // worker → host: what the worker asks of the server
  CHANNEL_RING_COUNT
} channel_ring;

// What a slot holds. The meaning of all fields is the user's; `offset` and `size` by convention
// name bytes in the sender's region (size 0: none).
typedef struct channel_message {
  uint32_t kind;
  uint32_t flags;
  uint64_t id;
  uint64_t value;
  uint64_t offset;
  uint64_t size;
} channel_message;

typedef enum channel_result {
  CHANNEL_MESSAGE, // there is one
  CHANNEL_TIMEOUT, // none came in time
  CHANNEL_CLOSED,  // this side was closed and nothing is left
  CHANNEL_BROKEN   // the other side wrote positions that cannot be
} channel_result;

#define CHANNEL_RING_SLOTS 1024

// Where a tensor of `size` bytes begins that is to lie at `at` or later: a large one begins a page,
// so that no two share one.
size_t channel_place(size_t at, size_t size);

// Host: makes a channel. A region's size is address space, not memory: pages come when they are
// touched and go back (channel_trim). `region_size` is rounded up to pages. Gives 0 or an errno.
int channel_new(size_t region_size, channel **made);

// Worker: maps the channel behind `descriptor`, which stays the caller's. EPROTO: it is none, or of
// another version.
int channel_attach(int descriptor, channel **made);

// Worker: maps the host's region once more, so that what is written there is this process's own. It
// can be read only as yet; the mapping is the caller's. Gives 0 or an errno.
int channel_map_privately(const channel *self, int descriptor, void **mapped, size_t *size);

// Unmaps and frees. No other thread may use it any more. NULL does nothing.
void channel_free(channel *ended);

// The memfd, to be passed to the worker. Owned by the channel. -1 on the worker's side.
int channel_descriptor(const channel *self);

// Makes every wait on this side return CHANNEL_CLOSED, now and later, once what arrived before has
// been received. Any thread, any number of times.
void channel_close(channel *self);

// --- Sending. Any thread of the sending side.

// Puts the message into the ring and wakes the receiver. False: the ring is full or the channel
// closed.
bool channel_try_send(channel *self, channel_ring ring, const channel_message *message);

// The same, and waits for room. False: closed.
bool channel_send(channel *self, channel_ring ring, const channel_message *message);

// How many messages this side has sent on `ring`, and how many of them the other side has finished
// with (channel_done). The second is the other side's word, held between its last value and the
// first.
uint64_t channel_sent(const channel *self, channel_ring ring);
uint64_t channel_finished(const channel *self, channel_ring ring);

// Waits until the other side has finished with `count` messages. False: closed or broken.
bool channel_await_finished(channel *self, channel_ring ring, uint64_t count);

// --- Receiving. One thread at a time for each ring.

// Waits up to `timeout_us` (negative: for ever) for a message. First looks for a while without
// sleeping, if waits on this ring were short lately and the machine has another processor.
channel_result channel_receive(channel *self, channel_ring ring, int64_t timeout_us,
                               channel_message *message);

// Whether waits for messages of this ring may look before they sleep, as at first. Where messages
// are many and others want the processor, looking takes it from who is waited for, and a sleep lets
// several messages come together.
void channel_look(channel *self, channel_ring ring, bool may_look);

// How long such a look lasts at most; 40 µs unless it is said. A longer one saves waking this side
// where messages are further apart, for the processor that it takes.
void channel_look_for(channel *self, channel_ring ring, int64_t most_us);

// The received message has been dealt with: its slot, and by convention the memory that it names,
// are the sender's again. Exactly once after each CHANNEL_MESSAGE.
void channel_done(channel *self, channel_ring ring);

// --- Memory. Each side allocates in its own region and reads the other's. Any thread.

// A block of this side's region, aligned to CHANNEL_ALIGNMENT, contents undefined. False: no room.
bool channel_allocate(channel *self, size_t size, uint64_t *offset);

// Gives a block back. False when `offset` is not the beginning of a block in use: offsets that the
// other side names may be passed here.
bool channel_release(channel *self, uint64_t offset);

// Where a block of this side is.
void *channel_own(const channel *self, uint64_t offset);

// Whether `address` is in this side's region, and at which offset.
bool channel_is_own(const channel *self, const void *address, uint64_t *offset);

// How much may be in this side's blocks at a time; as long as nothing is said, the whole region.
void channel_limit(channel *self, size_t most);

// `size` bytes at `offset` of the other side's region; NULL when they are not wholly inside. The
// other side can change them at any time: copy what is checked before it is used.
const void *channel_other(const channel *self, uint64_t offset, uint64_t size);

// Gives the pages of free memory in this side's region back to the system, but for the first `keep`
// bytes of it. Returns what it gave back.
size_t channel_trim(channel *self, size_t keep);

// Bytes of this side's region that are in blocks, and that are kept without being in blocks.
void channel_memory(const channel *self, size_t *used, size_t *kept);

#endif

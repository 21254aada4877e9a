// SPDX-License-Identifier: Apache-2.0
// A channel between the server's process (the host) and one worker process: a memfd that both map,
// with four one-way rings of fixed slots and a memory region for each side. It has no name, so no
// other process can open it and a crash leaves nothing behind. It knows nothing about Python or
// inference and calls nothing of the server's: backend and worker link the same code.
//
// Trust: the host does not trust the channel's contents. Positions that the host writes and its
// blocks in use are kept in private memory. Indices and offsets of the other side are checked at
// each use. The memfd is sealed against growing and shrinking, so an access never faults.
//
// docs/internals/channel.md has the layout, the costs and the memory order.
#ifndef NEREID_CHANNEL_H
#define NEREID_CHANNEL_H

#include "channel_align.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct channel channel;

// The rings. Each has one direction, any number of sending threads, and one receiving thread at a
// time.
typedef enum channel_ring {
  CHANNEL_WORK,    // host → worker: work for the worker's main thread
  CHANNEL_REPLIES, // host → worker: replies to calls
  CHANNEL_ANSWERS, // worker → host: the answer to each piece of work
  CHANNEL_CALLS,   // worker → host: requests to the server
  CHANNEL_RING_COUNT
} channel_ring;

// The contents of a slot. The user of the channel defines the fields. By convention `offset` and
// `size` name bytes in the sender's region (size 0: none).
typedef struct channel_message {
  uint32_t kind;
  uint32_t flags;
  uint64_t id;
  uint64_t value;
  uint64_t offset;
  uint64_t size;
} channel_message;

typedef enum channel_result {
  CHANNEL_MESSAGE, // a message was received
  CHANNEL_TIMEOUT, // none came in time
  CHANNEL_CLOSED,  // this side was closed and nothing is left
  CHANNEL_BROKEN   // the other side wrote impossible positions
} channel_result;

#define CHANNEL_RING_SLOTS 1024

// Where to place a tensor of `size` bytes, at `at` or later. A large tensor begins on a page, so
// that two large ones never share a page.
size_t channel_place(size_t at, size_t size);

// Host: makes a channel. A region's size is address space, not memory: pages are allocated when
// touched and freed by channel_trim. `region_size` is rounded up to pages. Returns 0 or an errno.
int channel_new(size_t region_size, channel **made);

// Worker: maps the channel behind `descriptor`, which the caller keeps. EPROTO: not a channel, or
// of another version.
int channel_attach(int descriptor, channel **made);

// Worker: maps the host's region a second time, privately, so that writes stay in this process. The
// mapping starts read-only and belongs to the caller. Returns 0 or an errno.
int channel_map_privately(const channel *self, int descriptor, void **mapped, size_t *size);

// Unmaps and frees. No other thread may still use the channel. NULL does nothing.
void channel_free(channel *ended);

// The memfd to pass to the worker. Owned by the channel. -1 on the worker's side.
int channel_descriptor(const channel *self);

// Makes every wait on this side return CHANNEL_CLOSED, now and later, after the messages that have
// arrived are received. Any thread, any number of times.
void channel_close(channel *self);

// --- Sending. Any thread of the sending side.

// Puts the message into the ring and wakes the receiver. False: the ring is full or the channel
// closed.
bool channel_try_send(channel *self, channel_ring ring, const channel_message *message);

// The same, but waits for room. False: closed.
bool channel_send(channel *self, channel_ring ring, const channel_message *message);

// How many messages this side has sent on `ring`, and how many of them the other side has finished
// with (channel_done). The second number is the other side's claim, kept between its previous value
// and the first number.
uint64_t channel_sent(const channel *self, channel_ring ring);
uint64_t channel_finished(const channel *self, channel_ring ring);

// Waits until the other side has finished with `count` messages. False: closed or broken.
bool channel_await_finished(channel *self, channel_ring ring, uint64_t count);

// --- Receiving. One thread at a time for each ring.

// Waits up to `timeout_us` (negative: for ever) for a message. Polls for a while before it sleeps,
// if waits on this ring were short lately and the machine has another processor.
channel_result channel_receive(channel *self, channel_ring ring, int64_t timeout_us,
                               channel_message *message);

// Whether waits on this ring may poll before they sleep (the default). With many messages and busy
// processors, polling takes processor time from the sender, and sleeping lets messages come in
// groups.
void channel_look(channel *self, channel_ring ring, bool may_look);

// How long a wait polls at most; 40 µs by default. Longer polling avoids wake-ups when messages are
// further apart, but costs processor time.
void channel_look_for(channel *self, channel_ring ring, int64_t most_us);

// The receiver has finished with the message: the slot and, by convention, the memory that it names
// return to the sender. Call it exactly once after each CHANNEL_MESSAGE.
void channel_done(channel *self, channel_ring ring);

// --- Memory. Each side allocates in its own region and reads the other's. Any thread.

// A block of this side's region, aligned to CHANNEL_ALIGNMENT, contents undefined. False: no room.
bool channel_allocate(channel *self, size_t size, uint64_t *offset);

// Frees a block. False when `offset` is not the beginning of a block in use, so offsets from the
// other side may be passed.
bool channel_release(channel *self, uint64_t offset);

// The address of this side's block.
void *channel_own(const channel *self, uint64_t offset);

// Whether `address` is in this side's region, and at which offset.
bool channel_is_own(const channel *self, const void *address, uint64_t *offset);

// Limits the bytes in this side's blocks; the default is the whole region.
void channel_limit(channel *self, size_t most);

// `size` bytes at `offset` of the other side's region; NULL when they are not wholly inside. The
// other side can change them at any time: copy before you check and use them.
const void *channel_other(const channel *self, uint64_t offset, uint64_t size);

// Returns the pages of free memory in this side's region to the system, except the first `keep`
// bytes. Returns the bytes given back.
size_t channel_trim(channel *self, size_t keep);

// Bytes of this side's region in blocks, and bytes of free memory that are kept.
void channel_memory(const channel *self, size_t *used, size_t *kept);

#endif

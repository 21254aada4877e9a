// SPDX-License-Identifier: Apache-2.0
// The channel to one worker process, shared by the instance, its listener, and the model's open
// inferences. When the worker dies the instance makes a new link; the old one lives until its last
// reference. Any thread, unless said otherwise.
#ifndef NEREID_PYTHON_WORKER_WORKER_LINK_H
#define NEREID_PYTHON_WORKER_WORKER_LINK_H

#include "base/list.h"
#include "base/refcount.h"
#include "channel.h"
#include "codec/device_share.h"
#include "wire.h"

#include "triton/core/tritonbackend.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct worker_link {
  refcount references;
  channel *channel;
  int socket;      // our end; closing it makes the worker exit
  uint64_t number; // of the worker: 1, 2, …
  _Atomic(device_share *) devices;
  // The id of an open readiness question; 0: none. Used by the thread that has the slot.
  uint64_t question;
  char *end_cause;      // NULL: it runs, or the cause is unknown; guarded by the worker's lock
  _Atomic bool is_over; // the worker is gone; its listener answers requests outside executions
  pthread_mutex_t lock; // guards what follows
  list kept;            // replies not sent yet
  size_t kept_count;
} worker_link;

// Makes a channel. Each region has as much address space as the machine has memory, 64 GiB at most.
// The host's blocks hold at most `shared_most` bytes at a time. `socket`: our end, taken on
// success.
TRITONSERVER_Error *worker_link_new(size_t shared_most, int socket, worker_link **made);
worker_link *worker_link_ref(worker_link *self);
void worker_link_unref(worker_link *self); // NULL does nothing; may run on a loop

// The device memory shared with the worker, made at the first call. NULL: no memory.
device_share *worker_link_devices(worker_link *self);

// The worker no longer uses the host's block, nor the device memory tied to it. False: not a block
// in use.
bool worker_link_release(worker_link *self, uint64_t block);

// A private copy of a message's control part, which the worker cannot change.
typedef struct control_part {
  uint8_t *bytes;
  wire_reader reader;
} control_part;

// False: no memory, beyond the region, or longer than MAX_PROTOCOL_CONTROL; the reader is then bad.
// A message without control part gives an empty one.
bool control_part_copy(control_part *self, const worker_link *link, const channel_message *message);
void control_part_fini(control_part *self);

// Writes a control part into a block of the host's region and names it in `message`. `write` is
// called twice with the same `what`: to count and to write. False: no room.
typedef void control_part_write(wire_writer *writer, const void *what);
bool control_part_make(worker_link *link, control_part_write *write, const void *what,
                       channel_message *message);

// Sends on CHANNEL_REPLIES and never waits: while the ring is full, replies are kept in order for
// later. A worker that leaves 65,536 replies unread is cut off (channel_close).
void worker_link_reply(worker_link *self, const channel_message *reply);

// Sends kept replies. True when some are left: call it again soon. The listener's thread.
bool worker_link_flush(worker_link *self);

#endif

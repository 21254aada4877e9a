// SPDX-License-Identifier: Apache-2.0
// Writes a batch into one block of the server's region (isolated/isolated_protocol.h): inputs, then
// the control part. Runs on the thread that executes the instance.
#ifndef NEREID_ISOLATED_BATCH_H
#define NEREID_ISOLATED_BATCH_H

#include "base/buffer.h"
#include "channel.h"

#include "triton/core/tritonbackend.h"

// Memory kept between batches. Zero-initialised: empty.
typedef struct batch_writer {
  const char *host_policy; // of the instance, borrowed
  buffer control;
  buffer pieces; // places of the inputs
} batch_writer;

void batch_writer_fini(batch_writer *self);

// `numbers` are the requests'. On success `message` names the block, which the caller owns.
TRITONSERVER_Error *batch_write(batch_writer *self, channel *to,
                                TRITONBACKEND_Request *const *requests, const uint64_t *numbers,
                                uint32_t count, channel_message *message);

#endif

// SPDX-License-Identifier: Apache-2.0
// What a server sends on a connection, read plainly: HTTP/2 frames whose order and streams are
// right, and gRPC messages in them.
#ifndef NEREID_TESTS_GRPC_REPLIES_H
#define NEREID_TESTS_GRPC_REPLIES_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPLIES_STREAMS 128 // the first ones are followed

typedef struct reply_stream {
  bool begun, ended, reset;
  bool is_text; // not gRPC: a line for people
  uint8_t prefix[5];
  size_t prefix_size;
  size_t missing; // bytes of the message
  size_t messages;
} reply_stream;

typedef struct replies {
  buffer unread;
  buffer *text; // all messages are appended here; NULL: nobody wants them
  size_t frames;
  size_t ended; // streams with a status
  size_t bytes; // of messages
  reply_stream streams[REPLIES_STREAMS];
} replies;

// Checks what came.
void replies_take(replies *r, const char *data, size_t size);
void replies_fini(replies *r);

#endif

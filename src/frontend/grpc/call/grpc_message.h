// SPDX-License-Identifier: Apache-2.0
// Request messages of a call, assembled from HTTP/2's data. Each message is preceded by a flag
// (compressed or not) and its size, 4 bytes, big-endian
// (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md). One owner at a time, no locks.
#ifndef NEREID_FRONTEND_GRPC_CALL_GRPC_MESSAGE_H
#define NEREID_FRONTEND_GRPC_CALL_GRPC_MESSAGE_H

#include "base/slice.h"
#include "frontend/common/net/body.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MESSAGE_PREFIX_BYTES 5
#define MESSAGE_MAX_BYTES    INT32_MAX // Triton's limit, both ways

// From this size a request message counts for the budget; shorter ones count in their connection's
// share.
#define MESSAGE_COUNTED_BYTES ((size_t)8 << 10)

static inline size_t message_share(size_t size)
{
  return size < MESSAGE_COUNTED_BYTES ? size : 0;
}

// A compressed message may unpack to the larger of these: zeroes compress to a thousandth.
#define MESSAGE_UNPACKED_BYTES ((size_t)64 << 20)
#define MESSAGE_UNPACKED_TIMES 32

// The coding named in grpc-encoding.
content_coding message_coding_of(slice name);

// Does grpc-accept-encoding list the coding?
bool message_coding_is_listed(slice list, content_coding coding);

// A request message, in its own block. Its end is aligned to BODY_ALIGNMENT: tensors come last in a
// request, so a tensor whose size is a multiple of that is aligned, too.
typedef body grpc_message;

void grpc_message_free(grpc_message *m); // NULL is allowed

typedef enum message_fault {
  MESSAGE_OK = BODY_OK,
  MESSAGE_TOO_LARGE = BODY_TOO_LARGE,     // more than MESSAGE_MAX_BYTES, packed or unpacked
  MESSAGE_OVER_BUDGET = BODY_OVER_BUDGET, // the server holds too much at this moment
  MESSAGE_NO_MEMORY = BODY_NO_MEMORY,
  MESSAGE_CORRUPT = BODY_CORRUPT, // does not follow its coding
  MESSAGE_BOMB,                   // unpacks to more than MESSAGE_UNPACKED_BYTES and _TIMES its size
  MESSAGE_BAD_FLAG,               // neither 0 nor 1
  MESSAGE_NO_CODING,              // compressed without a grpc-encoding
} message_fault;

// Called for each uncompressed message before its memory is allocated, with its first bytes; for
// pinned_body_prefer.
typedef void message_begins(void *context, grpc_message *m, slice first);

// Assembles messages. Starts zeroed, except for `budget`.
typedef struct message_reader {
  byte_budget *budget;    // borrowed
  message_begins *begins; // may be NULL
  void *begins_context;
  grpc_message *current; // owned, NULL between messages; its max_size is the announced size
  unsigned char prefix[MESSAGE_PREFIX_BYTES];
  unsigned prefix_size;
  bool compressed;
  unpacking *unpacking; // of `current`; owned; NULL unless a long packed message
} message_reader;

void message_reader_fini(message_reader *r);

// Takes bytes up to the end of a message; *taken: how many. *complete is the message if it is
// complete, owned by the caller, else NULL. Reading ends with a fault, and pauses at a compressed
// message with more than JOBS_LOOP_BYTES before or after unpacking.
message_fault message_reader_take(message_reader *r, content_coding coding, const char *data,
                                  size_t size, size_t *taken, grpc_message **complete);

// Is there such a compressed message? Then message_reader_unpack must unpack it, on any thread that
// has the reader, before more bytes are taken.
bool message_reader_is_unpacking(const message_reader *r);
message_fault message_reader_unpack(message_reader *r, grpc_message **complete);

// Is the reader within a message?
bool message_reader_is_inside(const message_reader *r);

#endif

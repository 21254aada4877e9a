// SPDX-License-Identifier: Apache-2.0
// Messages on their way through a call: requests that are put together from what HTTP/2 delivers,
// and replies that wait until HTTP/2 and the socket take them. A message is prefixed by a flag
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

// From here on a request message counts for the budget itself; shorter ones are part of their
// connection's share.
#define MESSAGE_COUNTED_BYTES ((size_t)8 << 10)

static inline size_t message_share(size_t size)
{
  return size < MESSAGE_COUNTED_BYTES ? size : 0;
}

// A packed message may become so large, or so many times its size, whichever is more: zeroes pack
// to a thousandth.
#define MESSAGE_UNPACKED_BYTES ((size_t)64 << 20)
#define MESSAGE_UNPACKED_TIMES 32

// The coding of a grpc-encoding field.
content_coding message_coding_of(slice name);

// Does a grpc-accept-encoding field list the coding?
bool message_coding_is_listed(slice list, content_coding coding);

// A request message, in its own block. Its end is aligned to BODY_ALIGNMENT: tensors come last in a
// request, so a tensor of a round size begins at a round address.
typedef body grpc_message;

void grpc_message_free(grpc_message *m); // NULL is allowed

typedef enum message_fault {
  MESSAGE_OK = BODY_OK,
  MESSAGE_TOO_LARGE = BODY_TOO_LARGE,     // more than MESSAGE_MAX_BYTES, packed or unpacked
  MESSAGE_OVER_BUDGET = BODY_OVER_BUDGET, // the server holds too much at this moment
  MESSAGE_NO_MEMORY = BODY_NO_MEMORY,
  MESSAGE_CORRUPT = BODY_CORRUPT, // not what its coding says
  MESSAGE_BOMB,                   // unpacked more than MESSAGE_UNPACKED_BYTES and _TIMES its size
  MESSAGE_BAD_FLAG,               // neither 0 nor 1
  MESSAGE_NO_CODING,              // compressed, and no grpc-encoding says how
} message_fault;

// Told of each message that is not packed before it has memory, with what is there of it: for
// pinned_body_prefer.
typedef void message_begins(void *context, grpc_message *m, slice first);

// Puts messages together. Zeroed is empty, but for the budget.
typedef struct message_reader {
  byte_budget *budget;    // borrowed
  message_begins *begins; // NULL: nobody is told
  void *begins_context;
  grpc_message *current; // owned, NULL between two messages; its max_size is what is announced
  unsigned char prefix[MESSAGE_PREFIX_BYTES];
  unsigned prefix_size;
  bool compressed;
  unpacking *unpacking; // of the current one; owned, NULL but for a packed message that is long
} message_reader;

void message_reader_fini(message_reader *r);

// Takes bytes up to the end of a message. *taken tells how many; *complete is the message when it
// is whole, and then the caller's, else NULL. A fault ends the reading; so does, for a while, a
// packed message of which more than JOBS_LOOP_BYTES would be read or made.
message_fault message_reader_take(message_reader *r, content_coding coding, const char *data,
                                  size_t size, size_t *taken, grpc_message **complete);

// Is there such a packed message? It is unpacked by message_reader_unpack, on any thread that has
// the reader; then bytes may be taken again.
bool message_reader_is_unpacking(const message_reader *r);
message_fault message_reader_unpack(message_reader *r, grpc_message **complete);

// Is the reader in the middle of a message?
bool message_reader_is_inside(const message_reader *r);

#endif

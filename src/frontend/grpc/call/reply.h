// A reply message on its way: prefix and parts, sent from where they are. Referenced by its call's
// queue until HTTP/2 has taken it, and by what waits to be written.
#ifndef NEREID_FRONTEND_GRPC_CALL_REPLY_H
#define NEREID_FRONTEND_GRPC_CALL_REPLY_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/list.h"
#include "base/slice.h"
#include "frontend/grpc/call/message.h"
#include "frontend/grpc/transport/output.h"
#include "triton/core/tritonserver.h"

#include <stdbool.h>
#include <stddef.h>

// What a message takes besides its tensors, roughly: this object, a response, memory of both.
#define REPLY_COST_BYTES ((size_t)6 << 10)

typedef struct call call;

// What a message's parts are views of; zeroed: nothing.
typedef struct reply_sources {
  buffer text;
  TRITONSERVER_InferenceResponse *response; // owned; NULL: none
  arena memory;
} reply_sources;

void reply_sources_fini(reply_sources *s);

typedef struct grpc_reply {
  list_node node; // of the call's queue
  output_source source;
  slice *parts; // the first is the prefix; in one block with this object
  size_t part_count;
  size_t part; // the first that is not taken yet
  size_t part_taken;
  size_t size; // of all parts
  size_t taken;
  reply_sources from;
  call *call;      // referenced
  size_t reserved; // from the budget
  char prefix[MESSAGE_PREFIX_BYTES];
} grpc_reply;

// Makes a message of `count` parts, which stay where they are; `from` is moved, or released when
// memory is short: then NULL.
grpc_reply *grpc_reply_new(call *c, const slice *parts, size_t count, reply_sources *from_owned,
                           bool compressed);
void grpc_reply_unref(grpc_reply *o);

#endif

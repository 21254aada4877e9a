// SPDX-License-Identifier: Apache-2.0
// What the files of a call share, and what its connection drives. Loop thread.
#ifndef NEREID_FRONTEND_GRPC_CALL_CALL_PARTS_H
#define NEREID_FRONTEND_GRPC_CALL_CALL_PARTS_H

#include "frontend/grpc/call/call.h"
#include "frontend/grpc/transport/output.h"
#include "frontend/grpc/transport/stream.h"

#include <stdbool.h>

// What a connection does with calls; for the listener.
extern const stream_handlers call_stream_handlers;

static inline call *call_of_stream(grpc_stream *s)
{
  return container_of(s, call, stream);
}

// HTTP, but not gRPC?
static inline bool call_is_foreign(const call *c)
{
  return !c->is_post || !c->is_grpc;
}

// --- call_body.c

// As stream.h has them.
bool call_take_data(grpc_stream *s, const char *data, size_t size);
void call_half_close(grpc_stream *s);
uint64_t call_check(grpc_stream *s, uint64_t now_ns);

// The call is closed: the connection's window is not to shrink by what is held.
void call_drop_held(call *c);

// --- call_reply.c

bool call_give_data(grpc_stream *s, output *to, size_t size);

// Ends the call, once its outcome is decided and no job has it.
void call_settle(call *c);

// Drops what is queued.
void call_drop_replies(call *c);

// --- call_send.c. False when memory is short: the stream is reset then

// The header, and no message: only a status.
bool call_submit_status(call *c);
// The header; messages and, at last, the status follow from the queue.
bool call_submit_header(call *c);

// --- call_job.c

// The call has ended while others have it.
void call_cancel_job(call *c);
// The loop has seen that the job is done.
void call_take_back(call *c);

#endif

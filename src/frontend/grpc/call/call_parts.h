// SPDX-License-Identifier: Apache-2.0
// Shared by the files of a call, with the functions that its connection calls. Loop thread.
#ifndef NEREID_FRONTEND_GRPC_CALL_CALL_PARTS_H
#define NEREID_FRONTEND_GRPC_CALL_CALL_PARTS_H

#include "frontend/grpc/call/call.h"
#include "frontend/grpc/transport/http2_stream.h"
#include "frontend/grpc/transport/output.h"

#include <stdbool.h>

// The functions that connections call for streams; for the listener.
extern const stream_handlers call_stream_handlers;

static inline call *call_of_stream(grpc_stream *s)
{
  return container_of(s, call, stream);
}

// Is it HTTP but not gRPC?
static inline bool call_is_foreign(const call *c)
{
  return !c->is_post || !c->is_grpc;
}

// --- call_body.c

// See http2_stream.h.
bool call_take_data(grpc_stream *s, const char *data, size_t size);
void call_half_close(grpc_stream *s);
uint64_t call_check(grpc_stream *s, uint64_t now_ns);

// The call is closed: gives held bytes back to the connection's window.
void call_drop_held(call *c);

// --- call_reply.c

bool call_give_data(grpc_stream *s, output *to, size_t size);

// Ends the call, if its outcome is decided and no job has it.
void call_settle(call *c);

// Drops the queued messages.
void call_drop_replies(call *c);

// --- call_send.c. False when memory is short: the caller resets the stream.

// Submits header and status, without messages.
bool call_submit_status(call *c);
// Submits the header; nghttp2 then asks for the messages and the status.
bool call_submit_header(call *c);

// --- call_job.c

// The call has ended while a job or another thread has it.
void call_cancel_job(call *c);
// The loop has seen that the job is done.
void call_take_back(call *c);

#endif

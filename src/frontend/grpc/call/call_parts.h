// A call as its connection and session drive it, and what its files share. Loop thread.
#ifndef NEREID_FRONTEND_GRPC_CALL_PARTS_H
#define NEREID_FRONTEND_GRPC_CALL_PARTS_H

#include "frontend/common/observe/access_log.h"
#include "frontend/grpc/call/call.h"
#include "frontend/grpc/transport/output.h"

#include <stdbool.h>

// A stream began. The stream's reference; NULL when memory is short.
call *call_open(grpc_connection *c, int32_t stream_id);

void call_take_header(call *c, slice name, slice value);

// The header is complete: finds the method and refuses what cannot be.
void call_begin(call *c);

// The stream is closed: cancels what runs, and drops the stream's reference.
void call_close(call *c);

// HTTP, but not gRPC?
static inline bool call_is_foreign(const call *c)
{
  return !c->is_post || !c->is_grpc;
}

// What the access log says of any call; texts as long as the call.
access_record call_access_record(const call *c, grpc_status status);

// --- call_body.c

// Bytes of request messages came. False when they are to count as not taken yet, so that the client
// waits until call_resume.
bool call_take_data(call *c, const char *data, size_t size);

// Is it in the middle of a message?
bool call_is_receiving(const call *c);

// The client sends no more.
void call_half_close(call *c);

// The call is closed: the connection's window is not to shrink by what is held.
void call_drop_held(call *c);

// --- call_reply.c

// Ends the call, once its outcome is decided and no job has it.
void call_settle(call *c);

// Moves `size` bytes of reply messages to `to`. False when memory is short.
bool call_give_data(call *c, output *to, size_t size);

// Drops what is queued.
void call_drop_replies(call *c);

// --- call_job.c

// Somebody woke the call (loop.h).
void call_woken(call *c);

#endif

// A call's life as its connection and session drive it. Loop thread.
#ifndef NEREID_FRONTEND_GRPC_CALL_LIFE_H
#define NEREID_FRONTEND_GRPC_CALL_LIFE_H

#include "frontend/grpc/call/call.h"
#include "frontend/grpc/transport/output.h"

#include <stdbool.h>

// A stream began. The stream's reference; NULL when memory is short.
call *call_open(grpc_connection *c, int32_t stream_id);

void call_take_header(call *c, slice name, slice value);

// The header is complete: finds the method and refuses what cannot be.
void call_begin(call *c);

// Bytes of request messages came. False when they are to count as not taken yet, so that the client
// waits until call_resume.
bool call_take_data(call *c, const char *data, size_t size);

// Is it in the middle of a message?
bool call_is_receiving(const call *c);

// The client sends no more.
void call_half_close(call *c);

// Moves `size` bytes of reply messages to `to`. False when memory is short.
bool call_give_data(call *c, output *to, size_t size);

// The stream is closed: cancels what runs, and drops the stream's reference.
void call_close(call *c);

// --- For methods, besides call.h

// Queues a reply message, which is owned.
void call_queue(call *c, outgoing *message_owned);

// Ends the call with c->status and c->failure once what is queued is sent.
void call_end(call *c);

// Ends it now, whoever has it; `text` is static. What its handler says later is not heard.
void call_end_early(call *c, grpc_status status, const char *text);

// Packs a reply message where client and server agreed on that; else gives it as it is. Text,
// response and arena (may be NULL, where the parts have memory of the first kind only) are moved.
// NULL when memory is short: then they are released.
outgoing *call_make_outgoing(call *c, const slice *parts, size_t count, buffer *text_owned,
                             TRITONSERVER_InferenceResponse *response_owned, arena *memory_owned);

// Has a worker do `work` with a message, and then the loop `done`; the client waits with more
// messages meanwhile. The call may have ended when it is done.
void call_run_work(call *c, void (*work)(call *c), void (*done)(call *c));

// Somebody woke the call (loop.h).
void call_woken(call *c);

// Has the client wait with more messages, and what came already, until call_resume.
void call_pause(call *c);
bool call_is_paused(const call *c);
void call_resume(call *c);

#endif

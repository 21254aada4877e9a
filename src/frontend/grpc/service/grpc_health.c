// SPDX-License-Identifier: Apache-2.0
// gRPC's health service. As in Triton, it answers for any service whether the server is ready.
// Watch reports changes; the server does not announce them, so Watch polls.
#include "frontend/common/observe/abi_error.h"
#include "frontend/grpc/call/call.h"
#include "frontend/grpc/codec/proto_unpack.h"
#include "frontend/grpc/codec/proto_wire.h"
#include "frontend/grpc/proto/health.pb-c.h"
#include "frontend/grpc/service/control_method.h"
#include "frontend/grpc/service/handlers.h"
#include "frontend/grpc/transport/loop.h"

#include <stdatomic.h>
#include <stddef.h>

#define ASK_EVERY_NS UINT64_C(1000000000)

typedef Grpc__Health__V1__HealthCheckResponse__ServingStatus serving_status;

#define STATUS(name) GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__##name

// May take long, because backends are asked.
static error *ask(const call *c, serving_status *status)
{
  bool ready = false;
  TRITONSERVER_Error *failure = NULL;
  if (!listener_is_leaving(c->server))
    failure = TRITONSERVER_ServerIsReady(c->server->server, &ready);
  *status = failure != NULL ? STATUS(UNKNOWN) : ready ? STATUS(SERVING) : STATUS(NOT_SERVING);
  return error_from_abi(failure);
}

error *grpc_health_check(call *c, const void *request, buffer *json)
{
  serving_status status;
  (void)request;
  (void)json;
  RETURN_IF_ERROR(ask(c, &status));
  control_reply_number(c, status);
  return NULL;
}

// ---- Watch ----

// In the call's arena.
typedef struct health_watch {
  conn_timer next; // for the next question
  call *call;
  serving_status status; // now
  int sent;              // status sent last; -1: none
} health_watch;

static void send_status(call *c, serving_status status)
{
  AUTO_BUFFER buffer packed = BUFFER_EMPTY;
  if (status != STATUS(UNKNOWN))
    proto_append_integer(&packed, 1, status);
  call_queue_packed(c, &packed);
}

static void watch_ask(call *c)
{
  health_watch *w = c->handler_data;
  error_free(ask(c, &w->status));
}

static void watch_asked(call *c)
{
  health_watch *w = c->handler_data;
  if (call_is_ended(c))
    return;
  if (w->sent != (int)w->status)
    send_status(c, w->status);
  w->sent = (int)w->status;
  if (drain_has_begun(&c->server->drain) || // which waits for all calls
      atomic_load(&c->server->retired)) {
    call_fail(c, GRPC_UNAVAILABLE, "the server is stopping");
    call_end(c);
  }
  if (!call_is_ended(c))
    conn_timer_set(&c->loop->timers, &w->next, c->loop->now_ns + ASK_EVERY_NS);
}

static void watch_again(call *c)
{
  if (!call_run_job(c, JOB_PROBES, watch_ask, watch_asked))
    call_end(c);
}

static void watch_elapsed(conn_timer *elapsed)
{
  watch_again(container_of(elapsed, health_watch, next)->call);
}

static void watch_stop(call *c)
{
  health_watch *w = c->handler_data;
  if (w != NULL)
    conn_timer_cancel(&c->loop->timers, &w->next);
}

// Begins when the client has sent everything.
static void watch_begin(call *c)
{
  call_set_state(c, CALL_DISPATCHED);
  if (c->body.message == NULL) {
    call_fail(c, GRPC_INTERNAL, "the call has no message");
    return;
  }
  ProtobufCMessage *request;
  if (call_fail_if_error(c, proto_unpack(call_request(c),
                                         &grpc__health__v1__health_check_request__descriptor,
                                         &c->arena, &request)))
    return;
  health_watch *w = arena_allocate_array(&c->arena, 1, sizeof(*w));
  if (w == NULL) {
    call_fail(c, GRPC_RESOURCE_EXHAUSTED, "out of memory");
    return;
  }
  c->handler_data = w;
  *w = (health_watch){.call = c, .next.fire = watch_elapsed, .sent = -1};
  watch_again(c);
}

void grpc_handle_health_watch(call *c)
{
  c->half_close = watch_begin;
  c->cancelled = watch_stop;
}

// gRPC's health service. As Triton's, it has one answer whatever service is asked for: whether the
// server is ready. Watch says it again when it changes; nothing in the server tells of that, so it
// asks.
#include "base/buffer.h"
#include "frontend/grpc/call/call.h"
#include "frontend/grpc/proto/health.pb-c.h"
#include "frontend/grpc/service/control_message.h"
#include "frontend/grpc/service/handlers.h"
#include "frontend/grpc/transport/loop.h"

#include <stdatomic.h>
#include <stddef.h>

#define ASK_EVERY_NS UINT64_C(1000000000)

typedef Grpc__Health__V1__HealthCheckResponse reply_message;
typedef Grpc__Health__V1__HealthCheckResponse__ServingStatus serving_status;

#define SERVING     GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
#define NOT_SERVING GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING
#define UNKNOWN     GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__UNKNOWN

// Backends are asked, so it may take long.
static TRITONSERVER_Error *ask(const call *c, serving_status *status)
{
  bool ready = false;
  TRITONSERVER_Error *failure = NULL;
  if (!atomic_load_explicit(&c->server->leaving, memory_order_relaxed))
    failure = TRITONSERVER_ServerIsReady(c->server->server, &ready);
  *status = failure != NULL ? UNKNOWN : ready ? SERVING : NOT_SERVING;
  return failure;
}

// ---- Check ----

static void check(call *c)
{
  reply_message reply = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
  if (!call_fail_if(c, ask(c, &reply.status)))
    call_reply_message(c, &reply.base);
}

void grpc_handle_health_check(call *c)
{
  if (control_request(c, &grpc__health__v1__health_check_request__descriptor) != NULL)
    call_run_job(c, JOB_PROBES, check, NULL);
}

// ---- Watch ----

// Of the call, in its arena.
typedef struct health_watch {
  conn_timer next; // when it is asked again
  call *call;
  serving_status status; // now
  bool told;             // the client knows `said`
  serving_status said;
} health_watch;

static void tell(call *c, serving_status status)
{
  buffer text = BUFFER_EMPTY;
  reply_message reply = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
  reply.status = status;
  char *to = buffer_reserve(&text, protobuf_c_message_get_packed_size(&reply.base) + 1);
  text.size = to == NULL ? 0 : protobuf_c_message_pack(&reply.base, (uint8_t *)to);
  const slice whole = buffer_view(&text);
  grpc_reply *message = to == NULL ? NULL : call_make_reply(c, &whole, 1, &text, NULL, NULL);
  if (message == NULL)
    call_end_early(c, GRPC_RESOURCE_EXHAUSTED, "out of memory");
  else
    call_queue(c, message);
}

static void watch_ask(call *c)
{
  health_watch *w = c->handler_data;
  TRITONSERVER_ErrorDelete(ask(c, &w->status));
}

static void watch_heard(call *c)
{
  health_watch *w = c->handler_data;
  if (call_is_ended(c))
    return;
  if (!w->told || w->said != w->status)
    tell(c, w->status);
  w->told = true;
  w->said = w->status;
  if (drain_has_begun(&c->server->drain)) { // which waits for all calls
    call_fail(c, GRPC_UNAVAILABLE, "the server is stopping");
    call_end(c);
  }
  if (!call_is_ended(c))
    conn_timer_set(&c->loop->timers, &w->next, c->loop->now_ns + ASK_EVERY_NS);
}

static void watch_again(call *c)
{
  if (!call_run_job(c, JOB_PROBES, watch_ask, watch_heard))
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

// The client has said all.
static void watch_begin(call *c)
{
  call_set_state(c, CALL_DISPATCHED);
  if (c->body.message == NULL) {
    call_fail(c, GRPC_INTERNAL, "the call has no message");
    return;
  }
  health_watch *w = NULL;
  if (control_request(c, &grpc__health__v1__health_check_request__descriptor) != NULL)
    w = arena_allocate_array(&c->arena, 1, sizeof(*w));
  if (w == NULL) {
    call_fail(c, GRPC_RESOURCE_EXHAUSTED, "out of memory"); // unless it has failed
    return;
  }
  c->handler_data = w;
  *w = (health_watch){.call = c, .next.fire = watch_elapsed};
  watch_again(c);
}

void grpc_handle_health_watch(call *c)
{
  c->half_close = watch_begin;
  c->cancelled = watch_stop;
}

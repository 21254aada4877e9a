// SPDX-License-Identifier: Apache-2.0
// A call's state, references and outcome, for the other files of a call.
#include "frontend/grpc/call/call.h"

#include "base/checked.h"
#include "base/state.h"
#include "frontend/common/observe/access_log.h"
#include "frontend/grpc/call/call_parts.h"
#include "frontend/grpc/transport/connection.h"
#include "frontend/grpc/transport/loop.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define FAILURE_BYTES 1024 // longer texts are cut

void call_set_state(call *c, call_state to)
{
  static const unsigned allowed[] = {
      [CALL_RECEIVING] = STATE_BIT(CALL_DISPATCHED) | STATE_BIT(CALL_ENDED),
      [CALL_DISPATCHED] = STATE_BIT(CALL_ENDED),
      [CALL_ENDED] = 0,
  };
  state_assert(allowed, c->state, to);
  c->state = to;
}

void call_ref(call *c)
{
  refcount_take(&c->references);
}

void call_unref(call *c)
{
  if (!refcount_drop(&c->references))
    return;
  assert(c->state == CALL_ENDED && atomic_load(&c->job.state) != CALL_JOB_RUNS);
  assert(c->reply == NULL); // a reply refers to the call, so this would never run
  listener *l = c->server;
  message_reader_fini(&c->body.reader);
  grpc_message_free(c->body.message);
  buffer_fini(&c->body.held);
  atomic_fetch_sub_explicit(&c->kept_connection->alive, 1, memory_order_relaxed);
  budget_share_give_back(&c->kept_connection->share, c->cost + c->body.part_cost);
  grpc_connection_unref(c->kept_connection);
  arena_fini(&c->arena);
  free(c);
  listener_done(l);
  listener_unref(l);
}

access_record call_access_record(const call *c, grpc_status status)
{
  return (access_record){.protocol = "grpc",
                         .peer = c->kept_connection->peer,
                         .route = c->path.data,
                         .status = (unsigned)status};
}

void call_wake(call *c)
{
  if (atomic_exchange(&c->wanted, true))
    return;
  call_ref(c);
  grpc_loop_wake_stream(c->loop, &c->stream);
}

slice call_metadata(const call *c, const char *name)
{
  for (size_t i = 0; i < c->metadata_count; i++)
    if (slice_equal_text(c->metadata[i].name, name))
      return c->metadata[i].value;
  return (slice){NULL, 0};
}

void call_fail(call *c, grpc_status status, const char *format, ...)
{
  char text[FAILURE_BYTES];
  if (c->status != GRPC_UNDECIDED)
    return;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  c->status = status;
  slice whole = slice_of(text);
  size_t most;
  char *escaped =
      checked_array_size(1, whole.size, 3, &most) ? arena_allocate(&c->arena, most) : NULL;
  if (escaped != NULL)
    escaped[grpc_status_escape(whole, escaped)] = '\0';
  c->failure = escaped;
}

// Milliseconds, rounded up, for gRPC's retry policies.
__attribute__((noinline)) static void tell_retry(call *c, uint64_t after_ns)
{
  char text[24];
  int size = snprintf(text, sizeof(text), "%" PRIu64, (after_ns - 1) / 1000000 + 1);
  c->trailer_name = "grpc-retry-pushback-ms";
  c->trailer_value = arena_copy_text(&c->arena, (slice){text, (size_t)size});
}

bool call_fail_if_error(call *c, error *failure_owned)
{
  if (failure_owned == NULL)
    return false;
  if (error_retry_ns(failure_owned) > 0)
    tell_retry(c, error_retry_ns(failure_owned));
  call_fail(c, grpc_status_of((TRITONSERVER_Error_Code)error_get_code(failure_owned)), "%s",
            error_message(failure_owned));
  error_free(failure_owned);
  return true;
}

// SPDX-License-Identifier: Apache-2.0
// The life of a request on its loop thread: admitted by its headers, received, handled, answered.
// libmicrohttpd calls exchange_handle when the headers are complete, for each piece of the body, at
// the body's end, and after each suspension.
#include "frontend/http/exchange/exchange_parts.h"

#include "base/clock.h"
#include "frontend/common/infer/inference.h"
#include "frontend/http/exchange/exchange_log.h"
#include "frontend/http/exchange/exchange_server.h"

#include <assert.h>
#include <stdlib.h>

#define STATUS_NOT_SENT    499   // for the access log: the client left before the reply was made
#define DROPPED_BODY_BYTES 65536 // up to this size a refused request's body is read and dropped

static exchange *exchange_new(loop *l, struct MHD_Connection *mhd)
{
  listener *http = l->all->listener;
  const union MHD_ConnectionInfo *info =
      MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  exchange *x = info->socket_context == NULL ? NULL : malloc(sizeof(*x) + EXCHANGE_ARENA_BYTES);
  if (x == NULL)
    return NULL;
  memset(x, 0, sizeof(*x));
  x->http = http;
  x->loop = l;
  x->mhd = mhd;
  x->connection = info->socket_context;
  refcount_init(&x->references);
  arena_init(&x->arena, x->arena_memory, EXCHANGE_ARENA_BYTES);
  if (trace_service_is_on(http->options.trace))
    x->received_ns = clock_monotonic_ns();
  body_init(&x->body, &http->budget, &x->arena, http->options.max_input_size);
  for (size_t i = 0; i < PARAMETER_COUNT; i++)
    x->parameters[i] = "";
  x->version = -1;
  http_server_request_began(http);
  connection_set_request(x->connection, x);
  return x;
}

// The client left after the exchange was resumed, before it was handled again. The last step
// releases what the core or a job gave; its reply is dropped.
static void finish_unsent(exchange *x)
{
  exchange_enter(x, EXCHANGE_REPLIED);
  loop_core_took_back(&x->loop->core);
  if (x->next != NULL)
    x->next(x);
  exchange_drop_reply(x);
  listener_done(x->http);
}

static void completed(void *loop_pointer, struct MHD_Connection *mhd, void **context,
                      enum MHD_RequestTerminationCode reason)
{
  (void)mhd;
  (void)reason;
  ((loop *)loop_pointer)->progress++;
  exchange *x = *context;
  *context = NULL;
  if (x == NULL)
    return;
  if (x->inference != NULL || x->wait != NULL)
    connection_set_exchange(x->connection, NULL);
  bool unsent = x->phase == EXCHANGE_WAITING || x->status == 0;
  if (x->phase == EXCHANGE_REPLIED)
    exchange_record_moment(x, TRACE_HTTP_SEND_END);
  if (x->phase == EXCHANGE_WAITING)
    finish_unsent(x);
  access_entry_end(x, unsent ? STATUS_NOT_SENT : x->status);
  connection_set_request(x->connection, NULL);
  connection_enter(x->connection, CONNECTION_IDLE);
  http_server_request_ended(x->http);
  exchange_unref(x);
}

// The client has left: cancels the inference or the wait for a model. Any thread that holds a
// reference.
static void cancel(exchange *x)
{
  if (x->inference != NULL)
    inference_cancel(x->inference);
  else if (x->wait != NULL)
    NEREID_ModelWaitCancel(x->wait);
}

// Shall the rest of a refused request be read and dropped, to keep the connection?
static bool is_worth_dropping(const request_headers *headers)
{
  return headers->fault == NULL && !headers->chunked && !headers->expects_continue &&
         headers->content_length.value <= DROPPED_BODY_BYTES;
}

static enum MHD_Result begin(loop *l, struct MHD_Connection *mhd, const request_line *line,
                             void **context)
{
  exchange *x = exchange_new(l, mhd);
  if (x == NULL)
    return MHD_NO;
  *context = x;
  if (!connection_enter(x->connection, CONNECTION_BODY))
    return MHD_NO;
  x->method = route_method_of(line->method);
  x->is_head = strcmp(line->method, MHD_HTTP_METHOD_HEAD) == 0;
  x->is_http_1_0 = strcmp(line->version, MHD_HTTP_VERSION_1_0) == 0;
  access_entry_begin(x, line);
  bool admitted = exchange_admit(x, line);
  exchange_log_verbose(x, "HTTP request: %s %s", line->method, line->path);
  if (admitted) {
    connection_enter(x->connection, exchange_has_body(x) ? CONNECTION_BODY : CONNECTION_RUNNING);
    return MHD_YES;
  }
  if (!is_worth_dropping(&x->headers))
    return exchange_refuse(x);
  exchange_enter(x, EXCHANGE_DROPPING);
  connection_enter(x->connection, CONNECTION_BODY);
  return MHD_YES;
}

// --- Body and handling

static enum MHD_Result receive(exchange *x, const char *data, size_t size)
{
  connection_received(x->connection, size);
  x->received_bytes += size;
  body_result taken = BODY_OK;
  if (x->phase != EXCHANGE_DROPPING && x->route->body != BODY_IGNORED)
    taken = body_append(&x->body, data, size);
  else
    taken = body_drop(&x->body, size);
  if (taken == BODY_OK)
    return MHD_YES;
  exchange_fail_if_body(x, taken);
  return exchange_refuse(x);
}

// Did libmicrohttpd read the whole body that the scan saw?
static bool check_whole(exchange *x)
{
  const scanned_request *sent = connection_scanned(x->connection);
  if (sent != NULL && sent->is_complete && sent->body_bytes == x->received_bytes)
    return true;
  exchange_fail_as_misread(x);
  return false;
}

static void complete_body(exchange *x)
{
  if (x->headers.coding == CODING_IDENTITY) {
    exchange_fail_if_body(x, body_finish(&x->body));
    return;
  }
  int64_t json_size = x->headers.inference_header_length.value;
  x->body.aligned_at = json_size > 0 ? (size_t)json_size : 0;
  body_result unpacked = body_inflate(&x->body, x->headers.coding);
  if (unpacked == BODY_TOO_LARGE)
    exchange_fail(x, MHD_HTTP_CONTENT_TOO_LARGE,
                  "Decompressed data size exceeds the maximum allowed value of %zu bytes. Use "
                  "--http-max-input-size to increase the limit.",
                  x->body.max_size);
  exchange_fail_if_body(x, unpacked);
}

static void handle_body(exchange *x)
{
  if (!exchange_is_over(x))
    x->route->handle(x);
}

// Handles the complete request. False when the server is stopping, and the request is dropped.
static bool handle(exchange *x)
{
  if (!http_server_handling_began(x->http))
    return false;
  connection_enter(x->connection, CONNECTION_RUNNING);
  if (x->route->body == BODY_IGNORED)
    x->route->handle(x);
  else // a few packed bytes may become many
    exchange_run(x, x->headers.coding == CODING_IDENTITY ? 0 : SIZE_MAX, JOB_COMPUTES,
                 complete_body, handle_body);
  return true;
}

static enum MHD_Result exchange_handle(void *loop_pointer, struct MHD_Connection *mhd,
                                       const char *url, const char *method, const char *version,
                                       const char *upload, size_t *upload_size, void **context)
{
  ((loop *)loop_pointer)->progress++;
  request_line line = {.method = method, .path = url, .version = version};
  exchange *x = *context;
  if (x == NULL)
    return begin(loop_pointer, mhd, &line, context);
  if (*upload_size > 0) {
    size_t size = *upload_size;
    *upload_size = 0;
    return receive(x, upload, size);
  }
  if (x->phase == EXCHANGE_REPLIED)
    return MHD_YES;
  if (x->phase != EXCHANGE_WAITING && !check_whole(x))
    return exchange_refuse(x);
  if (x->phase == EXCHANGE_DROPPING)
    return exchange_send_reply(x);
  if (x->phase == EXCHANGE_WAITING) {
    exchange_enter(x, EXCHANGE_RECEIVING);
    loop_core_took_back(&x->loop->core);
    if (x->next != NULL)
      x->next(x);
  } else if (!handle(x)) {
    return MHD_NO;
  }
  if (x->phase == EXCHANGE_WAITING)
    return MHD_YES;
  listener_done(x->http);
  return exchange_send_reply(x);
}

void exchange_suspend(exchange *x, exchange_step next)
{
  x->next = next;
  exchange_enter(x, EXCHANGE_WAITING);
  loop_core_handed_over(&x->loop->core);
  MHD_suspend_connection(x->mhd);
}

void exchange_resume(exchange *x)
{
  exchange_ref(x); // once resumed, the exchange may end, and the listener with it
  MHD_resume_connection(x->mhd);
  loop_core_wake(&x->loop->core);
  exchange_unref(x);
}

static void run_queued(job *queued)
{
  exchange *x = container_of(queued, exchange, queued);
  assert(x->phase == EXCHANGE_WAITING);
  x->job(x);
  exchange_resume(x);
}

bool exchange_is_alone(const exchange *x)
{
  return atomic_load_explicit(&x->loop->open, memory_order_relaxed) == 1;
}

void exchange_run_job(exchange *x, job_kind kind, void (*job)(exchange *x), exchange_step next)
{
  x->job = job;
  x->queued.run = run_queued;
  exchange_suspend(x, next);
  if (exchange_fail_if_error(x, jobs_submit(x->http->options.jobs, kind, &x->queued)))
    exchange_resume(x);
}

void exchange_run(exchange *x, size_t bytes, job_kind kind, void (*job)(exchange *x),
                  exchange_step next)
{
  bool over = exchange_is_over(x);
  if (!over && bytes > JOBS_LOOP_BYTES) {
    exchange_run_job(x, kind, job, next);
    return;
  }
  if (!over)
    job(x);
  next(x);
}

const exchange_calls exchange_calls_of_loops = {
    .handle = exchange_handle,
    .completed = completed,
    .refuse = exchange_refuse_connection,
    .ref = exchange_ref,
    .unref = exchange_unref,
    .cancel = cancel,
    .subject = exchange_subject,
};

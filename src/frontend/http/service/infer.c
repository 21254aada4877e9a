// SPDX-License-Identifier: Apache-2.0
// Sends inference requests through the core. Requests and replies are made on loop threads, long
// ones by jobs; the core's threads call the hooks.
#include "frontend/http/service/http_inference.h"

#include "base/clock.h"
#include "frontend/common/net/pinned_body.h"
#include "frontend/http/exchange/exchange.h"
#include "frontend/http/exchange/exchange_server.h"
#include "frontend/http/service/routes.h"

// A model that may yet be loaded on demand is checked later, after the body.
static inline bool read_transactions(exchange *x, uint32_t *flags)
{
  *flags = 0;
  error *e = inference_read_transactions(x->http->server, x->parameters[PARAMETER_MODEL],
                                         x->version, flags);
  if (e == NULL || !NEREID_ServerLoadsOnDemand(x->http->server))
    return !exchange_fail_if_error(x, e);
  error_free(e);
  return true;
}

static inline error *check_transactions(uint32_t flags)
{
  return (flags & TRITONSERVER_TXN_DECOUPLED) == 0
             ? NULL
             : error_new(ERROR_UNSUPPORTED,
                         "HTTP end point doesn't support models with decoupled transaction policy");
}

// Announced bytes of tensors behind the JSON part.
static uint64_t announced_tensors(const request_headers *headers)
{
  const header_number *json_size = &headers->inference_header_length;
  int64_t size = headers->content_length.value;
  return json_size->state == NUMBER_VALID && headers->coding == CODING_IDENTITY &&
                 !headers->chunked && json_size->value >= 0 && json_size->value < size
             ? (uint64_t)(size - json_size->value)
             : 0;
}

void infer_admit(exchange *x)
{
  uint32_t flags;
  if (read_transactions(x, &flags) && !exchange_fail_if_error(x, check_transactions(flags)))
    pinned_body_prefer(&x->body, x->http->server, x->parameters[PARAMETER_MODEL], x->version,
                       announced_tensors(&x->headers));
}

void generate_admit(exchange *x)
{
  uint32_t flags;
  if (read_transactions(x, &flags) && x->headers.coding != CODING_IDENTITY)
    exchange_fail(x, MHD_HTTP_BAD_REQUEST,
                  "Unsupported content-encoding, only 'identity' is supported.");
}

// --- Hooks of the inference's life

static void ref(inference *life)
{
  exchange_ref(http_inference_of(life)->exchange);
}

static void unref(inference *life)
{
  exchange_unref(http_inference_of(life)->exchange); // and maybe frees `life`
}

static void resume(inference *life)
{
  exchange_resume(http_inference_of(life)->exchange);
}

static const inference_hooks hooks = {
    .ref = ref, .unref = unref, .done = resume, .respond = stream_respond, .cancels_surplus = true};

// --- Handler

static http_inference *inference_of(const exchange *x)
{
  return http_inference_of(x->inference);
}

static void reply(exchange *x)
{
  http_inference *i = inference_of(x);
  i->operation->reply(x, i);
}

static void settle(exchange *x)
{
  inference_settle(x->inference);
}

// Makes the reply of the core's response; a job makes a long one.
static void finish(exchange *x)
{
  exchange_run(x, x->inference->tensors.converted_bytes, JOB_FINISHES, reply, settle);
}

// Waits for the response, if it is not there, without blocking the loop.
static void await_response(exchange *x)
{
  if (inference_is_done(x->inference)) {
    finish(x);
    return;
  }
  exchange_suspend(x, finish);
  if (!inference_wait(x->inference))
    exchange_resume(x);
}

// Submits the request that `fill` has completed, unless the exchange has failed.
static void submit(exchange *x)
{
  http_inference *i = inference_of(x);
  if (exchange_is_over(x)) {
    inference_abandon(&i->life);
    return;
  }
  if (connection_set_exchange(x->connection, x)) // the client left
    inference_cancel(&i->life);
  if (exchange_fail_if_error(x, inference_submit(&i->life, x->http->server)))
    return;
  if (i->stream != NULL)
    stream_begin(x);
  else
    await_response(x);
}

// Reads the body into the request.
static void fill(exchange *x)
{
  http_inference *i = inference_of(x);
  if (i->operation->fill(x, i))
    exchange_fail_if_error(x, inference_set_callbacks(&i->life, x->http->allocator));
}

static void copy_shared(exchange *x)
{
  exchange_fail_if_error(x, inference_make_copies(x->inference));
}

// Copies inputs out of the client's memory, here if they are few bytes.
static void complete(exchange *x)
{
  exchange_run(x, inference_copy_work(x->inference), inference_copy_kind(x->inference), copy_shared,
               submit);
}

static size_t json_bytes(const exchange *x)
{
  const header_number *json_size = &x->headers.inference_header_length;
  return json_size->state == NUMBER_VALID && json_size->value >= 0 &&
                 (uint64_t)json_size->value < x->body.size
             ? (size_t)json_size->value
             : x->body.size;
}

static void begin_trace(exchange *x, inference *life)
{
  static const char *const names[] = {TRACE_HTTP_RECV_START, TRACE_HTTP_RECV_END};
  if (!trace_service_is_on(x->http->options.trace))
    return;
  uint64_t now = clock_monotonic_ns();
  inference_begin_trace(life, x->http->options.trace, &x->headers.parent, names,
                        x->received_ns == 0 ? now : x->received_ns, now);
}

// Made in the exchange's arena, to which outputs may refer. NULL: the exchange has failed.
static http_inference *make_inference(exchange *x, const infer_operation *operation)
{
  bool streams = operation->reply == NULL;
  http_inference *i = arena_allocate_array(&x->arena, 1, sizeof(*i));
  stream *stream = streams ? stream_new(x) : NULL;
  if (i == NULL || (streams && stream == NULL)) {
    exchange_fail(x, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory");
    return NULL;
  }
  *i = (http_inference){.exchange = x, .operation = operation, .stream = stream};
  inference_init(&i->life, &hooks, &x->arena, &x->http->budget, x->http->options.shared_memory);
  i->life.model_name = x->parameters[PARAMETER_MODEL];
  i->life.is_timed = x->access != NULL;
  i->life.sends_each = streams;
  i->life.tensors.pinned = body_in_pool(&x->body);
  i->life.tensors.packs = x->headers.accepts != CODING_IDENTITY;
  i->life.model_version = x->version;
  return i;
}

error *infer_choose_version(http_inference *i)
{
  uint32_t flags = inference_choose_version(&i->life);
  if (!i->operation->takes_decoupled)
    RETURN_IF_ERROR(check_transactions(flags));
  i->life.decoupled = i->stream != NULL || (flags & TRITONSERVER_TXN_DECOUPLED) != 0;
  return NULL;
}

// The core's request exists: reads the body into it.
static inline void begin(exchange *x, http_inference *i)
{
  begin_trace(x, &i->life);
  exchange_run(x, json_bytes(x), JOB_COMPUTES, fill, complete);
}

// --- A model that has to be loaded first

static void awaited(NEREID_ModelWait *wait, void *exchange_pointer)
{
  (void)wait;
  exchange_resume(exchange_pointer);
}

static void model_came(exchange *x)
{
  http_inference *i = inference_of(x);
  if (!exchange_is_over(x) && !exchange_fail_if_error(x, inference_take_model(&i->life)) &&
      !exchange_fail_if_error(x, inference_make_request(&i->life, x->http->server)))
    begin(x, i);
}

static void await_model(exchange *x)
{
  bool waits = false;
  http_inference *i = inference_of(x);
  exchange_suspend(x, model_came);
  exchange_fail_if_error(
      x, inference_await_model(&i->life, x->http->server, i->timeout_us, awaited, x, &waits));
  if (!waits)
    exchange_resume(x);
  else if (connection_set_exchange(x->connection, x)) // the client left
    inference_cancel(&i->life);
}

static void read_timeout(exchange *x)
{
  http_inference *i = inference_of(x);
  if (i->operation->has_timeout)
    i->timeout_us = infer_request_json_timeout((slice){x->body.data, json_bytes(x)}, &x->arena);
}

// --- All of them

static void handle(exchange *x, const infer_operation *operation)
{
  http_inference *i = make_inference(x, operation);
  if (i == NULL)
    return;
  error *e = inference_make_request(&i->life, x->http->server);
  if (e == NULL) {
    x->inference = &i->life;
    begin(x, i);
  } else if (inference_may_await(x->http->server, e)) {
    error_free(e);
    x->inference = &i->life;
    exchange_run(x, operation->has_timeout ? json_bytes(x) : 0, JOB_COMPUTES, read_timeout,
                 await_model);
  } else {
    exchange_fail_if_error(x, e);
  }
}

void handle_infer(exchange *x)
{
  static const infer_operation operation = {infer_fill_request, infer_reply, false, true};
  handle(x, &operation);
}

void handle_generate(exchange *x)
{
  static const infer_operation operation = {generate_fill_request, generate_reply, true, false};
  handle(x, &operation);
}

void handle_generate_stream(exchange *x)
{
  static const infer_operation operation = {generate_fill_request, NULL, true, false};
  handle(x, &operation);
}

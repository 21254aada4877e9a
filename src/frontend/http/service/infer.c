// Sends inference requests through the core. Requests are made and replies are formatted on loop
// threads; the two callbacks come from threads of the core.
#include "frontend/http/service/infer.h"

#include "base/clock.h"
#include "frontend/http/exchange/access_note.h"
#include "frontend/http/exchange/exchange.h"
#include "frontend/http/exchange/log.h"
#include "frontend/http/exchange/server.h"
#include "frontend/http/exchange/version.h"
#include "frontend/http/service/handlers.h"
#include "frontend/http/service/stream.h"

static bool read_transactions(exchange *x, uint32_t *flags)
{
  int64_t version;
  *flags = 0;
  return version_of(x, &version) &&
         !exchange_fail_if(
             x, TRITONSERVER_ServerModelTransactionProperties(
                    x->http->server, x->parameters[PARAMETER_MODEL], version, flags, NULL));
}

void infer_admit(exchange *x)
{
  uint32_t flags;
  if (read_transactions(x, &flags) && (flags & TRITONSERVER_TXN_DECOUPLED) != 0)
    exchange_fail(x, MHD_HTTP_NOT_IMPLEMENTED,
                  "HTTP end point doesn't support models with decoupled transaction policy");
}

void generate_admit(exchange *x)
{
  uint32_t flags;
  if (read_transactions(x, &flags) && x->headers.coding != CODING_IDENTITY)
    exchange_fail(x, MHD_HTTP_BAD_REQUEST,
                  "Unsupported content-encoding, only 'identity' is supported.");
}

// --- The request's life in the core

// The answer may come inside ServerInferAsync (NEREID_REQUEST_FLAG_RUN_HERE), at once from another
// thread, or later: whoever comes second, it or the suspension, resumes the connection.
enum {
  HANDOVER_OPEN,
  HANDOVER_SUSPENDED,
  HANDOVER_DONE,
};

static void drop_request(inference *i)
{
  if (!request_users_leave(&i->users))
    return;
  http_log_failure(i->exchange, "deleting an inference request",
                   TRITONSERVER_InferenceRequestDelete(i->request));
  exchange_unref(i->exchange); // and with it `i`
}

void inference_cancel(inference *i)
{
  if (!request_users_cancel(&i->users))
    return;
  http_log_failure(i->exchange, "cancelling an inference request",
                   TRITONSERVER_InferenceRequestCancel(i->request));
  drop_request(i);
}

// The last of what a single reply waits for lets it be made; see await_answer.
static void note_event(inference *i)
{
  if (atomic_fetch_sub_explicit(&i->awaited, 1, memory_order_acq_rel) == 1 &&
      atomic_exchange(&i->handover, HANDOVER_DONE) == HANDOVER_SUSPENDED)
    exchange_resume(i->exchange); // from here on it is the loop thread's
}

static void request_released(TRITONSERVER_InferenceRequest *request, const uint32_t flags,
                             void *inference_pointer)
{
  inference *i = inference_pointer;
  (void)request;
  if ((flags & TRITONSERVER_REQUEST_RELEASE_ALL) == 0)
    return;
  if (i->tensors.shared.span_count > 0)
    note_event(i);
  drop_request(i);
}

// A single reply has the first response; the other ones are counted.
static void keep_response(inference *i, TRITONSERVER_InferenceResponse *response)
{
  if (atomic_fetch_add_explicit(&i->response_count, 1, memory_order_relaxed) == 0) {
    i->response = response;
    return;
  }
  http_log_failure(i->exchange, "deleting a surplus response",
                   TRITONSERVER_InferenceResponseDelete(response));
  inference_cancel(i); // the reply is an error already
}

static void response_complete(TRITONSERVER_InferenceResponse *response, const uint32_t flags,
                              void *inference_pointer)
{
  inference *i = inference_pointer;
  bool decoupled = i->decoupled; // else `i` may be gone with the last line
  access_note_response(i->exchange, response);
  if (response != NULL) {
    trace_note_now(i->exchange->trace, TRACE_INFER_RESPONSE_COMPLETE);
    keep_response(i, response);
  }
  if ((flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) == 0)
    return;
  note_event(i);
  if (decoupled)
    drop_request(i);
}

static void streamed_response_complete(TRITONSERVER_InferenceResponse *response,
                                       const uint32_t flags, void *inference_pointer)
{
  inference *i = inference_pointer;
  access_note_response(i->exchange, response);
  trace_note_now(i->exchange->trace, TRACE_INFER_RESPONSE_COMPLETE);
  stream_response_complete(response, flags, i);
  if ((flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) == 0)
    return;
  stream_unref(i->stream);
  drop_request(i);
}

// --- Handler

static void reply(exchange *x)
{
  x->inference->way->reply(x, x->inference);
}

static void delete_response(exchange *x)
{
  inference *i = x->inference;
  if (i->response != NULL)
    http_log_failure(x, "deleting a response", TRITONSERVER_InferenceResponseDelete(i->response));
  i->response = NULL;
  shared_tensors_release(&i->tensors.shared);
}

void inference_fini(inference *i)
{
  infer_tensors_fini(&i->tensors);
}

// The core is done, or never got the request: the exchange has failed then.
static void finish(exchange *x)
{
  if (x->failure == NULL && !exchange_is_abandoned(x)) {
    if (x->inference->tensors.converted_bytes > JOBS_LOOP_BYTES) {
      exchange_run_job(x, x->http->workers, JOB_FINISHES, reply, delete_response);
      return;
    }
    reply(x);
  }
  delete_response(x);
}

static bool set_callbacks(exchange *x, inference *i)
{
  return !exchange_fail_if(
             x, TRITONSERVER_InferenceRequestSetReleaseCallback(i->request, request_released, i)) &&
         !exchange_fail_if(
             x, TRITONSERVER_InferenceRequestSetResponseCallback(
                    i->request, x->http->allocator, &i->tensors,
                    i->way->reply == NULL ? streamed_response_complete : response_complete, i));
}

// Makes what receives the answer. False when the exchange has failed.
static bool prepare_answer(exchange *x, inference *i)
{
  if (i->way->reply == NULL) {
    i->stream = i->stream_of_reply = stream_new(x);
    if (i->stream == NULL) {
      exchange_fail(x, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory");
      return false;
    }
  }
  if (i->decoupled)
    request_users_join(&i->users); // for its responses
  atomic_store_explicit(&i->awaited, i->tensors.shared.span_count > 0 ? 2 : 1,
                        memory_order_relaxed);
  return true;
}

// Gives the request to the core. False when the core did not take it: the exchange has failed.
static bool submit(exchange *x, inference *i)
{
  if (!prepare_answer(x, i)) {
    drop_request(i);
    return false;
  }
  TRITONSERVER_InferenceTrace *trace = x->trace == NULL ? NULL : trace_hand_over(x->trace);
  TRITONSERVER_Error *failure = TRITONSERVER_ServerInferAsync(x->http->server, i->request, trace);
  if (!exchange_fail_if(x, failure))
    return true;
  if (i->stream != NULL) {
    stream_unref(i->stream);
    stream_unref(i->stream_of_reply);
  }
  if (i->decoupled)
    drop_request(i);
  drop_request(i);
  return false;
}

// Waits for the answer without holding the loop up, if it is not there already.
static void await_answer(exchange *x, inference *i)
{
  int open = HANDOVER_OPEN;
  if (atomic_load(&i->handover) == HANDOVER_DONE) {
    finish(x);
    return;
  }
  exchange_suspend(x, finish);
  if (!atomic_compare_exchange_strong(&i->handover, &open, HANDOVER_SUSPENDED))
    exchange_resume(x);
}

// The body is read: i->request is complete, or the exchange has failed.
static void start(exchange *x)
{
  inference *i = x->inference;
  if (x->failure != NULL || exchange_is_abandoned(x)) {
    drop_request(i);
    return;
  }
  // One more user, so that the request outlives a client's leaving that is seen just now.
  request_users_join(&i->users);
  bool left = connection_set_exchange(x->connection, x);
  if (submit(x, i)) {
    bool unwanted = request_users_submitted(&i->users) || left;
    if (unwanted && atomic_load(&i->handover) != HANDOVER_DONE)
      inference_cancel(i);
    if (i->stream_of_reply != NULL)
      stream_begin(x);
    else
      await_answer(x, i);
  }
  drop_request(i);
}

// Reads the body into i->request.
static void fill(exchange *x)
{
  inference *i = x->inference;
  if (i->way->fill(x, i))
    set_callbacks(x, i);
}

static void copy_shared(exchange *x)
{
  shared_tensors_make_copies(&x->inference->tensors.shared);
}

// What the request takes from the client's memory is copied, here if it is little.
static void complete(exchange *x)
{
  if (x->inference->tensors.shared.copy_bytes > JOBS_LOOP_BYTES && x->failure == NULL &&
      !exchange_is_abandoned(x)) {
    exchange_run_job(x, x->http->workers, JOB_BEGINS, copy_shared, start);
    return;
  }
  copy_shared(x);
  start(x);
}

static size_t json_bytes(const exchange *x)
{
  const header_number *json_size = &x->headers.inference_header_length;
  return json_size->state == NUMBER_VALID && json_size->value >= 0 &&
                 (uint64_t)json_size->value < x->body.size
             ? (size_t)json_size->value
             : x->body.size;
}

static void begin_trace(exchange *x)
{
  if (!trace_service_is_on(x->http->options.trace))
    return;
  uint64_t now = clock_monotonic_ns();
  x->trace =
      trace_begin(x->http->options.trace, x->parameters[PARAMETER_MODEL], &x->headers.parent);
  trace_note(x->trace, TRACE_HTTP_RECV_START, x->received_ns == 0 ? now : x->received_ns);
  trace_note(x->trace, TRACE_HTTP_RECV_END, now);
}

static void ref_owner(void *exchange_pointer)
{
  exchange_ref(exchange_pointer);
}

static void unref_owner(void *exchange_pointer)
{
  exchange_unref(exchange_pointer);
}

// Outputs are in the exchange's arena, or refer to it.
static void init_tensors(exchange *x, inference *i)
{
  i->tensors = (infer_tensors){.arena = &x->arena,
                               .budget = &x->http->budget,
                               .memory = x->http->options.shared_memory,
                               .request = i->request,
                               .owner = x,
                               .ref = ref_owner,
                               .unref = unref_owner,
                               .many_responses = i->decoupled,
                               .packs = x->headers.accepts != CODING_IDENTITY};
}

static void handle_way(exchange *x, const infer_way *way)
{
  int64_t version;
  uint32_t flags = 0;
  inference *i = arena_allocate_array(&x->arena, 1, sizeof(*i));
  if (i == NULL) {
    exchange_fail(x, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory");
    return;
  }
  if (!version_of(x, &version) || (way->takes_decoupled && !read_transactions(x, &flags)) ||
      exchange_fail_if(x,
                       TRITONSERVER_InferenceRequestNew(&i->request, x->http->server,
                                                        x->parameters[PARAMETER_MODEL], version)))
    return;
  begin_trace(x);
  i->way = way;
  i->decoupled = way->reply == NULL || (flags & TRITONSERVER_TXN_DECOUPLED) != 0;
  i->exchange = x;
  init_tensors(x, i);
  exchange_ref(x); // for the request
  request_users_init(&i->users);
  x->inference = i;
  x->request_id = "";
  if (json_bytes(x) > JOBS_LOOP_BYTES) {
    exchange_run_job(x, x->http->workers, JOB_BEGINS, fill, complete);
    return;
  }
  fill(x);
  complete(x);
}

void handle_infer(exchange *x)
{
  static const infer_way way = {infer_fill_request, infer_reply, false};
  handle_way(x, &way);
}

void handle_generate(exchange *x)
{
  static const infer_way way = {generate_fill_request, generate_reply, true};
  handle_way(x, &way);
}

void handle_generate_stream(exchange *x)
{
  static const infer_way way = {generate_fill_request, NULL, true};
  handle_way(x, &way);
}

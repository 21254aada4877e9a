// SPDX-License-Identifier: Apache-2.0
// A request's way through the core. `allowed` lists the changes of state; i->users counts the users
// of the request.
#include "frontend/common/infer/inference.h"

#include "base/clock.h"
#include "base/state.h"
#include "frontend/common/net/jobs.h"
#include "frontend/common/observe/abi_error.h"
#include "frontend/common/observe/frontend_log.h"

#include <assert.h>

// ---- state ----

// Enters a state; DONE stays DONE. Returns the state before.
static inference_state enter(inference *i, inference_state to)
{
  static const unsigned allowed[] = {
      [INFERENCE_FILLING] = STATE_BIT(INFERENCE_SUBMITTING) | STATE_BIT(INFERENCE_REFUSED),
      [INFERENCE_SUBMITTING] =
          STATE_BIT(INFERENCE_RUNNING) | STATE_BIT(INFERENCE_DONE) | STATE_BIT(INFERENCE_REFUSED),
      [INFERENCE_RUNNING] = STATE_BIT(INFERENCE_WAITING) | STATE_BIT(INFERENCE_DONE),
      [INFERENCE_WAITING] = STATE_BIT(INFERENCE_DONE),
      [INFERENCE_DONE] =
          STATE_BIT(INFERENCE_RUNNING) | STATE_BIT(INFERENCE_WAITING), // a late caller; the state
                                                                       // stays DONE
      [INFERENCE_REFUSED] = 0,
  };
  int from = atomic_load(&i->state);
  do
    state_assert(allowed, from, to);
  while (from != INFERENCE_DONE && !atomic_compare_exchange_weak(&i->state, &from, to));
  return (inference_state)from;
}

static void log_failure(const inference *i, const char *what, TRITONSERVER_Error *failure_owned)
{
  if (failure_owned == NULL)
    return;
  const NEREID_LogSubject about = {.request_id = i->request_id,
                                   .model = i->model_name,
                                   .version = i->model_version > 0 ? i->model_version : 0};
  frontend_log_failure(&about, what, failure_owned);
}

// ---- users of the request ----

// False when the request is deleted or about to be.
static bool join(inference *i)
{
  uint32_t users = atomic_load_explicit(&i->users, memory_order_relaxed);
  while (users > 0)
    if (atomic_compare_exchange_weak_explicit(&i->users, &users, users + 1, memory_order_acquire,
                                              memory_order_relaxed))
      return true;
  return false;
}

static void leave(inference *i)
{
  uint32_t before = atomic_fetch_sub_explicit(&i->users, 1, memory_order_acq_rel);
  assert(before > 0);
  if (before > 1)
    return;
  log_failure(i, "deleting an inference request", TRITONSERVER_InferenceRequestDelete(i->request));
  i->hooks->unref(i);
}

// ---- callbacks of the core ----

// One of the awaited events came. The reference is for the hook: a backend may have released the
// request already, and the loop may drop its own as soon as it sees DONE.
static void count_down(inference *i)
{
  int before = atomic_fetch_sub_explicit(&i->awaited, 1, memory_order_acq_rel);
  assert(before > 0);
  if (before > 1)
    return;
  i->hooks->ref(i);
  if (enter(i, INFERENCE_DONE) == INFERENCE_WAITING)
    i->hooks->done(i);
  i->hooks->unref(i);
}

static void request_released(TRITONSERVER_InferenceRequest *request, const uint32_t flags,
                             void *inference_pointer)
{
  inference *i = inference_pointer;
  (void)request;
  if ((flags & TRITONSERVER_REQUEST_RELEASE_ALL) == 0)
    return;
  if (i->awaits_release)
    count_down(i);
  leave(i);
}

// Keeps the first response, counts and deletes the others.
static void keep_response(inference *i, TRITONSERVER_InferenceResponse *response_owned)
{
  if (atomic_fetch_add_explicit(&i->response_count, 1, memory_order_relaxed) == 0) {
    i->response = response_owned;
    return;
  }
  inference_delete_response(i, response_owned);
  if (i->hooks->cancels_surplus)
    inference_cancel(i);
}

static void response_complete(TRITONSERVER_InferenceResponse *response, const uint32_t flags,
                              void *inference_pointer)
{
  inference *i = inference_pointer;
  bool final = (flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) != 0;
  bool decoupled = i->decoupled; // read now: if not decoupled, `i` may be gone after count_down
  if (response != NULL) {
    if (i->is_timed)
      access_times_record(&i->times, response);
    trace_record_now(i->trace, TRACE_INFER_RESPONSE_COMPLETE);
  }
  if (i->sends_each)
    i->hooks->respond(i, response, final);
  else if (response != NULL)
    keep_response(i, response);
  if (final)
    count_down(i);
  if (final && decoupled)
    leave(i);
}

// ---- life ----

static void ref_owner(void *inference_pointer)
{
  inference *i = inference_pointer;
  i->hooks->ref(i);
}

static void unref_owner(void *inference_pointer)
{
  inference *i = inference_pointer;
  i->hooks->unref(i);
}

void inference_init(inference *i, const inference_hooks *hooks, arena *arena, byte_budget *budget,
                    shared_memory *memory)
{
  *i = (inference){.hooks = hooks,
                   .model_name = "",
                   .request_id = "",
                   .model_version = -1,
                   .tensors = {.arena = arena,
                               .budget = budget,
                               .memory = memory,
                               .owner = i,
                               .ref = ref_owner,
                               .unref = unref_owner}};
}

void inference_fini(inference *i)
{
  assert(atomic_load(&i->users) == 0);
  inference_settle(i);
  if (i->wait != NULL)
    NEREID_ModelWaitDelete(i->wait);
  trace_end(i->trace);
  infer_tensors_fini(&i->tensors);
}

error *inference_read_transactions(TRITONSERVER_Server *server, const char *model, int64_t version,
                                   uint32_t *flags)
{
  return error_from_abi(
      TRITONSERVER_ServerModelTransactionProperties(server, model, version, flags, NULL));
}

error *inference_make_request(inference *i, TRITONSERVER_Server *server)
{
  assert(i->state == INFERENCE_FILLING && i->request == NULL);
  RETURN_IF_ERROR(error_from_abi(
      i->wait != NULL
          ? NEREID_ModelWaitRequestNew(i->wait, &i->request)
          : NEREID_InferenceRequestTryNew(&i->request, server, i->model_name, i->model_version)));
  i->tensors.request = i->request;
  i->tensors.server = server;
  atomic_store_explicit(&i->users, 1, memory_order_relaxed);
  i->hooks->ref(i); // for the request
  return NULL;
}

bool inference_may_await(TRITONSERVER_Server *server, const error *failure)
{
  error_code code = error_get_code(failure);
  return (code == ERROR_NOT_FOUND || code == ERROR_UNAVAILABLE) &&
         NEREID_ServerLoadsOnDemand(server);
}

error *inference_await_model(inference *i, TRITONSERVER_Server *server, uint64_t timeout_us,
                             NEREID_ModelAwaitedFn_t awaited, void *context, bool *waits)
{
  uint64_t timeout_ns, deadline_ns;
  if (timeout_us == 0 || __builtin_mul_overflow(timeout_us, 1000, &timeout_ns) ||
      __builtin_add_overflow(clock_monotonic_ns(), timeout_ns, &deadline_ns))
    deadline_ns = UINT64_MAX;
  assert(i->state == INFERENCE_FILLING && i->request == NULL && i->wait == NULL);
  return error_from_abi(NEREID_ServerModelAwait(server, i->model_name, i->model_version,
                                                deadline_ns, awaited, context, &i->wait, waits));
}

error *inference_take_model(inference *i)
{
  return error_from_abi(NEREID_ModelWaitTakeError(i->wait));
}

uint32_t inference_run_here_flag(const inference *i, size_t size)
{
  return size <= JOBS_LOOP_BYTES && infer_tensors_shared_bytes(&i->tensors) <= JOBS_LOOP_BYTES &&
                 !i->decoupled && !i->tensors.uses_gpu
             ? NEREID_REQUEST_FLAG_RUN_HERE
             : 0;
}

static bool traces_gpu(const inference *i)
{
  return i->tensors.uses_gpu && trace_takes_gpu_inputs(i->trace);
}

size_t inference_copy_work(const inference *i)
{
  return traces_gpu(i) ? SIZE_MAX : infer_tensors_copy_work(&i->tensors);
}

job_kind inference_copy_kind(const inference *i)
{
  return i->tensors.uses_gpu ? JOB_DRIVER : JOB_COMPUTES;
}

error *inference_make_copies(inference *i)
{
  for (size_t k = 0; traces_gpu(i) && k < i->tensors.span_count; k++) {
    const shared_span *span = &i->tensors.spans[k];
    if (span->datatype != TRITONSERVER_TYPE_INVALID && span->handle != NULL && span->copy == NULL)
      trace_record_gpu_input(i->trace, span->datatype, span->base, span->byte_size, span->device);
  }
  return infer_tensors_make_copies(&i->tensors);
}

error *inference_set_callbacks(inference *i, TRITONSERVER_ResponseAllocator *allocator)
{
  RETURN_IF_ERROR(error_from_abi(
      TRITONSERVER_InferenceRequestSetReleaseCallback(i->request, request_released, i)));
  return error_from_abi(TRITONSERVER_InferenceRequestSetResponseCallback(
      i->request, allocator, &i->tensors, response_complete, i));
}

void inference_begin_trace(inference *i, trace_service *service, const trace_parent *parent,
                           const char *const names[2], uint64_t began_ns, uint64_t ended_ns)
{
  i->trace = trace_begin(service, i->model_name, parent);
  trace_record_moment(i->trace, names[0], began_ns);
  trace_record_moment(i->trace, names[1], ended_ns);
}

void inference_abandon(inference *i)
{
  enter(i, INFERENCE_REFUSED);
  leave(i);
}

error *inference_submit(inference *i, TRITONSERVER_Server *server)
{
  enter(i, INFERENCE_SUBMITTING);
  i->tensors.many_responses = i->decoupled;
  i->awaits_release = i->tensors.span_count > 0;
  atomic_store_explicit(&i->awaited, i->awaits_release ? 2 : 1, memory_order_relaxed);
  // One user for this function, one for the responses of a decoupled model.
  uint32_t more = i->decoupled ? 2 : 1;
  atomic_fetch_add_explicit(&i->users, more, memory_order_relaxed);
  TRITONSERVER_InferenceTrace *trace = i->trace == NULL ? NULL : trace_hand_over(i->trace);
  error *failure = error_from_abi(TRITONSERVER_ServerInferAsync(server, i->request, trace));
  if (failure != NULL) {
    enter(i, INFERENCE_REFUSED);
    atomic_fetch_sub_explicit(&i->users, more, memory_order_relaxed);
  } else if (enter(i, INFERENCE_RUNNING) != INFERENCE_DONE && atomic_load(&i->cancel_wanted)) {
    inference_cancel(i);
  }
  leave(i);
  return failure;
}

bool inference_is_done(const inference *i)
{
  return atomic_load(&i->state) == INFERENCE_DONE;
}

bool inference_wait(inference *i)
{
  return enter(i, INFERENCE_WAITING) != INFERENCE_DONE;
}

// The thread that sees both cancel_wanted and RUNNING or WAITING tells the core; see
// inference_submit.
void inference_cancel(inference *i)
{
  atomic_store(&i->cancel_wanted, true);
  if (i->wait != NULL)
    NEREID_ModelWaitCancel(i->wait);
  int state = atomic_load(&i->state);
  if ((state != INFERENCE_RUNNING && state != INFERENCE_WAITING) || !join(i))
    return;
  log_failure(i, "cancelling an inference request",
              TRITONSERVER_InferenceRequestCancel(i->request));
  leave(i);
}

TRITONSERVER_InferenceResponse *inference_take_response(inference *i)
{
  TRITONSERVER_InferenceResponse *response = i->response;
  i->response = NULL;
  return response;
}

void inference_delete_response(const inference *i, TRITONSERVER_InferenceResponse *response_owned)
{
  if (response_owned != NULL)
    log_failure(i, "deleting a response", TRITONSERVER_InferenceResponseDelete(response_owned));
}

void inference_settle(inference *i)
{
  inference_delete_response(i, inference_take_response(i));
  infer_tensors_give_back_spans(&i->tensors);
}

// SPDX-License-Identifier: Apache-2.0
// The life of an inference, with a core that does what a test says: which callbacks come when, in
// and after ServerInferAsync, and who is told, cancels and deletes.
#include "frontend/common/infer/inference.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

// ---- the core ----

static struct {
  TRITONSERVER_InferenceRequestReleaseFn_t release;
  TRITONSERVER_InferenceResponseCompleteFn_t complete;
  void *context;
  void (*in_submit)(void); // what comes before ServerInferAsync returns
  bool refuses;
  int requests, responses, cancels; // that exist; that were asked for
} core;

#define REQUEST  ((TRITONSERVER_InferenceRequest *)&core)
#define RESPONSE ((TRITONSERVER_InferenceResponse *)&core)

TRITONSERVER_Error *NEREID_InferenceRequestTryNew(TRITONSERVER_InferenceRequest **request,
                                                  TRITONSERVER_Server *server, const char *model,
                                                  const int64_t version)
{
  (void)server, (void)model, (void)version;
  *request = REQUEST;
  core.requests++;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestDelete(TRITONSERVER_InferenceRequest *request)
{
  assert_ptr_equal(request, REQUEST);
  core.requests--;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestCancel(TRITONSERVER_InferenceRequest *request)
{
  assert_ptr_equal(request, REQUEST);
  assert_int_equal(core.requests, 1);
  core.cancels++;
  return NULL;
}

TRITONSERVER_Error *
TRITONSERVER_InferenceRequestSetReleaseCallback(TRITONSERVER_InferenceRequest *request,
                                                TRITONSERVER_InferenceRequestReleaseFn_t release,
                                                void *context)
{
  (void)request;
  core.release = release;
  core.context = context;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetResponseCallback(
    TRITONSERVER_InferenceRequest *request, TRITONSERVER_ResponseAllocator *allocator,
    void *allocator_context, TRITONSERVER_InferenceResponseCompleteFn_t complete, void *context)
{
  (void)request, (void)allocator, (void)allocator_context, (void)context;
  core.complete = complete;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_ServerInferAsync(TRITONSERVER_Server *server,
                                                  TRITONSERVER_InferenceRequest *request,
                                                  TRITONSERVER_InferenceTrace *trace)
{
  (void)server, (void)request, (void)trace;
  if (core.refuses)
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "not now");
  if (core.in_submit != NULL)
    core.in_submit();
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceResponseDelete(TRITONSERVER_InferenceResponse *response)
{
  assert_ptr_equal(response, RESPONSE);
  core.responses--;
  return NULL;
}

static void respond(bool final)
{
  core.responses++;
  core.complete(RESPONSE, final ? TRITONSERVER_RESPONSE_COMPLETE_FINAL : 0, core.context);
}

static void release(void)
{
  core.release(REQUEST, TRITONSERVER_REQUEST_RELEASE_ALL, core.context);
}

static void respond_and_release(void)
{
  respond(true);
  release();
}

// ---- the front end ----

static struct {
  inference life;
  int references, told, passed_on;
} front;

static void ref(inference *i)
{
  assert_ptr_equal(i, &front.life);
  front.references++;
}

static void unref(inference *i)
{
  (void)i;
  assert_true(--front.references >= 0);
}

static void done(inference *i)
{
  assert_true(inference_is_done(i));
  front.told++;
}

static void pass_on(inference *i, TRITONSERVER_InferenceResponse *response_owned, bool final)
{
  (void) final;
  front.passed_on++;
  inference_delete_response(i, response_owned);
}

static const inference_hooks hooks = {
    .ref = ref, .unref = unref, .done = done, .respond = pass_on, .cancels_surplus = true};

static inference *begin(bool decoupled, bool sends_each)
{
  memset(&core, 0, sizeof(core));
  memset(&front, 0, sizeof(front));
  inference *i = &front.life;
  inference_init(i, &hooks, NULL, NULL, NULL);
  i->decoupled = decoupled;
  i->sends_each = sends_each;
  assert_null(inference_make_request(i, NULL));
  assert_null(inference_set_callbacks(i, NULL));
  assert_int_equal(front.references, 1);
  return i;
}

// Nothing may be left.
static void end(inference *i)
{
  inference_settle(i);
  assert_int_equal(core.responses, 0);
  assert_int_equal(core.requests, 0);
  assert_int_equal(front.references, 0);
  inference_fini(i);
}

// ---- tests ----

static void what_is_done_in_submit_is_not_waited_for(void **state)
{
  (void)state;
  inference *i = begin(false, false);
  core.in_submit = respond_and_release;
  assert_null(inference_submit(i, NULL));
  assert_true(inference_is_done(i));
  assert_false(inference_wait(i));
  assert_int_equal(front.told, 0);
  assert_ptr_equal(i->response, RESPONSE);
  end(i);
}

static void who_waits_is_told_once(void **state)
{
  (void)state;
  inference *i = begin(false, false);
  assert_null(inference_submit(i, NULL));
  assert_true(inference_wait(i));
  assert_int_equal(front.told, 0);
  release();
  respond(true);
  assert_int_equal(front.told, 1);
  end(i);
}

static void memory_of_the_client_is_waited_for(void **state)
{
  (void)state;
  shared_span span = {0};
  inference *i = begin(false, false);
  i->tensors.spans = &span;
  i->tensors.span_count = 1;
  assert_null(inference_submit(i, NULL));
  i->tensors.span_count = 0; // it has no region to give back
  assert_true(inference_wait(i));
  respond(true);
  assert_int_equal(front.told, 0);
  release();
  assert_int_equal(front.told, 1);
  end(i);
}

static void a_refused_request_is_deleted(void **state)
{
  (void)state;
  for (int decoupled = 0; decoupled < 2; decoupled++) {
    inference *i = begin(decoupled, decoupled);
    core.refuses = true;
    error *e = inference_submit(i, NULL);
    assert_string_equal(error_message(e), "not now");
    error_free(e);
    inference_cancel(i);
    assert_int_equal(core.cancels, 0);
    end(i);
  }
}

static void what_is_not_submitted_is_deleted(void **state)
{
  (void)state;
  inference *i = begin(true, true);
  inference_cancel(i);
  inference_abandon(i);
  assert_int_equal(core.cancels, 0);
  end(i);
}

static void a_wish_to_cancel_before_submit_is_kept(void **state)
{
  (void)state;
  inference *i = begin(false, false);
  inference_cancel(i);
  assert_int_equal(core.cancels, 0);
  assert_null(inference_submit(i, NULL));
  assert_int_equal(core.cancels, 1);
  assert_true(inference_wait(i));
  respond_and_release();
  end(i);
}

static void what_is_done_is_not_cancelled(void **state)
{
  (void)state;
  inference *i = begin(false, false);
  inference_cancel(i);
  core.in_submit = respond_and_release;
  assert_null(inference_submit(i, NULL));
  inference_cancel(i);
  assert_int_equal(core.cancels, 0);
  end(i);
}

static void a_decoupled_request_is_cancelled_behind_its_release(void **state)
{
  (void)state;
  inference *i = begin(true, true);
  assert_null(inference_submit(i, NULL));
  release();
  respond(false);
  inference_cancel(i);
  assert_int_equal(core.cancels, 1);
  assert_int_equal(core.requests, 1);
  core.complete(NULL, TRITONSERVER_RESPONSE_COMPLETE_FINAL, core.context);
  assert_int_equal(front.passed_on, 2);
  assert_int_equal(front.told, 0);
  end(i);
}

static void the_first_response_is_kept_and_a_second_cancels(void **state)
{
  (void)state;
  inference *i = begin(true, false);
  assert_null(inference_submit(i, NULL));
  assert_true(inference_wait(i));
  respond(false);
  assert_int_equal(core.cancels, 0);
  respond(false);
  assert_int_equal(core.cancels, 1);
  respond_and_release();
  assert_int_equal(front.told, 1);
  assert_int_equal(i->response_count, 3);
  assert_int_equal(core.responses, 1);
  assert_ptr_equal(inference_take_response(i), RESPONSE);
  inference_delete_response(i, RESPONSE);
  end(i);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_done_in_submit_is_not_waited_for),
      cmocka_unit_test(who_waits_is_told_once),
      cmocka_unit_test(memory_of_the_client_is_waited_for),
      cmocka_unit_test(a_refused_request_is_deleted),
      cmocka_unit_test(what_is_not_submitted_is_deleted),
      cmocka_unit_test(a_wish_to_cancel_before_submit_is_kept),
      cmocka_unit_test(what_is_done_is_not_cancelled),
      cmocka_unit_test(a_decoupled_request_is_cancelled_behind_its_release),
      cmocka_unit_test(the_first_response_is_kept_and_a_second_cancels),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

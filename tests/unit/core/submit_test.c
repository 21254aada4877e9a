// SPDX-License-Identifier: Apache-2.0
// What runs beside a submission, and what an instance executes with it. The queue may be one from
// which another thread takes the request at once: by the time that it returns the request is
// answered, its client has deleted it, and its model is unloaded. The backend executes in two
// parts.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/execute.h"
#include "core/model.h"
#include "core/model_queue.h"
#include "core/refuse.h"
#include "core/submit.h"

static model played;
static bool is_unreferenced;
static enum {
  QUEUE_REFUSES,
  QUEUE_IS_LEFT_AT_ONCE,
  QUEUE_KEEPS
} queue_kind;
static unsigned answers;

bool __wrap_model_queue_add(model *m, request *r, refusal *reason);

// What other threads do while the submitter is still in here.
bool __wrap_model_queue_add(model *m, request *r, refusal *reason)
{
  *reason = REFUSAL_STOPPED;
  if (queue_kind == QUEUE_REFUSES)
    return false;
  if (queue_kind == QUEUE_KEEPS)
    return scheduler_enqueue(m->shared.scheduler, &r->item, reason);
  request_set_state(r, REQUEST_EXECUTING);
  refuse_request(r, error_new(ERROR_INTERNAL, "played"), FAILURE_OTHER);
  model_unref(m); // the server's
  assert_false(is_unreferenced);
  return true;
}

static void unreferenced(request_target *target)
{
  assert_ptr_equal(target, &played.target);
  is_unreferenced = true;
}

static void answered(TRITONSERVER_InferenceResponse *answer, uint32_t flags, void *context)
{
  (void)context;
  assert_int_equal(flags, TRITONSERVER_RESPONSE_COMPLETE_FINAL);
  response_free(answer);
  answers++;
}

static void released(TRITONSERVER_InferenceRequest *r, uint32_t flags, void *context)
{
  (void)context;
  assert_int_equal(flags, TRITONSERVER_REQUEST_RELEASE_ALL);
  request_free(r);
}

// ---- a backend that takes several executions

static request *begun[8];
static size_t begun_count, ended_count;

static TRITONSERVER_Error *begin(instance *i, TRITONBACKEND_Request **requests, uint32_t count,
                                 bool *pending)
{
  (void)i;
  assert_int_equal(count, 1);
  begun[begun_count++] = (request *)requests[0];
  *pending = true;
  return NULL;
}

static void end(instance *i, int64_t timeout_us, bool *pending)
{
  (void)i, (void)timeout_us;
  *pending = false;
  refuse_request(begun[ended_count++], error_new(ERROR_INTERNAL, "played"), FAILURE_OTHER);
}

static uint32_t max_executions(instance *i)
{
  (void)i;
  return 4;
}

static request *make_request(void)
{
  request *r;
  assert_null(request_new(&played.target, &r));
  r->response_callback = answered;
  r->release_callback = released;
  return r;
}

static int set_up(void **state)
{
  static backend backend = {.name = (char *)"played",
                            .functions = {.model_instance_execute_begin = begin,
                                          .model_instance_execute_end = end,
                                          .model_instance_max_executions = max_executions}};
  played = (model){.target = {.name = "played", .unreferenced = unreferenced}};
  played.shared.target = &played.target;
  played.shared.backend = &backend;
  played.shared.instance_count = 1;
  played.shared.typical_ns = INSTANCE_SLOW_NS;
  played.started = true;
  begun_count = ended_count = 0;
  refcount_init(&played.target.references);
  is_unreferenced = false;
  answers = 0;
  assert_null(statistics_init(&played.target.shared_statistics, 0));
  *state = make_request();
  return 0;
}

static int tear_down(void **state)
{
  (void)state;
  statistics_fini(&played.target.shared_statistics);
  return 0;
}

static void a_model_outlives_the_submission_that_its_last_request_has_left(void **state)
{
  queue_kind = QUEUE_IS_LEFT_AT_ONCE;
  assert_null(submit_request(*state, NULL));
  assert_int_equal(answers, 1);
  assert_true(is_unreferenced);
}

static void a_refused_request_stays_the_callers(void **state)
{
  queue_kind = QUEUE_REFUSES;
  error *e = submit_request(*state, NULL);
  assert_int_equal(error_get_code(e), ERROR_UNAVAILABLE);
  error_free(e);
  assert_int_equal(answers, 0);
  model_unref(&played); // the server's
  assert_false(is_unreferenced);
  request_free(*state);
  assert_true(is_unreferenced);
}

// `r` as a sample.
static void warm_up(instance *i, request *r)
{
  assert_null(request_prepare(r));
  submit_to_instance(i, &r, 1);
}

// A request that the instance has taken.
static void execute_one(instance *i)
{
  request *taken = make_request();
  assert_null(request_prepare(taken));
  i->items[0] = &taken->item;
  taken->factory->answer_owed = true;
  request_set_state(taken, REQUEST_PENDING);
  execute(i, 1);
}

static void an_instance_that_warms_up_executes_nothing_of_clients(void **state)
{
  request *client = *state;
  instance i = {.shared = &played.shared};
  const scheduler_config plain = {0};
  assert_null(scheduler_new(&plain, clock_system(), NULL, refuse_item, NULL, &i.scheduler));
  played.shared.scheduler = i.scheduler;
  assert_null(instance_make_room(&i, 1));
  queue_kind = QUEUE_KEEPS;
  client->may_run_inline = true; // and ahead
  assert_null(submit_request(client, NULL));
  warm_up(&i, make_request());
  assert_true(begun_count == 1 && answers == 1);
  assert_int_equal(scheduler_pending(i.scheduler), 1);
  execute_one(&i); // as any request: the client's is executed with it
  assert_true(begun_count == 3 && begun[2] == client && answers == 3);
  instance_free_room(&i);
  scheduler_free(i.scheduler);
  model_unref(&played);
}

static void what_waits_is_left_to_an_instance_of_the_same_queue_only(void **state)
{
  request *client = *state;
  instance i = {.shared = &played.shared};
  const scheduler_config plain = {0};
  assert_null(scheduler_new(&plain, clock_system(), NULL, refuse_item, NULL, &i.scheduler));
  played.shared.scheduler = i.scheduler;
  played.shared.instance_count = 2;
  assert_null(instance_make_room(&i, 1));
  queue_kind = QUEUE_KEEPS;
  client->may_run_inline = true;
  assert_null(submit_request(client, NULL));
  execute_one(&i);
  assert_int_equal(begun_count, 1); // the client's is the other instance's
  played.shared.scheduler = NULL;   // as with sequences: each instance has a queue of its own
  execute_one(&i);
  assert_true(begun_count == 3 && begun[2] == client && answers == 3);
  instance_free_room(&i);
  scheduler_free(i.scheduler);
  model_unref(&played);
}

static void
a_slower_model_runs_on_the_submitting_thread_where_nobody_else_waits_for_it(void **state)
{
  static const struct {
    uint64_t typical_ns;
    bool is_alone, in_two_parts, expected;
  } cases[] = {
      {50000, false, false, true},  {50000, false, true, true},    {50001, false, false, false},
      {50001, true, false, true},   {50001, true, true, false},    {500000, true, false, true},
      {500001, true, false, false}, {500000, false, false, false},
  };
  request *r = *state;
  backend whole = {.name = (char *)"whole", .computes = true};
  backend *in_two_parts = played.shared.backend;
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    played.shared.backend = cases[i].in_two_parts ? in_two_parts : &whole;
    atomic_store(&played.shared.typical_ns, cases[i].typical_ns);
    r->is_alone = cases[i].is_alone;
    r->may_run_inline = true;
    assert_int_equal(submission_may_run_here(&played, r), cases[i].expected);
    r->may_run_inline = false;
    assert_false(submission_may_run_here(&played, r));
  }
  request_free(r);
  model_unref(&played);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(
          a_model_outlives_the_submission_that_its_last_request_has_left, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_refused_request_stays_the_callers, set_up, tear_down),
      cmocka_unit_test_setup_teardown(
          a_slower_model_runs_on_the_submitting_thread_where_nobody_else_waits_for_it, set_up,
          tear_down),
      cmocka_unit_test_setup_teardown(an_instance_that_warms_up_executes_nothing_of_clients, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(what_waits_is_left_to_an_instance_of_the_same_queue_only,
                                      set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// Who is lent when calls of workers go in a circle, and who is not. The server and the workers are
// played: what is sent to a worker is kept, requests are addresses.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "codec/protocol.h"
#include "instance/circle.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum {
  MOST = 16
};

// ---- what is played

static int servers[2];
static char requests[MOST];
static atomic_size_t lends, cancels, holds;
static worker_link *lent_link; // of the last one
static uint64_t lent_id;
static circle_member looked_at; // of no model

void worker_link_reply(worker_link *self, const channel_message *reply)
{
  assert_int_equal(reply->kind, CALL_INFER);
  assert_int_equal(reply->flags, REPLY_LEND);
  lent_link = self;
  lent_id = reply->id;
  atomic_fetch_add(&lends, 1);
}

static void hold(struct calls *calls)
{
  assert_ptr_equal(calls, servers);
  atomic_fetch_add(&holds, 1);
}

// A server may answer at once, on this thread: the table must not be locked.
static void cancel(struct calls *calls, uint64_t id)
{
  assert_ptr_equal(calls, servers);
  assert_true(id > 0);
  assert_false(circle_is_waiting(&looked_at));
  assert_true(atomic_fetch_sub(&holds, 1) > 0);
  atomic_fetch_add(&cancels, 1);
}

static const circle_caller taker_back = {hold, cancel};

static TRITONSERVER_Server *server_of(int number)
{
  return (TRITONSERVER_Server *)&servers[number];
}

static TRITONSERVER_InferenceRequest *request_of(int number)
{
  return (TRITONSERVER_InferenceRequest *)&requests[number];
}

static python_model model_of(const char *name)
{
  return (python_model){.name = (char *)name, .version = 1, .server = server_of(0)};
}

static int forget_what_was(void **state)
{
  (void)state;
  lends = cancels = 0;
  lent_link = NULL;
  lent_id = 0;
  return 0;
}

// Call `number` of `member`, made by its execution `execution`, to `model`.
static void open_call(circle_call *call, int number, circle_member *member, const char *model,
                      bool waits)
{
  *call = (circle_call){.caller = &taker_back,
                        .calls = (struct calls *)servers,
                        .server = server_of(0),
                        .model = model,
                        .link = (worker_link *)member,
                        .id = (uint64_t)number,
                        .execution = 1};
  circle_open(call, member, waits);
}

static bool call(circle_call *call, int number, circle_member *member, const char *model)
{
  open_call(call, number, member, model, true);
  return circle_submit(call, request_of(number), 1);
}

// `by` begins the execution of one call.
static void begin(circle_work *work, circle_member *by, uint64_t execution, int number)
{
  TRITONBACKEND_Request *request = (TRITONBACKEND_Request *)request_of(number);
  assert_true(circle_has_call(&request, 1));
  assert_true(circle_executing(work, by, execution, &request, 1));
}

static void end(circle_call *call)
{
  circle_reply(call, true);
  circle_released(call);
}

static void assert_lent(const circle_member *member, int number)
{
  assert_ptr_equal(lent_link, member);
  assert_int_equal(lent_id, number);
  assert_false(circle_is_waiting(member));
}

// ---- who is lent

static void the_only_instance_of_a_model_that_calls_itself_is_lent(void **state)
{
  (void)state;
  python_model a = model_of("a");
  circle_member one = {0};
  circle_call first;
  circle_join(&one, &a);
  assert_true(call(&first, 1, &one, "a"));
  assert_int_equal(lends, 1);
  assert_lent(&one, 1);
  assert_true(circle_reply(&first, true)); // and is told to go on
  circle_released(&first);
  circle_part(&one);
}

static void an_instance_that_does_not_wait_serves_the_call(void **state)
{
  (void)state;
  python_model a = model_of("a");
  circle_member one = {0}, other = {0};
  circle_call first, second;
  circle_join(&one, &a);
  circle_join(&other, &a);
  assert_true(call(&first, 1, &one, "a"));
  assert_int_equal(lends, 0);
  assert_true(call(&second, 2, &other, "a")); // now both wait
  assert_int_equal(lends, 1);
  assert_int_equal(circle_is_waiting(&one) + circle_is_waiting(&other), 1);
  end(&first);
  end(&second);
  circle_part(&one);
  circle_part(&other);
}

static void of_two_models_that_call_each_other_the_first_is_lent(void **state)
{
  (void)state;
  python_model a = model_of("a"), b = model_of("b");
  circle_member of_a = {0}, of_b = {0};
  circle_call to_b, to_a;
  circle_work work;
  circle_join(&of_a, &a);
  circle_join(&of_b, &b);
  assert_true(call(&to_b, 1, &of_a, "b"));
  begin(&work, &of_b, 1, 1);
  assert_int_equal(lends, 0);
  assert_true(call(&to_a, 2, &of_b, "a"));
  assert_int_equal(lends, 1);
  assert_lent(&of_a, 1);
  assert_true(circle_is_waiting(&of_b));
  assert_false(circle_reply(&to_a, true)); // b was not lent
  circle_released(&to_a);
  assert_true(circle_reply(&to_b, true));
  circle_executed(&work);
  circle_released(&to_b);
  circle_part(&of_a);
  circle_part(&of_b);
}

static void a_call_that_was_given_to_an_instance_that_waits_lends_it(void **state)
{
  (void)state;
  python_model b = model_of("b"), c = model_of("c");
  circle_member of_b = {0}, free_of_b = {0}, of_c = {0};
  circle_call b_to_c, c_to_b;
  circle_work works[2];
  circle_join(&of_b, &b);
  circle_join(&free_of_b, &b);
  circle_join(&of_c, &c);
  assert_true(call(&b_to_c, 1, &of_b, "c"));
  begin(&works[0], &of_c, 1, 1);
  assert_true(call(&c_to_b, 2, &of_c, "b"));
  assert_int_equal(lends, 0);    // another instance is free
  begin(&works[1], &of_b, 2, 2); // but it was given to the one that waits
  assert_int_equal(lends, 1);
  assert_lent(&of_b, 1);
  end(&c_to_b);
  circle_executed(&works[1]);
  end(&b_to_c);
  circle_executed(&works[0]);
  assert_int_equal(lends, 1);
  circle_part(&of_b);
  circle_part(&free_of_b);
  circle_part(&of_c);
}

static void of_instances_that_all_wait_the_one_with_the_lowest_stack_is_lent(void **state)
{
  (void)state;
  python_model a = model_of("a");
  circle_member high = {0}, low = {0};
  circle_call first, second;
  circle_join(&low, &a);
  circle_join(&high, &a);
  circle_count(&high, 3);
  circle_count(&low, 2);
  assert_true(call(&first, 1, &low, "a"));
  assert_true(call(&second, 2, &high, "a"));
  assert_lent(&low, 1);
  end(&first);
  end(&second);
  circle_part(&high);
  circle_part(&low);
}

// ---- who is not

static void who_waits_for_another_backend_is_not_lent(void **state)
{
  (void)state;
  python_model a = model_of("a"), b = model_of("b");
  circle_member of_a = {0}, of_b = {0};
  circle_call to_other, to_a;
  circle_join(&of_a, &a);
  circle_join(&of_b, &b);
  assert_true(call(&to_other, 1, &of_a, "onnx"));
  assert_true(call(&to_a, 2, &of_b, "a"));
  assert_int_equal(lends, 0);
  circle_released(&to_other);
  end(&to_other);
  assert_int_equal(lends, 0);
  end(&to_a);
  circle_part(&of_a);
  circle_part(&of_b);
}

static void a_call_of_a_coroutine_lends_nobody(void **state)
{
  (void)state;
  python_model a = model_of("a"), b = model_of("b");
  circle_member of_a = {0}, of_b = {0};
  circle_call to_b, to_a;
  circle_work work;
  circle_join(&of_a, &a);
  circle_join(&of_b, &b);
  open_call(&to_b, 1, &of_a, "b", false); // a takes further work
  assert_true(circle_submit(&to_b, request_of(1), 1));
  begin(&work, &of_b, 1, 1);
  assert_true(call(&to_a, 2, &of_b, "a"));
  assert_int_equal(lends, 0);
  end(&to_a);
  end(&to_b);
  circle_executed(&work);
  circle_part(&of_a);
  circle_part(&of_b);
}

static void a_model_of_the_same_name_on_another_server_is_another(void **state)
{
  (void)state;
  python_model a = model_of("a"), same = model_of("a");
  circle_member one = {0}, other = {0};
  circle_call first;
  same.server = server_of(1);
  circle_join(&one, &a);
  circle_join(&other, &same);
  assert_true(call(&first, 1, &one, "a"));
  assert_lent(&one, 1); // `other` does not serve it
  end(&first);
  circle_part(&one);
  circle_part(&other);
}

// A version that comes while the call is on its way may be the one that gets it.
static void a_call_that_names_no_version_may_be_for_any(void **state)
{
  (void)state;
  python_model b = model_of("b"), old = model_of("a"), new = model_of("a");
  circle_member of_b = {0}, of_old = {0}, of_new = {0};
  circle_call to_b, to_a, named;
  circle_work work;
  new.version = 2;
  circle_join(&of_b, &b);
  circle_join(&of_old, &old); // is free
  circle_join(&of_new, &new);
  assert_true(call(&to_b, 1, &of_new, "b"));
  begin(&work, &of_b, 1, 1);
  assert_true(call(&named, 2, &of_b, "a")); // version 1
  assert_int_equal(lends, 0);
  end(&named);
  open_call(&to_a, 3, &of_b, "a", true);
  assert_true(circle_submit(&to_a, request_of(3), -1));
  assert_int_equal(lends, 1);
  assert_lent(&of_new, 1);
  end(&to_a);
  end(&to_b);
  circle_executed(&work);
  circle_part(&of_b);
  circle_part(&of_old);
  circle_part(&of_new);
}

static void of_versions_that_all_wait_each_is_lent(void **state)
{
  (void)state;
  python_model old = model_of("a"), new = model_of("a");
  circle_member of_old = {0}, of_new = {0};
  circle_call first, second;
  new.version = 2;
  circle_join(&of_old, &old);
  circle_join(&of_new, &new);
  open_call(&first, 1, &of_old, "other", true);
  assert_true(circle_submit(&first, request_of(1), -1));
  open_call(&second, 2, &of_new, "a", true);
  assert_true(circle_submit(&second, request_of(2), -1));
  assert_int_equal(lends, 1);
  assert_lent(&of_new, 2); // the other waits for what will come
  end(&first);
  end(&second);
  circle_part(&of_old);
  circle_part(&of_new);
}

// ---- limits and ends

static void a_call_that_needs_too_deep_a_stack_is_not_submitted(void **state)
{
  (void)state;
  python_model a = model_of("a");
  circle_member one = {0};
  circle_call first;
  circle_join(&one, &a);
  circle_count(&one, MAX_CIRCLE_DEPTH);
  assert_false(call(&first, 1, &one, "a"));
  assert_int_equal(lends + cancels, 0);
  assert_false(circle_reply(&first, true));
  circle_released(&first);
  circle_part(&one);
}

static void a_queued_call_for_which_nobody_can_be_lent_is_cancelled(void **state)
{
  (void)state;
  python_model a = model_of("a"), b = model_of("b");
  circle_member of_a = {0}, of_b = {0};
  circle_call to_b, to_a;
  circle_join(&of_a, &a);
  circle_join(&of_b, &b);
  circle_count(&of_a, MAX_CIRCLE_DEPTH);
  circle_count(&of_b, MAX_CIRCLE_DEPTH);
  open_call(&to_a, 1, &of_b, "a", false);
  assert_true(circle_submit(&to_a, request_of(1), 1));
  assert_true(call(&to_b, 2, &of_a, "b"));
  circle_wait(&of_b, 1, 0); // now b waits for a and a for b
  assert_int_equal(lends, 0);
  assert_int_equal(cancels, 1);
  assert_true(circle_is_refused(&to_a) != circle_is_refused(&to_b));
  end(&to_a);
  end(&to_b);
  circle_part(&of_a);
  circle_part(&of_b);
}

static void who_waits_for_a_reply_that_has_come_does_not_wait(void **state)
{
  (void)state;
  python_model a = model_of("a");
  circle_member one = {0};
  circle_call first;
  circle_join(&one, &a);
  open_call(&first, 1, &one, "a", false);
  assert_true(circle_submit(&first, request_of(1), 1));
  assert_int_equal(lends, 0);
  assert_false(circle_reply(&first, false));
  circle_wait(&one, 1, 0); // the first reply is on its way
  assert_int_equal(lends, 0);
  assert_false(circle_is_waiting(&one));
  circle_wait(&one, 7, 0); // there is no such call
  assert_false(circle_is_waiting(&one));
  circle_wait(&one, 1, 1);
  assert_lent(&one, 1);
  assert_true(circle_reply(&first, true));
  circle_released(&first);
  circle_part(&one);
}

static void a_worker_that_is_gone_has_no_calls_and_keeps_nobody(void **state)
{
  (void)state;
  python_model a = model_of("a"), b = model_of("b");
  circle_member of_a = {0}, of_b = {0};
  circle_call to_b, to_a;
  circle_work work;
  TRITONBACKEND_Request *request = (TRITONBACKEND_Request *)request_of(1);
  circle_join(&of_a, &a);
  circle_join(&of_b, &b);
  assert_true(call(&to_b, 1, &of_a, "b"));
  begin(&work, &of_b, 1, 1);
  circle_forget(&of_a);
  assert_false(circle_is_waiting(&of_a));
  assert_false(circle_has_call(&request, 1));
  assert_true(call(&to_a, 2, &of_b, "a"));
  assert_int_equal(lends, 0); // the next worker of a does not wait
  end(&to_b);
  end(&to_a);
  circle_executed(&work);
  circle_part(&of_a);
  circle_part(&of_b);
}

// ---- threads

typedef struct caller {
  circle_member member;
  const python_model *model;
  int number;
} caller;

static void *call_oneself(void *argument)
{
  caller *self = argument;
  for (int i = 0; i < 2000; i++) {
    circle_call outer, inner;
    circle_work work;
    TRITONBACKEND_Request *request = (TRITONBACKEND_Request *)request_of(self->number);
    open_call(&outer, self->number, &self->member, self->model->name, true);
    bool sent = circle_submit(&outer, request_of(self->number), 1);
    bool has_calls = sent && circle_executing(&work, &self->member, 2, &request, 1);
    open_call(&inner, self->number, &self->member, "other", false);
    end(&inner);
    end(&outer);
    if (has_calls)
      circle_executed(&work);
  }
  return NULL;
}

static void calls_of_many_threads_leave_nothing(void **state)
{
  (void)state;
  static caller callers[8];
  python_model models[2] = {model_of("a"), model_of("b")};
  pthread_t threads[8];
  for (int i = 0; i < 8; i++) {
    callers[i] = (caller){.model = &models[i % 2], .number = i};
    circle_join(&callers[i].member, callers[i].model);
  }
  for (int i = 0; i < 8; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, call_oneself, &callers[i]), 0);
  for (int i = 0; i < 8; i++)
    pthread_join(threads[i], NULL);
  for (int i = 0; i < 8; i++) {
    TRITONBACKEND_Request *request = (TRITONBACKEND_Request *)request_of(i);
    assert_false(circle_has_call(&request, 1));
    assert_null(callers[i].member.calls);
    assert_null(callers[i].member.works);
    assert_false(circle_is_waiting(&callers[i].member));
    circle_part(&callers[i].member);
  }
  assert_int_equal(cancels, 0);
}

#define TEST(name) cmocka_unit_test_setup(name, forget_what_was)

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(the_only_instance_of_a_model_that_calls_itself_is_lent),
      TEST(an_instance_that_does_not_wait_serves_the_call),
      TEST(of_two_models_that_call_each_other_the_first_is_lent),
      TEST(a_call_that_was_given_to_an_instance_that_waits_lends_it),
      TEST(of_instances_that_all_wait_the_one_with_the_lowest_stack_is_lent),
      TEST(who_waits_for_another_backend_is_not_lent),
      TEST(a_call_of_a_coroutine_lends_nobody),
      TEST(a_model_of_the_same_name_on_another_server_is_another),
      TEST(a_call_that_names_no_version_may_be_for_any),
      TEST(of_versions_that_all_wait_each_is_lent),
      TEST(a_call_that_needs_too_deep_a_stack_is_not_submitted),
      TEST(a_queued_call_for_which_nobody_can_be_lent_is_cancelled),
      TEST(who_waits_for_a_reply_that_has_come_does_not_wait),
      TEST(a_worker_that_is_gone_has_no_calls_and_keeps_nobody),
      TEST(calls_of_many_threads_leave_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// Which waits close a circle, what the text says then, and which do not. Requests are addresses.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "instance/wait_graph.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
  MOST = 8
};

static char models[MOST]; // their addresses are the models
static char requests[MOST];
static const char *const names[] = {"a", "b", "c"};

static const struct TRITONBACKEND_Model *model_of(int number)
{
  return (const struct TRITONBACKEND_Model *)&models[number];
}

// An instance of a model, which is version number + 1.
static void join(wait_node *node, int model)
{
  *node =
      (wait_node){.model = model_of(model), .name = names[model], .version = (uint64_t)model + 1};
  wait_graph_join(node);
}

// Call `number` of `node`, to `model`, for which the thread of its `execution` waits.
static char *wait_for(wait_call *call, int number, wait_node *node, uint64_t execution, int model)
{
  *call = (wait_call){0};
  wait_graph_open(call, node, &requests[number], model_of(model));
  return wait_graph_wait(call, WAIT_THREAD, execution, false, 0);
}

static void end(wait_call *call)
{
  wait_graph_released(call);
  wait_graph_reply(call, true);
}

static void assert_circle(char *text, const char *expected)
{
  assert_non_null(text);
  assert_true(strncmp(text, expected, strlen(expected)) == 0);
  assert_non_null(strstr(text, "one more instance of it (instance_group)"));
  free(text);
}

static void a_model_that_calls_itself_is_told(void **state)
{
  (void)state;
  wait_node a;
  wait_call call;
  join(&a, 0);
  assert_circle(wait_for(&call, 0, &a, 1, 0),
                "model 'a' would wait for itself: a (version 1) -> a (version 1);");
  assert_false(wait_graph_is_waiting(&a));
  assert_false(wait_graph_reply(&call, true)); // the server's answer is not sent
  wait_graph_released(&call);
  wait_graph_leave(&a);
}

static void the_call_that_closes_the_circle_is_told_of_all_models_in_it(void **state)
{
  (void)state;
  wait_node a, b, c;
  wait_call calls[3];
  join(&a, 0), join(&b, 1), join(&c, 2);
  assert_null(wait_for(&calls[0], 0, &a, 1, 1));
  assert_null(wait_graph_give(&b, 5, &requests[0]));
  assert_null(wait_for(&calls[1], 1, &b, 5, 2));
  assert_null(wait_graph_give(&c, 7, &requests[1]));
  assert_circle(
      wait_for(&calls[2], 2, &c, 7, 0),
      "model 'c' would wait for itself: c (version 3) -> a (version 1) -> b (version 2) -> c "
      "(version 3);");
  for (int i = 2; i >= 0; i--)
    assert_int_equal(wait_graph_reply(&calls[i], true), i < 2);
  wait_graph_leave(&a), wait_graph_leave(&b), wait_graph_leave(&c);
}

static void a_chain_is_no_circle(void **state)
{
  (void)state;
  wait_node a, b, c;
  wait_call calls[2];
  join(&a, 0), join(&b, 1), join(&c, 2);
  assert_null(wait_for(&calls[0], 0, &a, 1, 1));
  assert_true(wait_graph_is_waiting(&a));
  assert_null(wait_graph_give(&b, 1, &requests[0]));
  assert_null(wait_for(&calls[1], 1, &b, 1, 2));
  end(&calls[1]);
  assert_false(wait_graph_is_waiting(&b));
  end(&calls[0]);
  wait_graph_leave(&a), wait_graph_leave(&b), wait_graph_leave(&c);
}

static void only_when_all_instances_wait_it_is_one(void **state)
{
  (void)state;
  wait_node a[2], b;
  wait_call calls[3];
  join(&a[0], 0), join(&a[1], 0), join(&b, 1);
  assert_null(wait_for(&calls[0], 0, &a[0], 1, 0)); // for the other one
  assert_null(wait_for(&calls[1], 1, &a[1], 1, 1)); // which waits for one that is free
  assert_null(wait_graph_give(&b, 1, &requests[1]));
  assert_circle(
      wait_for(&calls[2], 2, &b, 1, 0),
      "model 'b' would wait for itself: b (version 2) -> a (version 1) -> b (version 2);");
  end(&calls[2]), end(&calls[1]), end(&calls[0]);
  wait_graph_leave(&a[0]), wait_graph_leave(&a[1]), wait_graph_leave(&b);
}

static void another_version_and_a_model_that_is_unknown_are_none(void **state)
{
  (void)state;
  wait_node a, newer;
  wait_call call;
  join(&a, 0), join(&newer, 1); // a model that is loaded anew is another one, of the same name
  assert_null(wait_for(&call, 0, &a, 1, 1));
  end(&call);
  call = (wait_call){0};
  wait_graph_open(&call, &a, &requests[0], NULL);
  assert_null(wait_graph_wait(&call, WAIT_THREAD, 1, false, 0));
  end(&call);
  wait_graph_leave(&a), wait_graph_leave(&newer);
}

static void who_does_not_wait_is_in_no_circle(void **state)
{
  (void)state;
  wait_node a;
  wait_call call = {0};
  join(&a, 0);
  wait_graph_open(&call, &a, &requests[0], model_of(0));
  assert_false(wait_graph_is_waiting(&a));
  assert_true(wait_graph_reply(&call, false));
  assert_null(wait_graph_wait(&call, WAIT_THREAD, 1, false, 0)); // a reply has come meanwhile
  assert_false(wait_graph_is_waiting(&a));
  assert_circle(wait_graph_wait(&call, WAIT_THREAD, 1, false, 1),
                "model 'a' would wait for itself");
  end(&call);
  wait_graph_leave(&a);
}

// a waits for b's execution 1; b waits for a in its execution `execution`.
static char *close_at(uint64_t execution, bool is_shared)
{
  wait_node a, b;
  wait_call calls[2] = {0};
  join(&a, 0), join(&b, 1);
  assert_null(wait_for(&calls[0], 0, &a, 1, 1));
  assert_null(wait_graph_give(&b, 2, &requests[0]));
  wait_graph_open(&calls[1], &b, &requests[1], model_of(0));
  char *text = wait_graph_wait(&calls[1], WAIT_THREAD, execution, is_shared, 0);
  end(&calls[1]), end(&calls[0]);
  wait_graph_leave(&a), wait_graph_leave(&b);
  return text;
}

static void executions_of_a_worker_end_in_their_order(void **state)
{
  (void)state;
  assert_circle(close_at(1, false),
                "model 'b' would wait for itself: b"); // the call comes after it
  assert_circle(close_at(2, false), "model 'b' would wait for itself: b");
  assert_null(close_at(3, false)); // it has been answered, though that has not been read yet
}

static void another_thread_of_the_worker_may_answer(void **state)
{
  (void)state;
  assert_null(close_at(2, true));
  assert_circle(close_at(1, true), "model 'b' would wait for itself: b"); // not what comes after it
}

static void coroutines_wait_for_their_own_execution(void **state)
{
  (void)state;
  for (uint64_t execution = 1; execution <= 3; execution++) {
    wait_node a, b;
    wait_call calls[2] = {0};
    join(&a, 0), join(&b, 1);
    assert_null(wait_for(&calls[0], 0, &a, 1, 1));
    assert_null(wait_graph_give(&b, 2, &requests[0]));
    wait_graph_open(&calls[1], &b, &requests[1], model_of(0));
    char *text = wait_graph_wait(&calls[1], WAIT_COROUTINE, execution, false, 0);
    assert_false(wait_graph_is_waiting(&b)); // its worker takes work
    if (execution == 2)
      assert_circle(text, "model 'b' would wait for itself: b (version 2) -> a (version 1) -> b");
    else
      assert_null(text);
    end(&calls[1]), end(&calls[0]);
    wait_graph_leave(&a), wait_graph_leave(&b);
  }
}

// Given to an instance that has come to wait meanwhile, of two.
static void a_call_that_is_given_to_who_waits_for_it_is_told(void **state)
{
  (void)state;
  wait_node a, b[2];
  wait_call calls[2] = {0};
  join(&a, 0), join(&b[0], 1), join(&b[1], 1);
  assert_null(wait_for(&calls[0], 0, &a, 1, 1));
  assert_null(wait_for(&calls[1], 1, &b[0], 4, 0));
  assert_circle(
      wait_graph_give(&b[0], 5, &requests[0]),
      "model 'a' would wait for itself: a (version 1) -> b (version 2) -> a (version 1);");
  end(&calls[0]), end(&calls[1]);
  wait_graph_leave(&a), wait_graph_leave(&b[0]), wait_graph_leave(&b[1]);
}

static void what_a_worker_had_under_way_goes_with_it(void **state)
{
  (void)state;
  wait_node a, b;
  wait_call calls[2];
  join(&a, 0), join(&b, 1);
  assert_null(wait_for(&calls[0], 0, &a, 1, 1));
  wait_graph_forget(&a);
  assert_false(wait_graph_is_waiting(&a));
  assert_null(wait_for(&calls[1], 1, &b, 1, 0));
  end(&calls[0]), end(&calls[1]);
  wait_graph_leave(&a), wait_graph_leave(&b);
}

// As in auto_complete_config, and in instances that are given no requests.
static void a_call_of_who_has_not_joined_is_not_in_the_graph(void **state)
{
  (void)state;
  wait_node a = {.model = model_of(0), .name = names[0], .version = 1}, b;
  wait_call calls[2] = {0};
  join(&b, 1);
  assert_null(wait_for(&calls[0], 0, &a, 1, 1));
  assert_false(wait_graph_is_waiting(&a));
  assert_null(wait_graph_give(&b, 1, &requests[0]));
  wait_graph_join(&a);
  assert_null(wait_for(&calls[1], 1, &b, 1, 0)); // it waits for nothing that b has
  wait_graph_leave(&b);
  assert_null(wait_graph_wait(&calls[0], WAIT_THREAD, 2, false, 0));
  end(&calls[0]), end(&calls[1]);
  wait_graph_leave(&a);
}

static void *call_in_turn(void *argument)
{
  wait_node *a = argument, own;
  join(&own, 2);
  for (int i = 0; i < 2000; i++) {
    char request;
    wait_call call = {0};
    wait_graph_open(&call, &own, &request, a->model);
    assert_null(wait_graph_wait(&call, WAIT_THREAD, 1, false, 0));
    assert_null(wait_graph_give(a, (uint64_t)i, &request));
    end(&call);
  }
  wait_graph_leave(&own);
  return NULL;
}

static void threads_may_do_all_that_at_once(void **state)
{
  (void)state;
  wait_node a;
  pthread_t threads[4];
  join(&a, 0);
  for (int i = 0; i < 4; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, call_in_turn, &a), 0);
  for (int i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
  wait_graph_leave(&a);
}

static void who_never_joined_may_leave(void **state)
{
  (void)state;
  wait_node never = {.model = model_of(0), .name = names[0], .version = 1};
  wait_call call = {0};
  wait_graph_open(&call, &never, &requests[0], model_of(0));
  assert_null(call.node); // it is not in the graph
  assert_null(wait_graph_wait(&call, WAIT_THREAD, 1, false, 0));
  wait_graph_forget(&never);
  wait_graph_leave(&never);
  wait_graph_leave(&never);
  wait_graph_join(&never); // and may join after that
  assert_circle(wait_for(&call, 0, &never, 1, 0), "model 'a' would wait for itself");
  wait_graph_released(&call);
  wait_graph_reply(&call, true);
  wait_graph_leave(&never);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(who_never_joined_may_leave),
      cmocka_unit_test(a_model_that_calls_itself_is_told),
      cmocka_unit_test(the_call_that_closes_the_circle_is_told_of_all_models_in_it),
      cmocka_unit_test(a_chain_is_no_circle),
      cmocka_unit_test(only_when_all_instances_wait_it_is_one),
      cmocka_unit_test(another_version_and_a_model_that_is_unknown_are_none),
      cmocka_unit_test(who_does_not_wait_is_in_no_circle),
      cmocka_unit_test(executions_of_a_worker_end_in_their_order),
      cmocka_unit_test(another_thread_of_the_worker_may_answer),
      cmocka_unit_test(coroutines_wait_for_their_own_execution),
      cmocka_unit_test(a_call_that_is_given_to_who_waits_for_it_is_told),
      cmocka_unit_test(what_a_worker_had_under_way_goes_with_it),
      cmocka_unit_test(a_call_of_who_has_not_joined_is_not_in_the_graph),
      cmocka_unit_test(threads_may_do_all_that_at_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

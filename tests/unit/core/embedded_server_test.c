// SPDX-License-Identifier: Apache-2.0
// What a program that embeds servers may ask of them: options and names of models that are refused,
// two repositories, two servers in one process.
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "embedded_server.h"
#include "nereid/nereid.h"

static void impossible_options_are_refused_by_name(void **state)
{
  (void)state;
  TRITONSERVER_Server *server;
  TRITONSERVER_ServerOptions *options = options_for(TRITONSERVER_MODEL_CONTROL_NONE, "x");
  fails(TRITONSERVER_ServerNew(&server, options), TRITONSERVER_ERROR_INVALID_ARG, "--load-model=x");
  ok(TRITONSERVER_ServerOptionsDelete(options));
  options = options_for(TRITONSERVER_MODEL_CONTROL_NONE, NULL);
  ok(TRITONSERVER_ServerOptionsSetModelRepositoryPath(options, "/no/such/directory"));
  fails(TRITONSERVER_ServerNew(&server, options), TRITONSERVER_ERROR_NOT_FOUND,
        "/no/such/directory");
  ok(TRITONSERVER_ServerOptionsDelete(options));
  ok(TRITONSERVER_ServerOptionsNew(&options));
  fails(TRITONSERVER_ServerNew(&server, options), TRITONSERVER_ERROR_INVALID_ARG,
        "--model-repository must be specified");
  ok(TRITONSERVER_ServerOptionsDelete(options));
}

static void a_name_in_two_repositories_is_served_from_none(void **state)
{
  (void)state;
  char path[512];
  make_dir("one");
  make_dir("two");
  make_identity("one/m", "");
  make_identity("two/m", "");
  make_identity("two/n", "");
  TRITONSERVER_ServerOptions *options;
  ok(TRITONSERVER_ServerOptionsNew(&options));
  for (int i = 0; i < 2; i++) {
    snprintf(path, sizeof(path), "%s/%s", root, i == 0 ? "one" : "two");
    ok(TRITONSERVER_ServerOptionsSetModelRepositoryPath(options, path));
  }
  ok(TRITONSERVER_ServerOptionsSetModelControlMode(options, TRITONSERVER_MODEL_CONTROL_EXPLICIT));
  ok(TRITONSERVER_ServerOptionsSetBackendDirectory(options, BACKENDS));
  TRITONSERVER_Server *server = start_with(options);
  fails(TRITONSERVER_ServerLoadModel(server, "m"), TRITONSERVER_ERROR_INTERNAL,
        "not unique across all model repositories");
  ok(TRITONSERVER_ServerLoadModel(server, "n"));
  expect_index(server, "[{\"name\":\"m\",\"state\":\"UNAVAILABLE\",\"reason\":\"model appears in "
                       "two or more repositories\"},"
                       "{\"name\":\"n\",\"version\":\"1\",\"state\":\"READY\"}]");
  ok(TRITONSERVER_ServerDelete(server));
}

static void names_that_are_paths_are_refused_as_such(void **state)
{
  (void)state;
  static const char *const names[] = {".", "..", " ..", "../a", "a/b", "/a", "a/", "a/../a"};
  make_identity("a", "");
  TRITONSERVER_Server *server = start_explicit();
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
    fails(TRITONSERVER_ServerLoadModel(server, names[i]), TRITONSERVER_ERROR_INVALID_ARG,
          "model name must not contain path traversal characters");
  ok(TRITONSERVER_ServerDelete(server));
}

static void names_of_blanks_are_no_names(void **state)
{
  (void)state;
  static const char *const names[] = {"", " ", "   ", "\t", "\n", "\r", "\f", "\v", " \t \n "};
  TRITONSERVER_Server *server = start_explicit();
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
    fails(TRITONSERVER_ServerLoadModel(server, names[i]), TRITONSERVER_ERROR_INVALID_ARG,
          "Model name cannot be empty. Please enter a valid name to deploy.");
  ok(TRITONSERVER_ServerDelete(server));
}

// The metrics of the whole process, as any server gives them: for free().
static char *metrics_of(TRITONSERVER_Server *server)
{
  TRITONSERVER_Metrics *metrics;
  const char *base;
  size_t size;
  ok(TRITONSERVER_ServerMetrics(server, &metrics));
  ok(TRITONSERVER_MetricsFormatted(metrics, TRITONSERVER_METRIC_PROMETHEUS, &base, &size));
  char *text = strndup(base, size);
  ok(TRITONSERVER_MetricsDelete(metrics));
  return text;
}

static int count_of(const char *text, const char *part)
{
  int count = 0;
  for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
    count++;
  return count;
}

// How many inferences of `a` and of `b` a server's metrics show; -1: the model is not there.
static void expect_successes(TRITONSERVER_Server *server, int of_a, int of_b)
{
  const int expected[] = {of_a, of_b};
  char *text = metrics_of(server);
  assert_int_equal(count_of(text, "# TYPE nv_inference_request_success "), 1);
  // What is the process's is there once.
  assert_int_equal(count_of(text, "\nnv_cpu_utilization "), 1);
  assert_int_equal(count_of(text, "\nnv_cpu_memory_used_bytes "), 1);
  assert_int_equal(count_of(text, "\nnv_pinned_memory_pool_used_bytes "), 1);
  assert_int_equal(count_of(text, "\nnereid_log_dropped_lines_total "), 1);
  for (int i = 0; i < 2; i++) {
    char row[80];
    snprintf(row, sizeof row, "\nnv_inference_request_success{model=\"%c\",version=\"1\"} ",
             'a' + i);
    const char *at = strstr(text, row);
    assert_int_equal(count_of(text, row), expected[i] >= 0);
    if (at != NULL)
      assert_int_equal(atoi(at + strlen(row)), expected[i]);
  }
  free(text);
}

static void servers_of_one_process_share_its_metrics(void **state)
{
  (void)state;
  make_identity("a", "");
  make_identity("b", "");
  TRITONSERVER_Server *first = start_explicit(), *second = start_explicit();
  ok(TRITONSERVER_ServerLoadModel(first, "a"));
  ok(TRITONSERVER_ServerLoadModel(second, "b"));
  expect_answer(first, "a", 7);
  expect_answer(second, "b", 7);
  expect_answer(second, "b", 7);
  expect_successes(first, 1, 2);
  expect_successes(second, 1, 2);
  ok(TRITONSERVER_ServerDelete(first)); // the first collector, and one of two owners of a backend
  expect_answer(second, "b", 7);
  expect_successes(second, -1, 3);
  first = start_explicit();
  ok(TRITONSERVER_ServerLoadModel(first, "a"));
  expect_answer(first, "a", 7);
  expect_successes(first, 1, 3);
  ok(TRITONSERVER_ServerDelete(first)); // the last collector
  expect_successes(second, -1, 3);
  ok(TRITONSERVER_ServerDelete(second));
  first = start_explicit(); // none was left
  ok(TRITONSERVER_ServerLoadModel(first, "b"));
  expect_answer(first, "b", 7);
  expect_successes(first, -1, 1);
  ok(TRITONSERVER_ServerDelete(first));
}
#define embedded_case(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)

#define START TRITONSERVER_REQUEST_FLAG_SEQUENCE_START
#define END   TRITONSERVER_REQUEST_FLAG_SEQUENCE_END

static TRITONSERVER_Server *start_with_a_sequence(void)
{
  answer a;
  make_identity("m", "instance_group { count: 2 kind: KIND_CPU } "
                     "sequence_batching { max_sequence_idle_microseconds: 600000000 }");
  TRITONSERVER_Server *server = start_explicit();
  ok(TRITONSERVER_ServerLoadModel(server, "m"));
  ok(ask_sequence(server, "m", 1, 7, START, &a));
  return server;
}

static void *stop(void *server)
{
  return TRITONSERVER_ServerStop(server);
}

static void a_server_that_stops_lets_sequences_go_on(void **state)
{
  (void)state;
  TRITONSERVER_Server *server = start_with_a_sequence();
  TRITONSERVER_Error *e;
  pthread_t thread;
  void *outcome;
  answer a;
  ok(TRITONSERVER_ServerSetExitTimeout(server, 3600));
  assert_int_equal(pthread_create(&thread, NULL, stop, server), 0);
  while ((e = ask_sequence(server, "m", 2, 8, START | END, &a)) == NULL)
    ;
  fails(e, TRITONSERVER_ERROR_UNAVAILABLE, "Server is stopping");
  ok(ask_sequence(server, "m", 3, 7, 0, &a));
  assert_int_equal(a.value, 3);
  ok(ask_sequence(server, "m", 4, 7, END, &a));
  assert_int_equal(a.value, 4);
  assert_int_equal(pthread_join(thread, &outcome), 0);
  ok(outcome);
  ok(TRITONSERVER_ServerDelete(server));
}

static void a_server_without_clients_awaits_no_sequence(void **state)
{
  (void)state;
  TRITONSERVER_Server *server = start_with_a_sequence();
  ok(TRITONSERVER_ServerSetExitTimeout(server, 3600));
  NEREID_ServerEndSequences(server);
  ok(TRITONSERVER_ServerStop(server));
  ok(TRITONSERVER_ServerDelete(server));
}

// An input's CUDA handle goes to the backend as it is; an input without one has none.
static void a_buffers_handle_comes_to_the_backend(void **state)
{
  (void)state;
  answer a;
  unsigned char handle[64] = {0x5a};
  TRITONSERVER_BufferAttributes *attributes;
  make_dir("m");
  make_dir("m/1");
  write_file("m/config.pbtxt", "backend: 'placed' " IDENTITY_TENSORS, 1000000000);
  TRITONSERVER_Server *server = start_explicit();
  ok(TRITONSERVER_ServerLoadModel(server, "m"));
  ok(TRITONSERVER_BufferAttributesNew(&attributes));
  ok(TRITONSERVER_BufferAttributesSetByteSize(attributes, sizeof(int32_t)));
  ok(ask_with(server, "m", 1, 0, 0, attributes, &a));
  assert_int_equal(a.value, -1);
  ok(TRITONSERVER_BufferAttributesSetCudaIpcHandle(attributes, handle));
  ok(ask_with(server, "m", 1, 0, 0, attributes, &a));
  assert_int_equal(a.value, 0x5a);
  ok(TRITONSERVER_BufferAttributesDelete(attributes));
  ok(TRITONSERVER_ServerDelete(server));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      embedded_case(impossible_options_are_refused_by_name),
      embedded_case(names_that_are_paths_are_refused_as_such),
      embedded_case(names_of_blanks_are_no_names),
      embedded_case(a_name_in_two_repositories_is_served_from_none),
      embedded_case(servers_of_one_process_share_its_metrics),
      embedded_case(a_server_that_stops_lets_sequences_go_on),
      embedded_case(a_server_without_clients_awaits_no_sequence),
      embedded_case(a_buffers_handle_comes_to_the_backend),
  };
  return cmocka_run_group_tests(tests, make_allocator, free_allocator);
}

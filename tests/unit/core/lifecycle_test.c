// SPDX-License-Identifier: Apache-2.0
// The server as a program that embeds it sees it: models come, change and go through the north
// seam, with real backends from the build directory and repositories in a temporary directory.
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "embedded_server.h"

static void all_models_are_loaded_at_the_start_and_answer(void **state)
{
  (void)state;
  make_identity("a", "");
  make_identity("b", "");
  TRITONSERVER_Server *server = start_with(options_for(TRITONSERVER_MODEL_CONTROL_NONE, NULL));
  assert_true(is_ready(server));
  expect_answer(server, "a", 42);
  expect_answer(server, "b", -7);
  expect_index(server, "[{\"name\":\"a\",\"version\":\"1\",\"state\":\"READY\"},"
                       "{\"name\":\"b\",\"version\":\"1\",\"state\":\"READY\"}]");
  fails(TRITONSERVER_ServerLoadModel(server, "a"), TRITONSERVER_ERROR_UNAVAILABLE,
        "explicit model load / unload is not allowed if polling is enabled");
  ok(TRITONSERVER_ServerDelete(server));
}

static void explicit_control_loads_what_is_named_and_nothing_else(void **state)
{
  (void)state;
  make_identity("a", "");
  make_identity("b", "");
  TRITONSERVER_Server *server = start_with(options_for(TRITONSERVER_MODEL_CONTROL_EXPLICIT, "b"));
  assert_true(is_ready(server));
  expect_index(server, "[{\"name\":\"a\"},{\"name\":\"b\",\"version\":\"1\",\"state\":\"READY\"}]");
  ok(TRITONSERVER_ServerLoadModel(server, "a"));
  expect_answer(server, "a", 1);
  ok(TRITONSERVER_ServerUnloadModel(server, "b"));
  await_index(server, "[{\"name\":\"a\",\"version\":\"1\",\"state\":\"READY\"},"
                      "{\"name\":\"b\",\"version\":\"1\",\"state\":\"UNAVAILABLE\",\"reason\":"
                      "\"unloaded\"}]");
  assert_true(is_ready(server));
  assert_false(model_is_ready(server, "b", -1));
  answer a;
  fails(ask(server, "b", 1, &a), TRITONSERVER_ERROR_NOT_FOUND,
        "Request for unknown model: 'b' has no available versions");
  fails(ask(server, "c", 1, &a), TRITONSERVER_ERROR_NOT_FOUND,
        "Request for unknown model: 'c' is not found");
  ok(TRITONSERVER_ServerUnloadModel(server, "never heard of"));
  ok(TRITONSERVER_ServerLoadModel(server, "b"));
  expect_answer(server, "b", 5);
  ok(TRITONSERVER_ServerDelete(server));
}

static void a_star_loads_all_models_under_explicit_control(void **state)
{
  (void)state;
  make_identity("a", "");
  make_identity("b", "");
  TRITONSERVER_Server *server = start_with(options_for(TRITONSERVER_MODEL_CONTROL_EXPLICIT, "*"));
  assert_true(model_is_ready(server, "a", 1));
  assert_true(model_is_ready(server, "b", -1));
  ok(TRITONSERVER_ServerDelete(server));
}

static void a_failed_model_stops_the_start_or_stays_away(void **state)
{
  (void)state;
  make_identity("good", "");
  make_faulty("bad", "model_initialize");
  TRITONSERVER_Server *server;
  TRITONSERVER_ServerOptions *options = options_for(TRITONSERVER_MODEL_CONTROL_NONE, NULL);
  fails(TRITONSERVER_ServerNew(&server, options), TRITONSERVER_ERROR_INTERNAL,
        "failed to load all models");
  ok(TRITONSERVER_ServerOptionsSetExitOnError(options, false));
  server = start_with(options);
  assert_false(is_ready(server));
  expect_answer(server, "good", 3);
  expect_index(server, "[{\"name\":\"bad\",\"version\":\"1\",\"state\":\"UNAVAILABLE\",\"reason\":"
                       "\"Internal: faulty backend: model_initialize\"},"
                       "{\"name\":\"good\",\"version\":\"1\",\"state\":\"READY\"}]");
  ok(TRITONSERVER_ServerDelete(server));
}

static void a_failed_load_says_why_and_can_be_repeated(void **state)
{
  (void)state;
  make_faulty("bad", "second_instance_initialize");
  write_file("bad/config.pbtxt",
             "backend: 'faulty' runtime: 'libtriton_faulty.so' instance_group { count: 2 }"
             "parameters { key: 'fault' value { string_value: 'second_instance_initialize' } }",
             1000000000);
  make_dir("broken");
  make_dir("broken/1");
  write_file("broken/config.pbtxt", "backend: 'identity' input { name: }", 1000000000);
  make_dir("versionless");
  write_file("versionless/config.pbtxt", "backend: 'identity'", 1000000000);
  make_dir("nowhere");
  make_dir("nowhere/1");
  write_file("nowhere/config.pbtxt", "backend: 'no_such_backend'", 1000000000);
  TRITONSERVER_Server *server = start_explicit();
  for (int i = 0; i < 2; i++)
    fails(TRITONSERVER_ServerLoadModel(server, "bad"), TRITONSERVER_ERROR_INVALID_ARG,
          "load failed for model 'bad': version 1 is at UNAVAILABLE state: Internal: faulty "
          "backend: second_instance_initialize;\n");
  fails(TRITONSERVER_ServerLoadModel(server, "broken"), TRITONSERVER_ERROR_INTERNAL,
        "failed to load 'broken', failed to poll from model repository: ");
  answer a;
  fails(ask(server, "broken", 1, &a), TRITONSERVER_ERROR_NOT_FOUND,
        "Request for unknown model: 'broken' is not found");
  fails(TRITONSERVER_ServerLoadModel(server, "broken"), TRITONSERVER_ERROR_INTERNAL,
        "config.pbtxt:1:");
  fails(TRITONSERVER_ServerLoadModel(server, "versionless"), TRITONSERVER_ERROR_INVALID_ARG,
        "at least one version must be available under the version policy of model "
        "'versionless'");
  fails(TRITONSERVER_ServerLoadModel(server, "nowhere"), TRITONSERVER_ERROR_INVALID_ARG,
        "unable to find");
  fails(TRITONSERVER_ServerLoadModel(server, "absent"), TRITONSERVER_ERROR_INTERNAL,
        "failed to load 'absent', failed to poll from model repository: model not found");
  const char *const wrong_names[] = {"", "  ", "..", " .. ", "a/b", "../etc", "/", "a\nb", "\xff"};
  for (size_t i = 0; i < sizeof(wrong_names) / sizeof(wrong_names[0]); i++)
    fails(TRITONSERVER_ServerLoadModel(server, wrong_names[i]), TRITONSERVER_ERROR_INVALID_ARG,
          "name");
  assert_false(is_ready(server));
  write_file("bad/config.pbtxt",
             "backend: 'faulty' runtime: 'libtriton_faulty.so' " IDENTITY_TENSORS, 1000000000);
  ok(TRITONSERVER_ServerLoadModel(server, "bad"));
  assert_true(model_is_ready(server, "bad", 1));
  ok(TRITONSERVER_ServerUnloadModel(server, "broken"));
  ok(TRITONSERVER_ServerUnloadModel(server, "nowhere"));
  ok(TRITONSERVER_ServerUnloadModel(server, "versionless"));
  assert_true(is_ready(server));
  ok(TRITONSERVER_ServerDelete(server));
}

static void a_changed_model_is_swapped_and_an_unchanged_one_is_left_alone(void **state)
{
  (void)state;
  make_identity("m", "");
  TRITONSERVER_Server *server = start_explicit();
  ok(TRITONSERVER_ServerLoadModel(server, "m"));
  ok(TRITONSERVER_ServerLoadModel(server, "m"));
  make_dir("m/2");
  touch_far_ahead("m/2");
  ok(TRITONSERVER_ServerLoadModel(server, "m"));
  await_index(server, "[{\"name\":\"m\",\"version\":\"1\",\"state\":\"UNAVAILABLE\",\"reason\":"
                      "\"unloaded\"},{\"name\":\"m\",\"version\":\"2\",\"state\":\"READY\"}]");
  expect_answer(server, "m", 9);
  // A change that does not load leaves what serves.
  write_file("m/config.pbtxt", "backend: 'identity' max_batch_size: -2", 4100000000);
  fails(TRITONSERVER_ServerLoadModel(server, "m"), TRITONSERVER_ERROR_INTERNAL, "max_batch_size");
  expect_answer(server, "m", 10);
  assert_true(is_ready(server));
  ok(TRITONSERVER_ServerDelete(server));
}

static void version_policies_choose(void **state)
{
  (void)state;
  make_identity("m", "version_policy { specific { versions: [ 1, 3 ] } }");
  make_dir("m/2");
  make_dir("m/3");
  make_dir("m/03");
  make_dir("m/3x");
  make_dir("m/99999999999999999999999");
  TRITONSERVER_Server *server = start_explicit();
  ok(TRITONSERVER_ServerLoadModel(server, "m"));
  expect_index(server, "[{\"name\":\"m\",\"version\":\"1\",\"state\":\"READY\"},"
                       "{\"name\":\"m\",\"version\":\"3\",\"state\":\"READY\"}]");
  write_file("m/config.pbtxt",
             "backend: 'identity' " IDENTITY_TENSORS
             "version_policy { latest { num_versions: 2 } }",
             4000000000);
  ok(TRITONSERVER_ServerLoadModel(server, "m"));
  await_index(server, "[{\"name\":\"m\",\"version\":\"1\",\"state\":\"UNAVAILABLE\",\"reason\":"
                      "\"unloaded\"},{\"name\":\"m\",\"version\":\"2\",\"state\":\"READY\"},"
                      "{\"name\":\"m\",\"version\":\"3\",\"state\":\"READY\"}]");
  TRITONSERVER_Message *metadata;
  ok(TRITONSERVER_ServerModelMetadata(server, "m", -1, &metadata));
  expect_json(metadata,
              "{\"name\":\"m\",\"versions\":[\"2\",\"3\"],\"platform\":\"identity\",\"inputs\":[{"
              "\"name\":\"INPUT0\",\"datatype\":\"INT32\",\"shape\":[-1]}],\"outputs\":[{\"name\":"
              "\"OUTPUT0\",\"datatype\":\"INT32\",\"shape\":[-1]}]}");
  ok(TRITONSERVER_ServerDelete(server));
}

static void a_plain_load_after_an_override_goes_back_to_the_dir(void **state)
{
  (void)state;
  make_identity("m", "");
  TRITONSERVER_Server *server = start_explicit();
  const char *const config =
      "{\"backend\":\"identity\",\"max_batch_size\":8,\"input\":[{\"name\":\"INPUT0\","
      "\"data_type\":\"TYPE_INT32\",\"dims\":[-1]}],\"output\":[{\"name\":\"OUTPUT0\","
      "\"data_type\":\"TYPE_INT32\",\"dims\":[-1]}]}";
  const TRITONSERVER_Parameter *parameters[1];
  TRITONSERVER_Parameter *parameter =
      TRITONSERVER_ParameterNew("config", TRITONSERVER_PARAMETER_STRING, config);
  parameters[0] = parameter;
  uint32_t flags;
  void *nothing;
  ok(TRITONSERVER_ServerLoadModelWithParameters(server, "m", parameters, 1));
  ok(TRITONSERVER_ServerModelBatchProperties(server, "m", -1, &flags, &nothing));
  assert_int_equal(flags, TRITONSERVER_BATCH_FIRST_DIM);
  for (int i = 0; i < 2; i++) {
    ok(TRITONSERVER_ServerLoadModel(server, "m")); // the second changes nothing
    ok(TRITONSERVER_ServerModelBatchProperties(server, "m", -1, &flags, &nothing));
    assert_int_equal(flags, TRITONSERVER_BATCH_UNKNOWN);
  }
  TRITONSERVER_ParameterDelete(parameter);
  parameter = TRITONSERVER_ParameterNew("config", TRITONSERVER_PARAMETER_STRING, "{\"bogus\":1}");
  parameters[0] = parameter;
  fails(TRITONSERVER_ServerLoadModelWithParameters(server, "m", parameters, 1),
        TRITONSERVER_ERROR_INVALID_ARG,
        "failed to load 'm', failed to poll from model repository: Invalid config override: ");
  TRITONSERVER_ParameterDelete(parameter);
  parameter = TRITONSERVER_ParameterNew("file:1/x", TRITONSERVER_PARAMETER_STRING, "");
  parameters[0] = parameter;
  fails(TRITONSERVER_ServerLoadModelWithParameters(server, "m", parameters, 1),
        TRITONSERVER_ERROR_INVALID_ARG,
        "Unrecognized load parameter 'file:1/x' with type 'STRING'");
  TRITONSERVER_ParameterDelete(parameter);
  expect_answer(server, "m", 2);
  ok(TRITONSERVER_ServerDelete(server));
}

typedef struct asker {
  TRITONSERVER_Server *server;
  _Atomic bool stop;
  int asked;
  int lost;
} asker;

static void *keep_asking(void *pointer)
{
  asker *me = pointer;
  do {
    answer a;
    TRITONSERVER_Error *e = ask(me->server, "m", me->asked, &a);
    if (e != NULL || a.failed || a.value != me->asked)
      me->lost++;
    TRITONSERVER_ErrorDelete(e);
    me->asked++;
  } while (!me->stop);
  return NULL;
}

static void no_request_is_lost_while_a_model_is_swapped(void **state)
{
  (void)state;
  make_identity("m", "");
  TRITONSERVER_Server *server = start_explicit();
  ok(TRITONSERVER_ServerLoadModel(server, "m"));
  asker askers[2] = {{.server = server}, {.server = server}};
  pthread_t threads[2];
  for (int i = 0; i < 2; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, keep_asking, &askers[i]), 0);
  for (int i = 0; i < 50; i++) {
    write_file("m/config.pbtxt",
               i % 2 == 0 ? "backend: 'identity' " IDENTITY_TENSORS "instance_group { count: 2 }"
                          : "backend: 'identity' " IDENTITY_TENSORS,
               1100000000 + i);
    char path[512];
    const struct timespec times[2] = {{.tv_sec = 4000000000 + i}, {.tv_sec = 4000000000 + i}};
    snprintf(path, sizeof(path), "%s/m", root);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    ok(TRITONSERVER_ServerLoadModel(server, "m"));
  }
  for (int i = 0; i < 2; i++) {
    askers[i].stop = true;
    pthread_join(threads[i], NULL);
    assert_int_equal(askers[i].lost, 0);
    assert_true(askers[i].asked > 0);
  }
  ok(TRITONSERVER_ServerDelete(server));
}

static void *load_and_unload(void *server)
{
  for (int i = 0; i < 25; i++) {
    TRITONSERVER_ErrorDelete(TRITONSERVER_ServerLoadModel(server, "m"));
    TRITONSERVER_ErrorDelete(TRITONSERVER_ServerUnloadModel(server, "m"));
  }
  return NULL;
}

static void many_threads_may_load_and_unload_one_model(void **state)
{
  (void)state;
  make_identity("m", "");
  TRITONSERVER_Server *server = start_explicit();
  pthread_t threads[8];
  for (int i = 0; i < 8; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, load_and_unload, server), 0);
  for (int i = 0; i < 8; i++)
    pthread_join(threads[i], NULL);
  await_index(server, "[{\"name\":\"m\",\"version\":\"1\",\"state\":\"UNAVAILABLE\",\"reason\":"
                      "\"unloaded\"}]");
  ok(TRITONSERVER_ServerLoadModel(server, "m"));
  expect_answer(server, "m", 77);
  ok(TRITONSERVER_ServerDelete(server));
}

static void a_stopped_server_says_so(void **state)
{
  (void)state;
  make_identity("m", "");
  TRITONSERVER_Server *server = start_with(options_for(TRITONSERVER_MODEL_CONTROL_NONE, NULL));
  bool live;
  ok(TRITONSERVER_ServerIsLive(server, &live));
  assert_true(live);
  ok(TRITONSERVER_ServerStop(server));
  fails(TRITONSERVER_ServerIsLive(server, &live), TRITONSERVER_ERROR_UNAVAILABLE, "Server exiting");
  answer a;
  fails(ask(server, "m", 1, &a), TRITONSERVER_ERROR_NOT_FOUND, "Request for unknown model");
  ok(TRITONSERVER_ServerDelete(server));
}

// One call does it all, also the second look at what has changed.
static void who_embeds_the_server_polls(void **state)
{
  (void)state;
  make_identity("m", "");
  TRITONSERVER_Server *server = start_with(options_for(TRITONSERVER_MODEL_CONTROL_POLL, NULL));
  fails(TRITONSERVER_ServerLoadModel(server, "m"), TRITONSERVER_ERROR_UNAVAILABLE,
        "explicit model load / unload is not allowed if polling is enabled");
  make_identity("n", "");
  remove_dir("m");
  ok(TRITONSERVER_ServerPollModelRepository(server));
  await_index(server, "[{\"name\":\"n\",\"version\":\"1\",\"state\":\"READY\"}]");
  assert_false(model_is_ready(server, "m", 1));
  ok(TRITONSERVER_ServerDelete(server));
  server = start_explicit();
  fails(TRITONSERVER_ServerPollModelRepository(server), TRITONSERVER_ERROR_UNAVAILABLE,
        "polling is disabled");
  ok(TRITONSERVER_ServerDelete(server));
}
#define lifecycle_case(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)

int main(void)
{
  const struct CMUnitTest tests[] = {
      lifecycle_case(all_models_are_loaded_at_the_start_and_answer),
      lifecycle_case(explicit_control_loads_what_is_named_and_nothing_else),
      lifecycle_case(a_star_loads_all_models_under_explicit_control),
      lifecycle_case(a_failed_model_stops_the_start_or_stays_away),
      lifecycle_case(a_failed_load_says_why_and_can_be_repeated),
      lifecycle_case(a_changed_model_is_swapped_and_an_unchanged_one_is_left_alone),
      lifecycle_case(version_policies_choose),
      lifecycle_case(a_plain_load_after_an_override_goes_back_to_the_dir),
      lifecycle_case(no_request_is_lost_while_a_model_is_swapped),
      lifecycle_case(many_threads_may_load_and_unload_one_model),
      lifecycle_case(a_stopped_server_says_so),
      lifecycle_case(who_embeds_the_server_polls),
  };
  return cmocka_run_group_tests(tests, make_allocator, free_allocator);
}

// SPDX-License-Identifier: Apache-2.0
// Repositories that a program registers and unregisters while its server runs. What each directory
// holds is told by the number of its version: models_0/model_0 has 1, models_1/model_0 has 2,
// models_1/model_1 has 3.
#include "triton/core/tritonserver.h"

#include <ftw.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char root[] = "/tmp/nereid-register-XXXXXX";
static TRITONSERVER_Server *server;

static void make_model(const char *repository, const char *folder, int version)
{
  char path[256];
  snprintf(path, sizeof(path), "%s/%s", repository, folder);
  assert_int_equal(mkdir(path, 0700), 0);
  snprintf(path, sizeof(path), "%s/%s/%d", repository, folder, version);
  assert_int_equal(mkdir(path, 0700), 0);
  snprintf(path, sizeof(path), "%s/%s/config.pbtxt", repository, folder);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fprintf(file,
          "name: '%s' backend: 'identity' "
          "input { name: 'INPUT0' data_type: TYPE_INT32 dims: [ -1 ] }"
          "output { name: 'OUTPUT0' data_type: TYPE_INT32 dims: [ -1 ] }",
          strrchr(folder, '/') != NULL ? strrchr(folder, '/') + 1 : folder);
  assert_int_equal(fclose(file), 0);
}

static int make_repositories(void **state)
{
  (void)state;
  static const char *const names[] = {"empty_models", "models_0", "models_1", "deep", "deep/er"};
  if (mkdtemp(root) == NULL || chdir(root) != 0)
    return 1;
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
    assert_int_equal(mkdir(names[i], 0700), 0);
  make_model("models_0", "model_0", 1);
  make_model("models_1", "model_0", 2);
  make_model("models_1", "model_1", 3);
  make_model("deep", "er/model", 4);
  return 0;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
  (void)status, (void)kind, (void)where;
  return remove(path);
}

static int remove_repositories(void **state)
{
  (void)state;
  return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void ok(TRITONSERVER_Error *e)
{
  if (e != NULL)
    fail_msg("%s", TRITONSERVER_ErrorMessage(e));
}

static void fails(TRITONSERVER_Error *e, TRITONSERVER_Error_Code code, const char *begin)
{
  assert_non_null(e);
  if (strncmp(TRITONSERVER_ErrorMessage(e), begin, strlen(begin)) != 0)
    fail_msg("'%s' does not begin with '%s'", TRITONSERVER_ErrorMessage(e), begin);
  assert_int_equal(TRITONSERVER_ErrorCode(e), code);
  TRITONSERVER_ErrorDelete(e);
}

static void start_in(TRITONSERVER_ModelControlMode mode, bool namespacing)
{
  TRITONSERVER_ServerOptions *options;
  ok(TRITONSERVER_ServerOptionsNew(&options));
  ok(TRITONSERVER_ServerOptionsSetModelRepositoryPath(options, "empty_models"));
  ok(TRITONSERVER_ServerOptionsSetModelControlMode(options, mode));
  ok(TRITONSERVER_ServerOptionsSetModelNamespacing(options, namespacing));
  ok(TRITONSERVER_ServerOptionsSetBackendDirectory(options, BACKENDS));
  ok(TRITONSERVER_ServerOptionsSetLogInfo(options, false));
  ok(TRITONSERVER_ServerOptionsSetLogError(options, false));
  ok(TRITONSERVER_ServerNew(&server, options));
  ok(TRITONSERVER_ServerOptionsDelete(options));
}

static int start(void **state)
{
  (void)state;
  start_in(TRITONSERVER_MODEL_CONTROL_EXPLICIT, false);
  return 0;
}

static int stop(void **state)
{
  (void)state;
  ok(TRITONSERVER_ServerDelete(server));
  return 0;
}

// Pairs of folder and model, up to NULL.
static TRITONSERVER_Error *register_with(const char *path, const char *const *pairs)
{
  TRITONSERVER_Parameter *mappings[8];
  uint32_t count = 0;
  for (; pairs[2 * count] != NULL; count++)
    mappings[count] = TRITONSERVER_ParameterNew(pairs[2 * count], TRITONSERVER_PARAMETER_STRING,
                                                pairs[2 * count + 1]);
  TRITONSERVER_Error *e = TRITONSERVER_ServerRegisterModelRepository(
      server, path, (const TRITONSERVER_Parameter **)mappings, count);
  for (uint32_t i = 0; i < count; i++)
    TRITONSERVER_ParameterDelete(mappings[i]);
  return e;
}
#define REGISTER(path, ...)                                                                        \
  register_with(path, (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static void is_served(const char *name, int64_t version)
{
  bool ready;
  ok(TRITONSERVER_ServerModelIsReady(server, name, version, &ready));
  if (!ready)
    fail_msg("%s version %d is not ready", name, (int)version);
}

static void loads(const char *name, int64_t version)
{
  ok(TRITONSERVER_ServerLoadModel(server, name));
  is_served(name, version);
}

static void does_not_load(const char *name)
{
  char text[128];
  snprintf(text, sizeof(text), "failed to load '%s', failed to poll from model repository", name);
  fails(TRITONSERVER_ServerLoadModel(server, name), TRITONSERVER_ERROR_INTERNAL, text);
}

static void index_is(const char *expected)
{
  const char *text;
  size_t size;
  TRITONSERVER_Message *message;
  ok(TRITONSERVER_ServerModelIndex(server, 0, &message));
  ok(TRITONSERVER_MessageSerializeToJson(message, &text, &size));
  char *copy = strndup(text, size);
  assert_string_equal(copy, expected);
  free(copy);
  ok(TRITONSERVER_MessageDelete(message));
}

// ---- tests ----

static void a_repository_comes_and_goes(void **state)
{
  (void)state;
  does_not_load("model_0");
  ok(REGISTER("models_0"));
  index_is("[{\"name\":\"model_0\"}]");
  loads("model_0", 1);
  ok(TRITONSERVER_ServerUnregisterModelRepository(server, "models_0"));
  is_served("model_0", 1); // what is loaded stays
  does_not_load("model_0");
  is_served("model_0", 1);
  ok(REGISTER("models_0"));
  ok(TRITONSERVER_ServerUnregisterModelRepository(server, "models_0"));
  ok(TRITONSERVER_ServerUnregisterModelRepository(server, "empty_models"));
  fails(TRITONSERVER_ServerUnregisterModelRepository(server, "empty_models"),
        TRITONSERVER_ERROR_INVALID_ARG,
        "failed to unregister 'empty_models', repository not found");
}

static void what_is_wrong_is_refused(void **state)
{
  (void)state;
  fails(REGISTER("unknown_repo"), TRITONSERVER_ERROR_INVALID_ARG,
        "failed to register 'unknown_repo', repository not found");
  fails(REGISTER("models_0/model_0/config.pbtxt"), TRITONSERVER_ERROR_INVALID_ARG,
        "failed to register 'models_0/model_0/config.pbtxt', repository not found");
  fails(TRITONSERVER_ServerUnregisterModelRepository(server, "unknown_repo"),
        TRITONSERVER_ERROR_INVALID_ARG,
        "failed to unregister 'unknown_repo', repository not found");
  fails(REGISTER("empty_models"), TRITONSERVER_ERROR_ALREADY_EXISTS,
        "model repository 'empty_models' has already been registered");
  ok(REGISTER("models_0"));
  fails(REGISTER("models_0"), TRITONSERVER_ERROR_ALREADY_EXISTS,
        "model repository 'models_0' has already been registered");
  fails(TRITONSERVER_ServerRegisterModelRepository(server, "models_1", NULL, 1),
        TRITONSERVER_ERROR_INVALID_ARG,
        "model mappings are not provided while mapping count is non-zero");
  TRITONSERVER_Parameter *number =
      TRITONSERVER_ParameterNew("model_0", TRITONSERVER_PARAMETER_INT, &(int64_t){7});
  fails(TRITONSERVER_ServerRegisterModelRepository(server, "models_1",
                                                   (const TRITONSERVER_Parameter *[]){number}, 1),
        TRITONSERVER_ERROR_INVALID_ARG,
        "Mapped model name must be a string, found another type for model_0");
  TRITONSERVER_ParameterDelete(number);
  fails(REGISTER("models_1", "model_0", "name_0", "model_1", "name_0"),
        TRITONSERVER_ERROR_INVALID_ARG,
        "failed to register 'models_1', there is a conflicting mapping for 'name_0'");
  index_is("[{\"name\":\"model_0\"}]"); // nothing of it stayed
}

static void a_directory_gets_another_name(void **state)
{
  (void)state;
  ok(REGISTER("models_0", "model_0", "name_0"));
  does_not_load("model_0");
  loads("name_0", 1);
  TRITONSERVER_Message *config;
  ok(TRITONSERVER_ServerModelConfig(server, "name_0", 1, 1, &config));
  ok(TRITONSERVER_MessageDelete(config));
  fails(REGISTER("models_1", "model_1", "name_0"), TRITONSERVER_ERROR_ALREADY_EXISTS,
        "failed to register 'name_0', there is a conflicting mapping for 'name_0'");
  ok(TRITONSERVER_ServerUnregisterModelRepository(server, "models_0"));
  ok(REGISTER("models_1", "model_1", "name_0")); // with the repository went its names
  loads("name_0", 3);
}

static void a_directory_gets_two_names(void **state)
{
  (void)state;
  ok(REGISTER("models_0", "model_0", "name_0", "model_0", "name_1"));
  index_is("[{\"name\":\"name_0\"},{\"name\":\"name_1\"}]");
  loads("name_0", 1);
  loads("name_1", 1);
}

static void a_mapping_comes_before_a_directory_of_the_name(void **state)
{
  (void)state;
  ok(REGISTER("models_1", "model_0", "model_1"));
  index_is("[{\"name\":\"model_1\"}]");
  loads("model_1", 2);
}

static void a_mapping_may_lead_deeper(void **state)
{
  (void)state;
  ok(REGISTER("deep", "er/model", "name", "absent", "none"));
  loads("name", 4);
  does_not_load("none");
}

static void two_of_a_name_do_not_load(void **state)
{
  (void)state;
  ok(REGISTER("models_0"));
  ok(REGISTER("models_1"));
  does_not_load("model_0");
  loads("model_1", 3);
  ok(TRITONSERVER_ServerUnregisterModelRepository(server, "models_1"));
  loads("model_0", 1);
}

static void a_mapping_tells_two_of_a_name_apart(void **state)
{
  (void)state;
  ok(REGISTER("models_0", "model_0", "model_0"));
  ok(REGISTER("models_1"));
  loads("model_0", 1);
  loads("model_1", 3);
  ok(TRITONSERVER_ServerUnregisterModelRepository(server, "models_0"));
  ok(TRITONSERVER_ServerUnregisterModelRepository(server, "models_1"));
  ok(REGISTER("models_0"));
  ok(REGISTER("models_1", "model_0", "model_2"));
  loads("model_0", 1);
  loads("model_1", 3);
  loads("model_2", 2);
}

static void only_explicit_control_permits_it(void **state)
{
  (void)state;
  start_in(TRITONSERVER_MODEL_CONTROL_NONE, false);
  fails(REGISTER("models_0"), TRITONSERVER_ERROR_UNSUPPORTED,
        "repository registration is not allowed if model control mode is not EXPLICIT");
  fails(TRITONSERVER_ServerUnregisterModelRepository(server, "empty_models"),
        TRITONSERVER_ERROR_UNSUPPORTED,
        "repository unregistration is not allowed if model control mode is not EXPLICIT");
  stop(state);
}

static void names_are_a_repositorys_own(void **state)
{
  (void)state;
  bool ready;
  start_in(TRITONSERVER_MODEL_CONTROL_EXPLICIT, true);
  ok(REGISTER("models_0"));
  ok(REGISTER("models_1"));
  loads("model_1", 3);
  ok(TRITONSERVER_ServerLoadModel(server, "model_0")); // both
  TRITONSERVER_Message *message;
  fails(TRITONSERVER_ServerModelMetadata(server, "model_0", -1, &message),
        TRITONSERVER_ERROR_INVALID_ARG,
        "There are 2 identifiers of model 'model_0' in global map, model namespace must be "
        "provided to resolve ambiguity.");
  ok(TRITONSERVER_ServerModelIsReady(server, "model_0", 1, &ready));
  assert_false(ready);
  ok(TRITONSERVER_ServerUnloadModel(server, "model_0")); // both again
  fails(TRITONSERVER_ServerModelMetadata(server, "model_0", -1, &message),
        TRITONSERVER_ERROR_NOT_FOUND, "Identifier of model 'model_0' is not found in global map");
  fails(TRITONSERVER_ServerModelMetadata(server, "other", -1, &message),
        TRITONSERVER_ERROR_INVALID_ARG, "Request for unknown model: 'other' is not found");
  ok(TRITONSERVER_ServerUnregisterModelRepository(server, "models_0"));
  loads("model_0", 2);
  stop(state);
}

// ---- many threads ----

static void *look_and_load(void *failed)
{
  for (int i = 0; i < 50; i++) {
    TRITONSERVER_Message *index;
    TRITONSERVER_Error *e = TRITONSERVER_ServerModelIndex(server, 0, &index);
    if (e == NULL)
      e = TRITONSERVER_MessageDelete(index);
    if (e != NULL)
      *(bool *)failed = true;
    TRITONSERVER_ErrorDelete(e);
    TRITONSERVER_ErrorDelete(TRITONSERVER_ServerLoadModel(server, "name_0")); // it may be gone
  }
  return NULL;
}

static void whoever_looks_sees_a_whole_list(void **state)
{
  (void)state;
  pthread_t threads[3];
  bool failed[3] = {false, false, false};
  for (size_t i = 0; i < 3; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, look_and_load, &failed[i]), 0);
  for (int i = 0; i < 50; i++) {
    ok(REGISTER("models_0", "model_0", "name_0"));
    ok(REGISTER("models_1"));
    ok(TRITONSERVER_ServerUnregisterModelRepository(server, "models_0"));
    ok(TRITONSERVER_ServerUnregisterModelRepository(server, "models_1"));
  }
  for (size_t i = 0; i < 3; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_false(failed[i]);
  }
}

#define RUNNING(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void)
{
  const struct CMUnitTest tests[] = {
      RUNNING(a_repository_comes_and_goes),
      RUNNING(what_is_wrong_is_refused),
      RUNNING(a_directory_gets_another_name),
      RUNNING(a_directory_gets_two_names),
      RUNNING(a_mapping_comes_before_a_directory_of_the_name),
      RUNNING(a_mapping_may_lead_deeper),
      RUNNING(two_of_a_name_do_not_load),
      RUNNING(a_mapping_tells_two_of_a_name_apart),
      cmocka_unit_test(only_explicit_control_permits_it),
      cmocka_unit_test(names_are_a_repositorys_own),
      RUNNING(whoever_looks_sees_a_whole_list),
  };
  return cmocka_run_group_tests(tests, make_repositories, remove_repositories);
}

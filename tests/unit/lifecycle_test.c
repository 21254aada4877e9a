// The server as a program that embeds it sees it: models come, change and go through the north
// seam, with real backends from the build directory and repositories in a temporary directory.
#include "triton/core/tritonserver.h"

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <ftw.h>

// ---- repositories ----

static char root[] = "/tmp/nereid-lifecycle-XXXXXX";

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
  (void)status;
  (void)kind;
  (void)where;
  return remove(path);
}

static int make_root(void **state)
{
  (void)state;
  strcpy(root + strlen(root) - 6, "XXXXXX");
  return mkdtemp(root) == NULL;
}

static int remove_root(void **state)
{
  (void)state;
  return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void make_dir(const char *relative)
{
  char path[512];
  snprintf(path, sizeof(path), "%s/%s", root, relative);
  if (mkdir(path, 0700) != 0)
    assert_true(access(path, F_OK) == 0);
}

// Writes a file whose time is `seconds` after 1970, so that no test depends on how fast it runs.
static void write_file(const char *relative, const char *text, time_t seconds)
{
  char path[512];
  snprintf(path, sizeof(path), "%s/%s", root, relative);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
  const struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
  assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void touch_far_ahead(const char *relative)
{
  char path[512];
  const struct timespec times[2] = {{.tv_sec = 4000000000}, {.tv_sec = 4000000000}};
  snprintf(path, sizeof(path), "%s/%s", root, relative);
  assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

#define IDENTITY_TENSORS                                                                           \
  "input { name: 'INPUT0' data_type: TYPE_INT32 dims: [ -1 ] }"                                    \
  "output { name: 'OUTPUT0' data_type: TYPE_INT32 dims: [ -1 ] }"

static void make_identity(const char *name, const char *more)
{
  char path[256];
  char config[1024];
  make_dir(name);
  snprintf(path, sizeof(path), "%s/1", name);
  make_dir(path);
  snprintf(path, sizeof(path), "%s/config.pbtxt", name);
  snprintf(config, sizeof(config), "backend: 'identity' " IDENTITY_TENSORS "%s", more);
  write_file(path, config, 1000000000);
}

static void make_faulty(const char *name, const char *fault)
{
  char path[256];
  char config[1024];
  make_dir(name);
  snprintf(path, sizeof(path), "%s/1", name);
  make_dir(path);
  snprintf(path, sizeof(path), "%s/config.pbtxt", name);
  snprintf(config, sizeof(config),
           "backend: 'faulty' runtime: 'libtriton_faulty.so' " IDENTITY_TENSORS
           "parameters { key: 'fault' value { string_value: '%s' } }",
           fault);
  write_file(path, config, 1000000000);
}

// ---- servers ----

static void ok(TRITONSERVER_Error *e)
{
  if (e != NULL)
    fail_msg("%s", TRITONSERVER_ErrorMessage(e));
}

static void fails(TRITONSERVER_Error *e, TRITONSERVER_Error_Code code, const char *part)
{
  assert_non_null(e);
  if (strstr(TRITONSERVER_ErrorMessage(e), part) == NULL)
    fail_msg("'%s' does not contain '%s'", TRITONSERVER_ErrorMessage(e), part);
  assert_int_equal(TRITONSERVER_ErrorCode(e), code);
  TRITONSERVER_ErrorDelete(e);
}

static TRITONSERVER_ServerOptions *options_for(TRITONSERVER_ModelControlMode mode,
                                               const char *startup_model)
{
  TRITONSERVER_ServerOptions *options;
  ok(TRITONSERVER_ServerOptionsNew(&options));
  ok(TRITONSERVER_ServerOptionsSetModelRepositoryPath(options, root));
  ok(TRITONSERVER_ServerOptionsSetModelControlMode(options, mode));
  ok(TRITONSERVER_ServerOptionsSetBackendDirectory(options, BACKENDS));
  ok(TRITONSERVER_ServerOptionsSetLogInfo(options, false));
  ok(TRITONSERVER_ServerOptionsSetLogError(options, false));
  ok(TRITONSERVER_ServerOptionsSetLogWarn(options, false));
  if (startup_model != NULL)
    ok(TRITONSERVER_ServerOptionsSetStartupModel(options, startup_model));
  return options;
}

static TRITONSERVER_Server *start_with(TRITONSERVER_ServerOptions *options)
{
  TRITONSERVER_Server *server;
  ok(TRITONSERVER_ServerNew(&server, options));
  ok(TRITONSERVER_ServerOptionsDelete(options));
  return server;
}

static TRITONSERVER_Server *start_explicit(void)
{
  return start_with(options_for(TRITONSERVER_MODEL_CONTROL_EXPLICIT, NULL));
}

static bool is_ready(TRITONSERVER_Server *server)
{
  bool ready;
  ok(TRITONSERVER_ServerIsReady(server, &ready));
  return ready;
}

static bool model_is_ready(TRITONSERVER_Server *server, const char *name, int64_t version)
{
  bool ready;
  ok(TRITONSERVER_ServerModelIsReady(server, name, version, &ready));
  return ready;
}

static void expect_json(TRITONSERVER_Message *message, const char *text)
{
  const char *base;
  size_t size;
  ok(TRITONSERVER_MessageSerializeToJson(message, &base, &size));
  char *copy = strndup(base, size);
  assert_string_equal(copy, text);
  free(copy);
  ok(TRITONSERVER_MessageDelete(message));
}

static void expect_index(TRITONSERVER_Server *server, const char *text)
{
  TRITONSERVER_Message *index;
  ok(TRITONSERVER_ServerModelIndex(server, 0, &index));
  expect_json(index, text);
}

// Waits for a state that the reaper brings about.
static void await_index(TRITONSERVER_Server *server, const char *text)
{
  for (int i = 0; i < 1000; i++) {
    const char *base;
    size_t size;
    TRITONSERVER_Message *index;
    ok(TRITONSERVER_ServerModelIndex(server, 0, &index));
    ok(TRITONSERVER_MessageSerializeToJson(index, &base, &size));
    bool equal = size == strlen(text) && memcmp(base, text, size) == 0;
    ok(TRITONSERVER_MessageDelete(index));
    if (equal)
      return;
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
  }
  expect_index(server, text);
}

// ---- requests ----

typedef struct answer {
  sem_t done;
  sem_t released;
  bool failed;
  char text[256];
  int32_t value;
} answer;

static TRITONSERVER_Error *allocate(TRITONSERVER_ResponseAllocator *allocator, const char *name,
                                    size_t size, TRITONSERVER_MemoryType type, int64_t id,
                                    void *userp, void **memory, void **memory_userp,
                                    TRITONSERVER_MemoryType *actual_type, int64_t *actual_id)
{
  (void)allocator, (void)name, (void)type, (void)id, (void)userp;
  *memory = malloc(size + 1);
  *memory_userp = NULL;
  *actual_type = TRITONSERVER_MEMORY_CPU;
  *actual_id = 0;
  return NULL;
}

static TRITONSERVER_Error *release(TRITONSERVER_ResponseAllocator *allocator, void *memory,
                                   void *userp, size_t size, TRITONSERVER_MemoryType type,
                                   int64_t id)
{
  (void)allocator, (void)userp, (void)size, (void)type, (void)id;
  free(memory);
  return NULL;
}

static void released(TRITONSERVER_InferenceRequest *request, const uint32_t flags, void *userp)
{
  (void)flags;
  TRITONSERVER_InferenceRequestDelete(request);
  sem_post(&((answer *)userp)->released);
}

static void answered(TRITONSERVER_InferenceResponse *response, const uint32_t flags, void *userp)
{
  answer *a = userp;
  (void)flags;
  TRITONSERVER_Error *e = TRITONSERVER_InferenceResponseError(response);
  a->failed = e != NULL;
  if (e != NULL) {
    snprintf(a->text, sizeof(a->text), "%s", TRITONSERVER_ErrorMessage(e));
    TRITONSERVER_ErrorDelete(e);
  } else {
    const char *name;
    TRITONSERVER_DataType type;
    const int64_t *shape;
    uint64_t dims;
    const void *base;
    size_t size;
    TRITONSERVER_MemoryType memory;
    int64_t id;
    void *output_userp;
    TRITONSERVER_InferenceResponseOutput(response, 0, &name, &type, &shape, &dims, &base, &size,
                                         &memory, &id, &output_userp);
    memcpy(&a->value, base, sizeof(a->value));
  }
  TRITONSERVER_InferenceResponseDelete(response);
  sem_post(&a->done);
}

static TRITONSERVER_ResponseAllocator *allocator;

static int make_allocator(void **state)
{
  (void)state;
  ok(TRITONSERVER_ResponseAllocatorNew(&allocator, allocate, release, NULL));
  return 0;
}

static int free_allocator(void **state)
{
  (void)state;
  ok(TRITONSERVER_ResponseAllocatorDelete(allocator));
  return 0;
}

// Sends one INT32 and waits for the answer. NULL when the server took it.
static TRITONSERVER_Error *ask(TRITONSERVER_Server *server, const char *model, int32_t value,
                               answer *a)
{
  TRITONSERVER_InferenceRequest *request;
  const int64_t shape[] = {1};
  memset(a, 0, sizeof(*a));
  TRITONSERVER_Error *e = TRITONSERVER_InferenceRequestNew(&request, server, model, -1);
  if (e != NULL)
    return e;
  sem_init(&a->done, 0, 0);
  sem_init(&a->released, 0, 0);
  ok(TRITONSERVER_InferenceRequestAddInput(request, "INPUT0", TRITONSERVER_TYPE_INT32, shape, 1));
  ok(TRITONSERVER_InferenceRequestAppendInputData(request, "INPUT0", &value, sizeof(value),
                                                  TRITONSERVER_MEMORY_CPU, 0));
  ok(TRITONSERVER_InferenceRequestSetReleaseCallback(request, released, a));
  ok(TRITONSERVER_InferenceRequestSetResponseCallback(request, allocator, NULL, answered, a));
  e = TRITONSERVER_ServerInferAsync(server, request, NULL);
  if (e != NULL) {
    TRITONSERVER_InferenceRequestDelete(request);
    return e;
  }
  sem_wait(&a->done);
  sem_wait(&a->released);
  sem_destroy(&a->done);
  sem_destroy(&a->released);
  return NULL;
}

static void expect_answer(TRITONSERVER_Server *server, const char *model, int32_t value)
{
  answer a;
  ok(ask(server, model, value, &a));
  if (a.failed)
    fail_msg("%s", a.text);
  assert_int_equal(a.value, value);
}

// ---- tests ----

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
  while (!me->stop) {
    answer a;
    TRITONSERVER_Error *e = ask(me->server, "m", me->asked, &a);
    if (e != NULL || a.failed || a.value != me->asked)
      me->lost++;
    TRITONSERVER_ErrorDelete(e);
    me->asked++;
  }
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

static void impossible_options_are_refused_by_name(void **state)
{
  (void)state;
  TRITONSERVER_Server *server;
  TRITONSERVER_ServerOptions *options = options_for(TRITONSERVER_MODEL_CONTROL_POLL, NULL);
  fails(TRITONSERVER_ServerNew(&server, options), TRITONSERVER_ERROR_UNSUPPORTED, "poll");
  ok(TRITONSERVER_ServerOptionsDelete(options));
  options = options_for(TRITONSERVER_MODEL_CONTROL_NONE, "x");
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
      lifecycle_case(impossible_options_are_refused_by_name),
      lifecycle_case(names_that_are_paths_are_refused_as_such),
      lifecycle_case(names_of_blanks_are_no_names),
      lifecycle_case(a_name_in_two_repositories_is_served_from_none),
      lifecycle_case(servers_of_one_process_share_its_metrics),
  };
  return cmocka_run_group_tests(tests, make_allocator, free_allocator);
}

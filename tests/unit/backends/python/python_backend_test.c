// SPDX-License-Identifier: Apache-2.0
// The Python backend's settings, where it finds its model, and what it waits for at its end
// (model/python_backend.c). The server, the sandbox and environments are the test's own.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/python_backend.h"

#include "nereid/nereid.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static struct {
  const char *settings;
  const char *location;
  unsigned caches; // alive
  uint64_t bytes;
  char logged[1024];
} server;

TRITONSERVER_Error *TRITONBACKEND_BackendName(TRITONBACKEND_Backend *backend, const char **name)
{
  (void)backend;
  *name = "python";
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_BackendArtifacts(TRITONBACKEND_Backend *backend,
                                                   TRITONBACKEND_ArtifactType *type,
                                                   const char **location)
{
  (void)backend;
  *type = TRITONBACKEND_ARTIFACT_FILESYSTEM;
  *location = server.location;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_BackendConfig(TRITONBACKEND_Backend *backend,
                                                TRITONSERVER_Message **made)
{
  static TRITONSERVER_Message *last; // the backend's, as long as it lives
  char text[512];
  (void)backend;
  if (last != NULL)
    TRITONSERVER_ErrorDelete(TRITONSERVER_MessageDelete(last));
  last = NULL;
  if (server.settings == NULL)
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "no settings");
  snprintf(text, sizeof text, "{\"cmdline\": %s}", server.settings);
  TRITONSERVER_Error *error = TRITONSERVER_MessageNewFromSerializedJson(made, text, strlen(text));
  last = *made;
  return error;
}

TRITONSERVER_Error *TRITONSERVER_LogMessage(TRITONSERVER_LogLevel level, const char *filename,
                                            const int line, const char *msg)
{
  (void)level, (void)filename, (void)line;
  strncat(server.logged, msg, sizeof server.logged - strlen(server.logged) - 2);
  strcat(server.logged, "\n");
  return NULL;
}

TRITONSERVER_Error *NEREID_LogMessageAbout(TRITONSERVER_LogLevel level, const char *filename,
                                           int line, const NEREID_LogSubject *about,
                                           const char *msg)
{
  (void)about;
  return TRITONSERVER_LogMessage(level, filename, line, msg);
}

TRITONSERVER_Error *worker_sandbox_init(worker_sandbox *self, const json_t *settings)
{
  self->strict = json_object_get(settings, "sandbox") != NULL;
  return NULL;
}

void worker_sandbox_fini(worker_sandbox *self)
{
  (void)self;
}

bool worker_sandbox_has_setting(const char *key)
{
  return strcmp(key, "sandbox") == 0;
}

TRITONSERVER_Error *environment_cache_new(const char *parent, const unpack_limits *limits,
                                          environment_cache **result)
{
  (void)parent;
  server.caches++;
  server.bytes = limits->bytes;
  *result = (environment_cache *)&server;
  return NULL;
}

void environment_cache_free(environment_cache *self)
{
  server.caches -= self != NULL;
}

// ---- what is tested

static int begin(void **state)
{
  (void)state;
  memset(&server, 0, sizeof server);
  server.settings = "{}";
  server.location = "/nowhere";
  return 0;
}

static int end(void **state)
{
  (void)state;
  assert_int_equal(server.caches, 0);
  server.settings = NULL; // gives the last message up
  TRITONSERVER_ErrorDelete(TRITONBACKEND_BackendConfig(NULL, NULL));
  return 0;
}

static python_backend *make(const char *settings)
{
  python_backend *made = NULL;
  server.settings = settings;
  TRITONSERVER_Error *error = python_backend_new((TRITONBACKEND_Backend *)&server, &made);
  if (error != NULL)
    fail_msg("%s", TRITONSERVER_ErrorMessage(error));
  return made;
}

static void assert_refused(const char *settings, const char *text)
{
  python_backend *made = NULL;
  server.settings = settings;
  TRITONSERVER_Error *error = python_backend_new((TRITONBACKEND_Backend *)&server, &made);
  assert_non_null(error);
  assert_null(made);
  assert_string_equal(TRITONSERVER_ErrorMessage(error), text);
  TRITONSERVER_ErrorDelete(error);
}

static void settings_are_read_and_have_defaults(void **state)
{
  (void)state;
  python_backend *self = make("{}");
  assert_true(self->timeout_s == 30 && self->hand_ahead_us == 200 && self->interpreter == NULL);
  assert_int_equal(server.bytes, (uint64_t)8 << 30);
  python_backend_free(self);
  self = make("{\"stub-timeout-seconds\": \"7 s\", \"hand-ahead-us\": \"0\", \"sandbox\": \"\","
              " \"python-executable\": \"pypy\", \"environment-most-bytes\": \"99\"}");
  assert_true(self->timeout_s == 7 && self->hand_ahead_us == 0 && self->sandbox.strict);
  assert_string_equal(self->interpreter, "pypy");
  assert_int_equal(server.bytes, 99);
  python_backend_free(self);
  assert_refused("{\"default-instance-kind\": \"gpu\"}",
                 "setting default-instance-kind: 'gpu' is neither KIND_GPU nor KIND_CPU");
  static const struct {
    const char *settings;
    bool prefers_gpu;
  } kinds[] = {{"{}", true},
               {"{\"default-instance-kind\": \"KIND_GPU\"}", true},
               {"{\"default-instance-kind\": \"KIND_CPU\"}", false}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    self = make(kinds[i].settings);
    assert_int_equal(self->prefers_gpu, kinds[i].prefers_gpu);
    python_backend_free(self);
  }
}

static void numbers_out_of_range_are_refused_in_tritons_words(void **state)
{
  (void)state;
  assert_refused("{\"stub-timeout-seconds\": \"0\"}",
                 "stub-timeout-seconds can't be smaller than or equal to zero.");
  assert_refused("{\"hand-ahead-us\": \"-1\"}", "hand-ahead-us can't be smaller than zero.");
  assert_refused("{\"shm-default-byte-size\": \"1000\"}",
                 "shm-default-byte-size can't be smaller than 4 MiBs");
  assert_refused("{\"shm-growth-byte-size\": \"0\"}",
                 "shm-growth-byte-size can't be smaller than or equal to zero.");
  assert_refused("{\"thread-pool-size\": \"0\"}", "thread-pool-size can't be less than 1.");
  assert_refused("{\"shm_message_queue_size\": \"many\"}",
                 "shm_message_queue_size: 'many' is not an integer");
}

static void what_is_not_needed_or_not_known_is_said(void **state)
{
  (void)state;
  python_backend_free(make("{\"shm-region-prefix-name\": \"p\", \"stub-timeout-seconds\": \"3\","
                           " \"auto-complete-config\": \"true\", \"unheard-of\": \"1\","
                           " \"model-load-gpu-limit-device-0\": \"0.500000\"}"));
  assert_non_null(strstr(server.logged, "setting shm-region-prefix-name is not needed"));
  assert_non_null(strstr(server.logged, "unknown setting unheard-of"));
  assert_null(strstr(server.logged, "setting stub-timeout-seconds"));
  assert_null(strstr(server.logged, "setting auto-complete-config"));
  assert_null(strstr(server.logged, "setting model-load-gpu-limit"));
}

static void a_backend_in_another_directory_is_written_in_python(void **state)
{
  (void)state;
  python_backend *self = make("{}");
  assert_null(self->model_dir); // there is no such directory
  server.location = self->dir;
  python_backend *own = make("{}");
  assert_null(own->model_dir);
  python_backend_free(own);
  server.location = "/tmp";
  own = make("{}");
  assert_string_equal(own->model_dir, "/tmp");
  python_backend_free(own);
  python_backend_free(self);
}

static atomic_bool is_over;

static void *end_use(void *argument)
{
  atomic_store(&is_over, true);
  python_backend_unref(argument);
  return NULL;
}

static void its_end_waits_for_who_uses_it(void **state)
{
  (void)state;
  pthread_t thread;
  python_backend *self = make("{}");
  python_backend_ref(self);
  python_backend_ref(self);
  python_backend_unref(self);
  assert_int_equal(pthread_create(&thread, NULL, end_use, self), 0);
  python_backend_free(self);
  assert_true(atomic_load(&is_over));
  pthread_join(thread, NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(settings_are_read_and_have_defaults, begin, end),
      cmocka_unit_test_setup_teardown(numbers_out_of_range_are_refused_in_tritons_words, begin,
                                      end),
      cmocka_unit_test_setup_teardown(what_is_not_needed_or_not_known_is_said, begin, end),
      cmocka_unit_test_setup_teardown(a_backend_in_another_directory_is_written_in_python, begin,
                                      end),
      cmocka_unit_test_setup_teardown(its_end_waits_for_who_uses_it, begin, end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

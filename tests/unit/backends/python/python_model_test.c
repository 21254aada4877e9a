// SPDX-License-Identifier: Apache-2.0
// A Python model's files and configuration (model/python_model.c). The server, the interpreter and
// what workers are started with are the test's own; files are real.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/python_model.h"
#include "process/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
  char dir[64]; // of the model
  const char *config;
  TRITONBACKEND_ArtifactType artifact;
  bool has_no_python;
  unsigned interpreters; // held
  worker_paths paths;
  int64_t threads;
} server;

static python_backend backend = {.dir = (char *)"/backend", .timeout_s = 30};

TRITONSERVER_Error *TRITONBACKEND_ModelName(TRITONBACKEND_Model *model, const char **name)
{
  (void)model;
  *name = "played";
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelVersion(TRITONBACKEND_Model *model, uint64_t *version)
{
  (void)model;
  *version = 3;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelServer(TRITONBACKEND_Model *model,
                                              TRITONSERVER_Server **made)
{
  (void)model;
  *made = (TRITONSERVER_Server *)&server;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelRepository(TRITONBACKEND_Model *model,
                                                  TRITONBACKEND_ArtifactType *type,
                                                  const char **location)
{
  (void)model;
  *type = server.artifact;
  *location = server.dir;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelConfig(TRITONBACKEND_Model *model, const uint32_t version,
                                              TRITONSERVER_Message **config)
{
  (void)model, (void)version;
  return TRITONSERVER_MessageNewFromSerializedJson(config, server.config, strlen(server.config));
}

TRITONSERVER_Error *NEREID_ModelOpen(TRITONBACKEND_Model *model, const char *path, bool directory,
                                     int *descriptor)
{
  char full[128];
  (void)model, (void)directory;
  snprintf(full, sizeof full, "%s/%s", server.dir, path);
  *descriptor = open(full, O_RDONLY | O_CLOEXEC);
  return *descriptor >= 0 ? NULL : TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, "a link");
}

TRITONSERVER_Error *python_interpreter_init(python_interpreter *self, environment_cache *cache,
                                            const char *setting, const json_t *model_config,
                                            const char *model_dir)
{
  (void)cache, (void)setting, (void)model_config;
  assert_string_equal(model_dir, server.dir);
  if (server.has_no_python)
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_NOT_FOUND, "no Python");
  *self = (python_interpreter){.path = (char *)"/python3"};
  server.interpreters++;
  return NULL;
}

void python_interpreter_fini(python_interpreter *self)
{
  server.interpreters -= self->path != NULL;
}

TRITONSERVER_Error *worker_variables_init(string_list *self, const python_interpreter *python,
                                          int64_t threads, bool strict)
{
  (void)python, (void)strict;
  *self = (string_list){0};
  server.threads = threads;
  return NULL;
}

TRITONSERVER_Error *worker_command_init(string_list *self, const worker_sandbox *sandbox,
                                        const worker_paths *paths, const python_interpreter *python)
{
  (void)sandbox, (void)python;
  *self = (string_list){0};
  server.paths = *paths;
  return NULL;
}

// ---- what is tested

static void write_file(const char *name)
{
  char path[128];
  snprintf(path, sizeof path, "%s/3/%s", server.dir, name);
  const int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  assert_true(file >= 0);
  close(file);
}

static int begin(void **state)
{
  char version[80];
  (void)state;
  memset(&server, 0, sizeof server);
  server.config = "{}";
  backend.model_dir = NULL;
  strcpy(server.dir, "/tmp/python_model_test.XXXXXX");
  if (mkdtemp(server.dir) == NULL)
    return 1;
  snprintf(version, sizeof version, "%s/3", server.dir);
  return mkdir(version, 0700);
}

static int end(void **state)
{
  static const char *const files[] = {"3/model.py", "3/other.py", "3/model.txt", "3", ""};
  (void)state;
  assert_int_equal(server.interpreters, 0);
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", server.dir, files[i]);
    if (remove(path) != 0 && errno != ENOENT)
      return 1;
  }
  return 0;
}

static python_model *load(void)
{
  python_model *made = NULL;
  TRITONSERVER_Error *error = python_model_new((TRITONBACKEND_Model *)&server, &backend, &made);
  if (error != NULL)
    fail_msg("%s", TRITONSERVER_ErrorMessage(error));
  return made;
}

static void assert_refused(TRITONSERVER_Error_Code code, const char *text)
{
  python_model *made = NULL;
  TRITONSERVER_Error *error = python_model_new((TRITONBACKEND_Model *)&server, &backend, &made);
  assert_non_null(error);
  assert_null(made);
  assert_int_equal(TRITONSERVER_ErrorCode(error), code);
  assert_non_null(strstr(TRITONSERVER_ErrorMessage(error), text));
  TRITONSERVER_ErrorDelete(error);
}

// What a worker of `self` is told to load.
static json_t *told(const python_model *self)
{
  char *text = self->workers.load_text(self->workers.load_user, "played_0");
  json_t *load = json_loads(text, 0, NULL);
  free(text);
  assert_non_null(load);
  return load;
}

// A text that begins in the model's directory, where `below` is not NULL.
static void assert_is(const json_t *value, const char *text, const char *below)
{
  char expected[128];
  snprintf(expected, sizeof expected, "%s%s", text, below == NULL ? "" : below);
  assert_string_equal(json_string_value(value), expected);
}

static void assert_told(const json_t *load, const char *key, const char *text, const char *below)
{
  assert_is(json_object_get(load, key), text, below);
}

static void assert_searched(const json_t *load, size_t index, const char *text, const char *below)
{
  assert_is(json_array_get(json_object_get(load, "search"), index), text, below);
}

static void a_worker_is_told_where_the_model_is(void **state)
{
  (void)state;
  write_file("other.py");
  server.config = "{\"default_model_filename\": \"other.py\"}";
  python_model *model = load();
  json_t *load = told(model);
  assert_told(load, "model_file", server.dir, "/3/other.py");
  assert_told(load, "module", "3.other", NULL);
  assert_told(load, "model_path", server.dir, "");
  assert_told(load, "model_version", "3", NULL);
  assert_told(load, "model_name", "played", NULL);
  assert_told(load, "instance_name", "played_0", NULL);
  assert_searched(load, 0, server.dir, "/3");
  assert_searched(load, 1, server.dir, "");
  assert_searched(load, 2, "/backend", NULL);
  assert_string_equal(server.paths.model_file, model->path);
  json_decref(load);
  python_model_free(model);
}

static void a_backend_in_python_needs_no_file_of_the_model(void **state)
{
  (void)state;
  backend.model_dir = (char *)"/of_python";
  python_model *model = load();
  json_t *load = told(model);
  assert_told(load, "model_file", "/of_python/model.py", NULL);
  assert_told(load, "module", "model", NULL);
  assert_searched(load, 0, "/of_python", NULL);
  assert_searched(load, 1, "/backend", NULL);
  json_decref(load);
  python_model_free(model);
}

static void a_model_without_its_file_is_refused(void **state)
{
  (void)state;
  assert_refused(TRITONSERVER_ERROR_INTERNAL, "Python model file not found in '");
  write_file("model.txt");
  server.config = "{\"default_model_filename\": \"model.txt\"}";
  assert_refused(TRITONSERVER_ERROR_INTERNAL,
                 "Model name must end with '.py'. Model name is \"model.txt\".");
  server.artifact = TRITONBACKEND_ARTIFACT_FILESYSTEM + 1;
  assert_refused(TRITONSERVER_ERROR_UNSUPPORTED, "unsupported artifact type for model 'played'");
}

static void an_unknown_word_for_cpu_inputs_is_refused(void **state)
{
  (void)state;
  write_file("model.py");
  server.config =
      "{\"parameters\": {\"FORCE_CPU_ONLY_INPUT_TENSORS\": {\"string_value\": \"maybe\"}}}";
  assert_refused(TRITONSERVER_ERROR_UNSUPPORTED,
                 "Incorrect value for FORCE_CPU_ONLY_INPUT_TENSORS: maybe'");
  server.config =
      "{\"parameters\": {\"FORCE_CPU_ONLY_INPUT_TENSORS\": {\"string_value\": \"no\"}}}";
  python_model *model = load();
  assert_true(model->takes_devices);
  python_model_free(model);
  server.config =
      "{\"parameters\": {\"FORCE_CPU_ONLY_INPUT_TENSORS\": {\"string_value\": \"yes\"}}}";
  model = load();
  assert_false(model->takes_devices);
  python_model_free(model);
}

static void what_was_found_is_given_up_when_there_is_no_python(void **state)
{
  (void)state;
  write_file("model.py");
  server.has_no_python = true;
  assert_refused(TRITONSERVER_ERROR_NOT_FOUND, "no Python");
}

static void the_configuration_is_read_again_when_it_was_completed(void **state)
{
  (void)state;
  write_file("model.py");
  python_model *model = load();
  assert_true(model->max_batch_size == 0 && !model->decoupled && model->signature.count == 0);
  server.config =
      "{\"max_batch_size\": 8, \"model_transaction_policy\": {\"decoupled\": true},"
      " \"output\": [{\"name\": \"OUT\", \"data_type\": \"TYPE_FP32\", \"dims\": [2]}]}";
  assert_null(python_model_read_config(model));
  assert_true(model->max_batch_size == 8 && model->decoupled && model->signature.count == 1);
  assert_string_equal(model->signature.outputs[0].name, "OUT");
  assert_string_equal(model->signature.model, "played");
  assert_non_null(strstr(model->config_text, "\"max_batch_size\":8"));
  python_model_free(model);
}

static void processors_are_shared_by_the_instances(void **state)
{
  (void)state;
  write_file("model.py");
  python_model_free(load());
  const int64_t alone = server.threads;
  assert_true(alone >= 1);
  server.config = "{\"instance_group\": [{\"count\": 1}, {}, {\"count\": 2}]}";
  python_model_free(load());
  assert_int_equal(server.threads, alone / 4);
  server.config = "{\"instance_group\": [{\"count\": 2, \"gpus\": [0, 1]}]}"; // one on each of both
  python_model_free(load());
  assert_int_equal(server.threads, alone / 4);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_worker_is_told_where_the_model_is, begin, end),
      cmocka_unit_test_setup_teardown(a_backend_in_python_needs_no_file_of_the_model, begin, end),
      cmocka_unit_test_setup_teardown(a_model_without_its_file_is_refused, begin, end),
      cmocka_unit_test_setup_teardown(an_unknown_word_for_cpu_inputs_is_refused, begin, end),
      cmocka_unit_test_setup_teardown(what_was_found_is_given_up_when_there_is_no_python, begin,
                                      end),
      cmocka_unit_test_setup_teardown(the_configuration_is_read_again_when_it_was_completed, begin,
                                      end),
      cmocka_unit_test_setup_teardown(processors_are_shared_by_the_instances, begin, end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

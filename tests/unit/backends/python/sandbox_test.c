// SPDX-License-Identifier: Apache-2.0
// What a worker is kept from: the settings, and the command line that says so.
#include "process/sandbox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void expect_error(TRITONSERVER_Error *error, const char *text)
{
  assert_non_null(error);
  if (strstr(TRITONSERVER_ErrorMessage(error), text) == NULL)
    fail_msg("'%s' lacks '%s'", TRITONSERVER_ErrorMessage(error), text);
  TRITONSERVER_ErrorDelete(error);
}

static TRITONSERVER_Error *init(worker_sandbox *sandbox, const char *key, const char *value)
{
  json_t *settings = key == NULL ? json_object() : json_pack("{ss}", key, value);
  TRITONSERVER_Error *error = worker_sandbox_init(sandbox, settings);
  json_decref(settings);
  return error;
}

// The command line for /bin/sh as the interpreter, with a blank between arguments.
static char *command_of(const worker_sandbox *sandbox)
{
  const worker_paths paths = {.backend = "/backend", .model = "/usr", .model_file = "/etc/passwd"};
  const python_interpreter python = {.path = (char[]){"/bin/sh"}};
  string_list command;
  char *text = NULL;
  size_t size = 0;
  FILE *file = open_memstream(&text, &size);
  assert_null(worker_command_init(&command, sandbox, &paths, &python));
  for (char **argument = command.items; *argument != NULL; argument++)
    fprintf(file, "%s ", *argument);
  fclose(file);
  string_list_fini(&command);
  return text;
}

static void expect_part(const char *text, const char *part)
{
  if (strstr(text, part) == NULL)
    fail_msg("'%s' lacks '%s'", text, part);
}

static void the_command_line_says_what_the_settings_say(void **state)
{
  (void)state;
  worker_sandbox sandbox;
  char expected[256];
  assert_null(init(&sandbox, NULL, NULL));
  char *command = command_of(&sandbox);
  snprintf(expected, sizeof expected,
           "/backend/nereid-worker-launcher --sandbox=standard --parent=%d -- /bin/sh "
           "/backend/worker ",
           (int)getpid());
  assert_string_equal(command, expected); // no bound but the server's
  free(command);
  assert_null(init(&sandbox, "worker-memory-bytes", "67108864"));
  command = command_of(&sandbox);
  expect_part(command, " --memory=67108864 -- ");
  free(command);
  assert_null(init(&sandbox, "worker-sandbox", "strict"));
  command = command_of(&sandbox);
  expect_part(command, "--sandbox=strict");
  expect_part(command, " --processes=8192 ");
  expect_part(command, " --scratch=1073741824 ");
  expect_part(command, " --read=/usr --read=/etc --read=/etc "); // where the file is, and leads
  expect_part(command, " --read=/backend/worker ");
  free(command);
  assert_null(init(&sandbox, "worker-read-paths", "/a:/b c"));
  sandbox.strict = true;
  command = command_of(&sandbox);
  expect_part(command, " --read=/a --read=/b c ");
  free(command);
  worker_sandbox_fini(&sandbox);
}

static void settings_that_cannot_be_are_named(void **state)
{
  (void)state;
  worker_sandbox sandbox;
  expect_error(init(&sandbox, "worker-sandbox", "loose"),
               "setting worker-sandbox: 'loose' is neither standard nor strict");
  expect_error(init(&sandbox, "worker-processes", "15"), "worker-processes");
  expect_error(init(&sandbox, "worker-read-paths", "/a:b"), "is no list of absolute paths");
  assert_true(worker_sandbox_has_setting("worker-scratch-bytes"));
  assert_true(worker_sandbox_has_setting("worker-sandbox"));
  assert_false(worker_sandbox_has_setting("worker"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_command_line_says_what_the_settings_say),
      cmocka_unit_test(settings_that_cannot_be_are_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

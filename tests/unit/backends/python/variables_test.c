// SPDX-License-Identifier: Apache-2.0
// Which variables a worker gets, at both levels and in every kind of environment.
#include "process/sandbox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char env[] = "/env";

// The value that the worker has; NULL: none. Twice is a fault.
static const char *value_of(char *const *environment, const char *name)
{
  const char *found = NULL;
  size_t length = strlen(name);
  for (; *environment != NULL; environment++)
    if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=') {
      assert_null(found);
      found = *environment + length + 1;
    }
  return found;
}

static void assert_value(char *const *environment, const char *name, const char *expected)
{
  const char *value = value_of(environment, name);
  if (expected == NULL) {
    assert_null(value);
  } else {
    assert_non_null(value);
    assert_string_equal(value, expected);
  }
}

static int set_variables(void **state)
{
  (void)state;
  clearenv();
  setenv("PATH", "/bin", 1);
  setenv("LD_LIBRARY_PATH", "", 1);
  setenv("PYTHONHOME", "/else", 1);
  setenv("VIRTUAL_ENV", "/old", 1);
  setenv("LC_ALL", "C", 1);
  setenv("MY_VARIABLE", "mine", 1);
  setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
  setenv("HF_TOKEN", "secret", 1);
  setenv("HF_HOME", "/models", 1);
  setenv("MKL_NUM_THREADS", "7", 1);
  setenv("LISTEN_FDS", "1", 1);
  setenv("LISTEN_FDS_MORE", "1", 1);
  return 0;
}

static void test_standard_drops_only_what_is_the_servers(void **state)
{
  (void)state;
  python_interpreter none = {.kind = ENVIRONMENT_NONE};
  string_list worker;
  assert_null(worker_variables_init(&worker, &none, 3, false));
  assert_value(worker.items, "PATH", "/bin");
  assert_value(worker.items, "PYTHONHOME", "/else");
  assert_value(worker.items, "VIRTUAL_ENV", "/old");
  assert_value(worker.items, "MY_VARIABLE", "mine");
  assert_value(worker.items, "AWS_SECRET_ACCESS_KEY", "secret");
  assert_value(worker.items, "LISTEN_FDS", NULL);
  assert_value(worker.items, "LISTEN_FDS_MORE", "1");
  assert_value(worker.items, "OMP_NUM_THREADS", "3");
  assert_value(worker.items, "MKL_NUM_THREADS", "7");
  string_list_fini(&worker);
}

static void test_strict_passes_known_names_without_secrets(void **state)
{
  (void)state;
  python_interpreter none = {.kind = ENVIRONMENT_NONE};
  string_list worker;
  assert_null(worker_variables_init(&worker, &none, 0, true));
  assert_value(worker.items, "PATH", "/bin");
  assert_value(worker.items, "LC_ALL", "C");
  assert_value(worker.items, "HF_HOME", "/models");
  assert_value(worker.items, "HF_TOKEN", NULL);
  assert_value(worker.items, "MY_VARIABLE", NULL);
  assert_value(worker.items, "AWS_SECRET_ACCESS_KEY", NULL);
  assert_value(worker.items, "LISTEN_FDS_MORE", NULL);
  assert_value(worker.items, "OMP_NUM_THREADS", "1");
  string_list_fini(&worker);
}

static void test_a_virtual_environment_is_active(void **state)
{
  (void)state;
  python_interpreter virtual = {.kind = ENVIRONMENT_VIRTUAL, .dir = env};
  for (int strict = 0; strict < 2; strict++) {
    string_list worker;
    assert_null(worker_variables_init(&worker, &virtual, 1, strict));
    assert_value(worker.items, "PATH", "/env/bin:/bin");
    assert_value(worker.items, "VIRTUAL_ENV", "/env");
    assert_value(worker.items, "PYTHONHOME", NULL);
    assert_value(worker.items, "CONDA_PREFIX", NULL);
    assert_value(worker.items, "LD_LIBRARY_PATH", "");
    string_list_fini(&worker);
  }
}

static void test_a_conda_environment_is_active(void **state)
{
  (void)state;
  python_interpreter conda = {.kind = ENVIRONMENT_CONDA, .dir = env};
  string_list worker;
  assert_null(worker_variables_init(&worker, &conda, 1, false));
  assert_value(worker.items, "PATH", "/env/bin:/bin");
  assert_value(worker.items, "CONDA_PREFIX", "/env");
  assert_value(worker.items, "LD_LIBRARY_PATH",
               "/env/lib"); // no empty entry: it would be the current directory
  assert_value(worker.items, "VIRTUAL_ENV", NULL);
  string_list_fini(&worker);
  setenv("LD_LIBRARY_PATH", "/more", 1);
  unsetenv("PATH");
  assert_null(worker_variables_init(&worker, &conda, 1, false));
  assert_value(worker.items, "LD_LIBRARY_PATH", "/env/lib:/more");
  assert_value(worker.items, "PATH", "/env/bin");
  string_list_fini(&worker);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_standard_drops_only_what_is_the_servers, set_variables),
      cmocka_unit_test_setup(test_strict_passes_known_names_without_secrets, set_variables),
      cmocka_unit_test_setup(test_a_virtual_environment_is_active, set_variables),
      cmocka_unit_test_setup(test_a_conda_environment_is_active, set_variables),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

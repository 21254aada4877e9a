// SPDX-License-Identifier: Apache-2.0
// Frameworks are found where people have them: trees made up below a directory that stands for "/".
#include "framework_search.h"

#include <elf.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const framework onnx = {
    .name = "ONNX Runtime",
    .backend = "onnxruntime",
    .package = "onnxruntime",
    .dir = "onnxruntime/capi",
    .library = "libonnxruntime.so",
    .loader_names = {"libonnxruntime.so.1", NULL},
};

static char root[64];
static char variables[8][2][256];
static size_t variable_count;
static framework_system machine;
static framework_search search;
static const char *refused; // libraries whose path has this do not open
static char opened[PATH_MAX];
static char *looked;

static const char *variable(const char *name)
{
  for (size_t i = 0; i < variable_count; i++)
    if (strcmp(variables[i][0], name) == 0)
      return variables[i][1];
  return NULL;
}

static void set(const char *name, const char *value)
{
  snprintf(variables[variable_count][0], 256, "%s", name);
  snprintf(variables[variable_count++][1], 256, "%s", value);
}

static bool open_library(void *context, const char *path, char **why_not)
{
  assert_ptr_equal(context, root);
  if (path[0] != '/' || (refused != NULL && strstr(path, refused) != NULL)) {
    *why_not = path[0] == '/' ? strdup("too old") : NULL;
    return false;
  }
  assert_int_equal(strncmp(path, root, strlen(root)), 0);
  snprintf(opened, sizeof opened, "%s", path + strlen(root));
  return true;
}

static int make_tree(void **state)
{
  (void)state;
  snprintf(root, sizeof root, "/tmp/framework_search_XXXXXX");
  variable_count = 0;
  refused = NULL;
  free(looked);
  looked = NULL;
  machine = (framework_system){
      .root = root, .dir = "/home/me/project", .variable = variable, .has_avx = true};
  search = (framework_search){.framework = &onnx,
                              .system = &machine,
                              .own_dir = "/usr/lib/nereid/backends/onnxruntime",
                              .open = open_library,
                              .context = root};
  return mkdtemp(root) == NULL;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
  (void)status;
  (void)kind;
  (void)where;
  return remove(path);
}

static int remove_tree(void **state)
{
  (void)state;
  free(looked);
  looked = NULL;
  return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static const char *full(const char *path)
{
  static char text[PATH_MAX];
  snprintf(text, sizeof text, "%s%s", root, path);
  return text;
}

static void dir(const char *path)
{
  char text[PATH_MAX];
  snprintf(text, sizeof text, "%s", full(path));
  for (char *at = text + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
    *at = '\0';
    assert_true(mkdir(text, 0755) == 0 || errno == EEXIST);
    *at = '/';
  }
  assert_true(mkdir(text, 0755) == 0 || errno == EEXIST);
}

static void bytes(const char *path, const void *data, size_t size, mode_t mode)
{
  char above[PATH_MAX];
  snprintf(above, sizeof above, "%s", path);
  *strrchr(above, '/') = '\0';
  dir(above);
  FILE *file = fopen(full(path), "w");
  assert_non_null(file);
  assert_int_equal(fwrite(data, 1, size, file), size);
  fclose(file);
  assert_int_equal(chmod(full(path), mode), 0);
}

static void text(const char *path, const char *content)
{
  bytes(path, content, strlen(content), 0755);
}

static void binary_for(const char *path, uint16_t machine_number)
{
  Elf64_Ehdr header = {.e_machine = machine_number};
  memcpy(header.e_ident, ELFMAG, SELFMAG);
  bytes(path, &header, sizeof header, 0755);
}

static void binary(const char *path)
{
#ifdef __aarch64__
  binary_for(path, EM_AARCH64);
#else
  binary_for(path, EM_X86_64);
#endif
}

static void symbolic(const char *target, const char *path)
{
  char above[PATH_MAX];
  snprintf(above, sizeof above, "%s", path);
  *strrchr(above, '/') = '\0';
  dir(above);
  assert_int_equal(symlink(target, full(path)), 0);
}

static void package(const char *site)
{
  char path[PATH_MAX + 64];
  snprintf(path, sizeof path, "%s/onnxruntime/capi/libonnxruntime.so.1.20.1", site);
  binary(path);
}

static void assert_found(const char *path)
{
  free(looked);
  if (!framework_find(&search, &looked))
    fail_msg("not found; looked in %s", looked);
  assert_string_equal(opened, path);
}

static void assert_not_found(const char *words)
{
  free(looked);
  assert_false(framework_find(&search, &looked));
  if (strstr(looked, words) == NULL)
    fail_msg("'%s' is not in '%s'", words, looked);
}

// ---- settings and the neighbourhood ----

static void a_named_library_is_that_one_or_none(void **state)
{
  (void)state;
  binary("/opt/my/libonnxruntime.so");
  package("/usr/lib/python3/dist-packages");
  binary("/usr/bin/python3");
  set("PATH", "/usr/bin");
  search.library = "/opt/my/libonnxruntime.so";
  assert_found("/opt/my/libonnxruntime.so");
  search.library = "/opt/other/libonnxruntime.so";
  assert_not_found("'/opt/other/libonnxruntime.so': cannot be read: No such file or directory");
  search.library = "libmine.so";
  assert_not_found("'libmine.so': not in the loader's path");
}

// Sets the variable to an environment with a library, which is found then.
static void assert_environment_counts(const char *variable)
{
  char site[PATH_MAX];
  char place[64];
  snprintf(place, sizeof place, "/env/%s", variable);
  set(variable, place);
  snprintf(site, sizeof site, "%s/lib/python3.9/site-packages", place);
  package(site);
  snprintf(site, sizeof site,
           "%s/lib/python3.9/site-packages/onnxruntime/capi/libonnxruntime.so.1.20.1", place);
  assert_found(site);
}

static void the_nearest_comes_first(void **state)
{
  (void)state;
  binary("/usr/bin/python3");
  set("PATH", "/usr/bin");
  package("/usr/lib/python3/dist-packages");
  assert_found("/usr/lib/python3/dist-packages/onnxruntime/capi/libonnxruntime.so.1.20.1");
  package("/opt/run/lib/python3.11/site-packages");
  binary("/opt/run/bin/python3.11");
  search.python_executable = "/opt/run/bin/python3.11";
  assert_found("/opt/run/lib/python3.11/site-packages/onnxruntime/capi/libonnxruntime.so.1.20.1");
  static const char *const names[] = {"PYTHONHOME", "CONDA_PREFIX", "VIRTUAL_ENV"};
  for (size_t i = 0; i < 3; i++)
    assert_environment_counts(names[i]);
  binary("/usr/lib/nereid/backends/onnxruntime/libonnxruntime.so.1.31.1");
  binary("/usr/lib/nereid/backends/onnxruntime/libonnxruntime.so.1.4.0");
  assert_found("/usr/lib/nereid/backends/onnxruntime/libonnxruntime.so.1.31.1");
  assert_environment_counts("NEREID_PYTHON_ENV"); // it is named for nereid
  package("/given/lib/python3.12/site-packages");
  search.python_environment = "/given";
  assert_found("/given/lib/python3.12/site-packages/onnxruntime/capi/libonnxruntime.so.1.20.1");
}

// ---- Pythons ----

static void python3_of_path_is_followed_to_its_installation(void **state)
{
  (void)state;
  set("PATH", "bin:/absent:/usr/bin");
  symbolic("../../opt/python/bin/python3", "/usr/bin/python3");
  symbolic("python3.12", "/opt/python/bin/python3");
  binary("/opt/python/bin/python3.12");
  package("/opt/python/lib/python3.11/site-packages"); // of another Python
  assert_not_found("'/usr/bin/python3': this Python has no such package");
  package("/opt/python/lib64/python3.12/site-packages");
  assert_found("/usr/bin/../../opt/python/lib64/python3.12/site-packages/onnxruntime/capi/"
               "libonnxruntime.so.1.20.1");
}

static void debian_has_dist_packages(void **state)
{
  (void)state;
  set("PATH", "/usr/bin");
  symbolic("python3.11", "/usr/bin/python3");
  binary("/usr/bin/python3.11");
  package("/usr/lib/python3/dist-packages");
  assert_found("/usr/lib/python3/dist-packages/onnxruntime/capi/libonnxruntime.so.1.20.1");
  package("/usr/local/lib/python3.11/dist-packages");
  assert_found("/usr/local/lib/python3.11/dist-packages/onnxruntime/capi/libonnxruntime.so.1.20.1");
}

static void the_users_own_packages_come_before(void **state)
{
  (void)state;
  set("PATH", "/usr/bin");
  binary("/usr/bin/python3.11");
  symbolic("python3.11", "/usr/bin/python3");
  package("/usr/lib/python3/dist-packages");
  package("/home/me/.local/lib/python3.11/site-packages");
  package("/home/me/.local/lib/python3.12/site-packages");
  set("HOME", "/home/me");
  assert_found("/home/me/.local/lib/python3.11/site-packages/onnxruntime/capi/"
               "libonnxruntime.so.1.20.1");
  set("PYTHONNOUSERSITE", "1");
  assert_found("/usr/lib/python3/dist-packages/onnxruntime/capi/libonnxruntime.so.1.20.1");
}

static void a_venv_is_known_by_its_file_whatever_its_python_links_to(void **state)
{
  (void)state;
  set("PATH", "/home/me/bin:/usr/bin");
  symbolic("/venv/bin/python3", "/home/me/bin/python3");
  symbolic("/usr/bin/python3", "/venv/bin/python3");
  binary("/usr/bin/python3");
  text("/venv/pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = false\n"
                           "version = 3.11.7\n");
  package("/venv/lib/python3.9/site-packages"); // left behind by another Python
  package("/usr/lib/python3/dist-packages");
  assert_found("/usr/lib/python3/dist-packages/onnxruntime/capi/libonnxruntime.so.1.20.1");
  assert_non_null(strstr(looked, "'/home/me/bin/python3': this Python has no such package"));
  package("/venv/lib/python3.11/site-packages");
  assert_found("/venv/lib/python3.11/site-packages/onnxruntime/capi/libonnxruntime.so.1.20.1");
}

static void a_venv_that_sees_the_systems_packages_does(void **state)
{
  (void)state;
  set("PATH", "/venv/bin");
  symbolic("/opt/base/bin/python3", "/venv/bin/python3");
  binary("/opt/base/bin/python3");
  package("/opt/base/lib/python3.10/site-packages");
  dir("/venv/lib/python3.10/site-packages");
  text("/venv/pyvenv.cfg", "home=/opt/base/bin\nversion_info = 3.10.4.final.0\n");
  assert_not_found("'/venv/bin/python3': this Python has no such package");
  text("/venv/pyvenv.cfg", "home=/opt/base/bin\r\nInclude-System-Site-Packages = True\r\n");
  assert_found("/opt/base/lib/python3.10/site-packages/onnxruntime/capi/libonnxruntime.so.1.20.1");
}

static void of_several_pythons_the_newest_with_the_package_is_taken(void **state)
{
  (void)state;
  search.python_environment = "/env";
  package("/env/lib/python3.9/site-packages");
  dir("/env/lib/python3.12/site-packages");
  assert_found("/env/lib/python3.9/site-packages/onnxruntime/capi/libonnxruntime.so.1.20.1");
  package("/env/lib/python3.10/site-packages");
  assert_found("/env/lib/python3.10/site-packages/onnxruntime/capi/libonnxruntime.so.1.20.1");
}

static void every_python3_of_path_is_looked_at(void **state)
{
  (void)state;
  set("PATH", "/a/bin:/b/bin:");
  binary("/a/bin/python3");
  binary("/b/bin/python3");
  package("/b/lib/python3.13/site-packages");
  assert_found("/b/lib/python3.13/site-packages/onnxruntime/capi/libonnxruntime.so.1.20.1");
  search.python_executable = "python3";
  assert_found("/b/lib/python3.13/site-packages/onnxruntime/capi/libonnxruntime.so.1.20.1");
  search.python_executable = "python3.7";
  assert_found("/b/lib/python3.13/site-packages/onnxruntime/capi/libonnxruntime.so.1.20.1");
  assert_non_null(strstr(looked, "'python3.7': not in PATH"));
}

static void condas_library_without_python_is_found(void **state)
{
  (void)state;
  set("CONDA_PREFIX", "/conda");
  binary("/conda/lib/libonnxruntime.so.1.18.0");
  assert_found("/conda/lib/libonnxruntime.so.1.18.0");
  package("/conda/lib/python3.10/site-packages");
  assert_found("/conda/lib/python3.10/site-packages/onnxruntime/capi/libonnxruntime.so.1.20.1");
}

static void shims_of_pyenv_lead_to_the_version_that_is_chosen(void **state)
{
  (void)state;
  set("PATH", "/home/me/.pyenv/shims");
  text("/home/me/.pyenv/shims/python3", "#!/usr/bin/env bash\nexec pyenv exec \"$@\"\n");
  assert_not_found("'/home/me/.pyenv/shims/python3': a shim of pyenv, and no version of pyenv is "
                   "chosen");
  text("/home/me/.pyenv/version", "3.11.7\n3.9\n");
  assert_not_found("a shim of pyenv, and the version that is chosen is not there");
  binary("/home/me/.pyenv/versions/3.9.18/bin/python3");
  package("/home/me/.pyenv/versions/3.9.18/lib/python3.9/site-packages");
  assert_found("/home/me/.pyenv/versions/3.9.18/lib/python3.9/site-packages/onnxruntime/capi/"
               "libonnxruntime.so.1.20.1");
  binary("/home/me/.pyenv/versions/3.12.1/bin/python3");
  package("/home/me/.pyenv/versions/3.12.1/lib/python3.12/site-packages");
  text("/home/me/.python-version", "# mine\n3.12.1\n");
  assert_found("/home/me/.pyenv/versions/3.12.1/lib/python3.12/site-packages/onnxruntime/capi/"
               "libonnxruntime.so.1.20.1");
  binary("/home/me/.pyenv/bin/python3");
  package("/home/me/.pyenv/lib/python3.1/site-packages");
  set("PYENV_VERSION", "../../evil:..:3.9.18");
  assert_found("/home/me/.pyenv/versions/3.9.18/lib/python3.9/site-packages/onnxruntime/capi/"
               "libonnxruntime.so.1.20.1");
}

static void what_is_no_interpreter_is_named(void **state)
{
  (void)state;
  set("PATH", "/a:/b:/c");
  text("/a/python3", "#!/bin/sh\nexec /opt/python3\n");
  symbolic("python3", "/b/python3");
  dir("/c/python3");
  assert_not_found("'/a/python3': a script, which is not followed");
  search.python_executable = "/b/python3";
  assert_not_found("'/b/python3': links that lead in a circle");
  search.python_executable = "/absent/python3";
  assert_not_found("'/absent/python3': it cannot be read");
  variable_count = 0;
  assert_not_found("'python3': not in PATH");
}

// ---- libraries that do not serve ----

static void the_reason_of_each_that_does_not_serve_is_told(void **state)
{
  (void)state;
  set("PATH", "/a/bin");
  binary("/a/bin/python3");
  const char *library = "/a/lib/python3.11/site-packages/onnxruntime/capi/libonnxruntime.so.1.20.1";
  dir("/a/lib/python3.11/site-packages/onnxruntime/capi");
  assert_not_found("'/a/lib/python3.11/site-packages/onnxruntime/capi': has no libonnxruntime.so");
  binary_for(library, EM_S390);
  assert_not_found("is for s390, and this machine is");
  text(library, "version https://git-lfs.github.com/spec/v1");
  assert_not_found("libonnxruntime.so.1.20.1': is no library");
  binary(library);
  refused = "1.20.1";
  assert_not_found("libonnxruntime.so.1.20.1': too old");
  refused = NULL;
  framework needs_avx = onnx;
  needs_avx.needs_avx = true;
  search.framework = &needs_avx;
  assert_found(library);
  machine.has_avx = false;
  assert_not_found("needs AVX, which this processor does not have");
}

static void the_next_place_is_taken_when_one_does_not_serve_and_none_is_tried_twice(void **state)
{
  (void)state;
  set("VIRTUAL_ENV", "/a");
  set("PATH", "/a/bin:/b/bin");
  text("/a/pyvenv.cfg", "version = 3.11.1\n");
  binary("/a/bin/python3");
  binary("/b/bin/python3");
  package("/a/lib/python3.11/site-packages");
  package("/b/lib/python3.11/site-packages");
  refused = "/a/lib";
  assert_found("/b/lib/python3.11/site-packages/onnxruntime/capi/libonnxruntime.so.1.20.1");
  const char *told = strstr(looked, "too old");
  assert_non_null(told);
  assert_null(strstr(told + 1, "too old"));
}

// ---- strangers ----

static void what_anybody_may_write_is_left_alone_unless_it_was_named(void **state)
{
  (void)state;
  set("PATH", "/a/bin");
  binary("/a/bin/python3");
  package("/a/lib/python3.11/site-packages");
  assert_int_equal(chmod(full("/a/lib/python3.11/site-packages/onnxruntime"), 0777), 0);
  assert_not_found("is left alone, since '");
  assert_non_null(strstr(looked, "site-packages/onnxruntime' may be written by anybody"));
  search.python_environment = "/a";
  assert_found("/a/lib/python3.11/site-packages/onnxruntime/capi/libonnxruntime.so.1.20.1");
  search.python_environment = NULL;
  assert_int_equal(chmod(full("/a/lib/python3.11/site-packages/onnxruntime"), 01777), 0);
  assert_found("/a/lib/python3.11/site-packages/onnxruntime/capi/libonnxruntime.so.1.20.1");
  assert_int_equal(chmod(full("/a/lib/python3.11/site-packages/onnxruntime/capi/"
                              "libonnxruntime.so.1.20.1"),
                         0666),
                   0);
  assert_not_found("libonnxruntime.so.1.20.1' may be written by anybody");
}

static void strictly_what_belongs_to_others_is_left_alone(void **state)
{
  (void)state;
  set("VIRTUAL_ENV", "/a");
  package("/a/lib/python3.11/site-packages");
  machine.strict = true;
  const char *library = "/a/lib/python3.11/site-packages/onnxruntime/capi/libonnxruntime.so.1.20.1";
  assert_found(library);
  if (geteuid() != 0)
    return; // nobody else can give files away
  assert_int_equal(chown(full("/a/lib"), 12345, 0), 0);
  assert_not_found("/a/lib' belongs to another user");
  machine.strict = false;
  assert_found(library);
  machine.strict = true;
  assert_int_equal(chown(full("/a/lib"), 0, 12345), 0);
  assert_found(library);
  assert_int_equal(chmod(full("/a/lib"), 0775), 0);
  assert_not_found("/a/lib' may be written by another group");
}

// ---- other frameworks ----

static void the_same_search_serves_other_frameworks(void **state)
{
  (void)state;
  static const framework others[] = {
      {.library = "libopenvino_c.so", .dir = "openvino/libs"},
      {.library = "libtensorflow_cc.so", .dir = "tensorflow", .needs_avx = true},
      {.library = "libtorch.so", .dir = "torch/lib"},
      {.library = "libtreelite.so", .dir = "treelite/lib"},
  };
  set("PATH", "/a/bin");
  binary("/a/bin/python3");
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
    char path[256];
    snprintf(path, sizeof path, "/a/lib/python3.11/site-packages/%s/%s.2", others[i].dir,
             others[i].library);
    binary(path);
    search.framework = &others[i];
    assert_found(path);
  }
}

static void the_error_says_how_to_install_and_where_was_looked(void **state)
{
  (void)state;
  char *error = framework_not_found(&onnx, "'/usr/bin/python3': this Python has no such package");
  assert_non_null(strstr(error, "ONNX Runtime was not found. Install it with 'pip install "
                                "onnxruntime'"));
  assert_non_null(strstr(error, "(looked in '/usr/bin/python3': this Python has no such "
                                "package)"));
  free(error);
  char *bare = framework_not_found(&onnx, NULL);
  assert_non_null(strstr(bare, "(looked in no place"));
  free(bare);
}

static void what_is_told_is_bounded(void **state)
{
  (void)state;
  for (int i = 0; i < 400; i++) {
    char path[64];
    snprintf(path, sizeof path, "/env/lib/python3.%d/site-packages/onnxruntime/capi", i);
    dir(path);
  }
  search.python_environment = "/env";
  set("PATH", "/env/bin");
  assert_not_found("has no libonnxruntime.so");
  assert_true(strlen(looked) < 8192);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_tree, remove_tree)

int main(void)
{
  umask(022);
  const struct CMUnitTest tests[] = {
      TEST(a_named_library_is_that_one_or_none),
      TEST(the_nearest_comes_first),
      TEST(python3_of_path_is_followed_to_its_installation),
      TEST(debian_has_dist_packages),
      TEST(the_users_own_packages_come_before),
      TEST(a_venv_is_known_by_its_file_whatever_its_python_links_to),
      TEST(a_venv_that_sees_the_systems_packages_does),
      TEST(of_several_pythons_the_newest_with_the_package_is_taken),
      TEST(every_python3_of_path_is_looked_at),
      TEST(condas_library_without_python_is_found),
      TEST(shims_of_pyenv_lead_to_the_version_that_is_chosen),
      TEST(what_is_no_interpreter_is_named),
      TEST(the_reason_of_each_that_does_not_serve_is_told),
      TEST(the_next_place_is_taken_when_one_does_not_serve_and_none_is_tried_twice),
      TEST(what_anybody_may_write_is_left_alone_unless_it_was_named),
      TEST(strictly_what_belongs_to_others_is_left_alone),
      TEST(the_same_search_serves_other_frameworks),
      TEST(the_error_says_how_to_install_and_where_was_looked),
      TEST(what_is_told_is_bounded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

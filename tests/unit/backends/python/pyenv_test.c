// SPDX-License-Identifier: Apache-2.0
// Environments of Python: what of an archive is unpacked and what is refused, who shares a
// directory, and which interpreter a model gets.
#include "base/dir.h"
#include "pyenv/interpreter.h"
#include "pyenv/pyenv_cache.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const unpack_limits LIMITS = {.bytes = 100, .entries = 8};

static char base[] = "/tmp/pyenv_test_XXXXXX";
static int base_dir;

static int set_up(void **state)
{
  (void)state;
  memcpy(base + strlen(base) - 6, "XXXXXX", 6);
  assert_non_null(mkdtemp(base));
  base_dir = open(base, O_RDONLY | O_DIRECTORY);
  return 0;
}

static int tear_down(void **state)
{
  (void)state;
  close(base_dir);
  int parent = open("/tmp", O_RDONLY | O_DIRECTORY);
  assert_true(dir_remove(parent, strrchr(base, '/') + 1));
  close(parent);
  return 0;
}

// A path below the test's directory; good until the fourth call after it.
static const char *path(const char *name)
{
  static char paths[4][256];
  static int next;
  char *result = paths[next++ % 4];
  snprintf(result, sizeof paths[0], "%s/%s", base, name);
  return result;
}

static bool is_there(const char *name)
{
  struct stat status;
  return lstat(path(name), &status) == 0;
}

static void make_file(const char *name, mode_t mode, const char *content)
{
  int file = dir_open(base_dir, name, O_WRONLY | O_CREAT | O_TRUNC, mode);
  assert_int_equal(write(file, content, strlen(content)), strlen(content));
  close(file);
}

static void expect_error(TRITONSERVER_Error *error, const char *text)
{
  assert_non_null(error);
  if (strstr(TRITONSERVER_ErrorMessage(error), text) == NULL)
    fail_msg("'%s' lacks '%s'", TRITONSERVER_ErrorMessage(error), text);
  TRITONSERVER_ErrorDelete(error);
}

// ---- archives

typedef struct made_entry {
  const char *name;
  mode_t mode; // and type; 0: a hard link
  const char *content, *link;
} made_entry;

#define PLAIN(name, mode, content)                                                                 \
  {                                                                                                \
    name, mode, content, NULL                                                                      \
  }
#define LINK(name, mode, link)                                                                     \
  {                                                                                                \
    name, mode, NULL, link                                                                         \
  }

// Writes an archive, which is a tar, to the file `name` of the test's directory.
static void make_archive(const char *name, const made_entry *entries, size_t count)
{
  struct archive *archive = archive_write_new();
  archive_write_set_format_pax(archive);
  assert_int_equal(archive_write_open_filename(archive, path(name)), ARCHIVE_OK);
  for (size_t i = 0; i < count && entries[i].name != NULL; i++) {
    const char *content = entries[i].content == NULL ? "" : entries[i].content;
    struct archive_entry *entry = archive_entry_new();
    archive_entry_set_pathname(entry, entries[i].name);
    archive_entry_set_mode(entry, entries[i].mode == 0 ? S_IFREG : entries[i].mode);
    if (S_ISLNK(entries[i].mode))
      archive_entry_set_symlink(entry, entries[i].link);
    else if (entries[i].link != NULL)
      archive_entry_set_hardlink(entry, entries[i].link);
    archive_entry_set_size(entry, (int64_t)strlen(content));
    archive_entry_set_mtime(entry, 1234567, 0);
    assert_int_equal(archive_write_header(archive, entry), ARCHIVE_OK);
    archive_write_data(archive, content, strlen(content));
    archive_entry_free(entry);
  }
  archive_write_free(archive);
}

static TRITONSERVER_Error *unpack(const char *name)
{
  assert_true(dir_remove(base_dir, "in") && dir_make(base_dir, "in"));
  int file = open(path(name), O_RDONLY), dir = open(path("in"), O_RDONLY | O_DIRECTORY);
  TRITONSERVER_Error *error = unpack_archive(file, "the archive", dir, &LIMITS);
  close(file);
  close(dir);
  return error;
}

static void what_leads_out_or_is_too_much_is_refused(void **state)
{
  (void)state;
  static const struct {
    made_entry entries[3];
    const char *why; // NULL: taken
  } CASES[] = {
      {{PLAIN("a/../b", S_IFREG | 0644, NULL)}, "has \"..\""},
      {{PLAIN("/a", S_IFREG | 0644, NULL)}, "the name is absolute"},
      {{LINK("a", S_IFLNK, "../b")}, "the link leads out"},
      {{LINK("a", S_IFLNK, "/etc/passwd")}, "the link leads out"},
      {{LINK("d/a", S_IFLNK, "../b")}, NULL},
      {{LINK("d/a", S_IFLNK, ".."), LINK("b", S_IFLNK, "d/a/..")}, "the link leads out"},
      {{LINK("bin/python3", S_IFLNK, "/usr/bin/python3.11")}, NULL},
      {{LINK("bin/python3", S_IFLNK, "/usr/bin/perl")}, "the link leads out"},
      {{LINK("a", 0, "../b")}, "the link leads out"},
      {{LINK("d", S_IFLNK, "."), PLAIN("d/a", S_IFREG | 0644, NULL)}, "'d/a'"},
      {{PLAIN("a", S_IFREG | S_ISUID | 0755, NULL)}, "setuid"},
      {{PLAIN("a", S_IFIFO | 0644, NULL)}, "neither a file, a directory nor a link"},
      {{PLAIN(NULL, 0, NULL)}, "the archive is empty"},
  };
  for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
    make_archive("tar", CASES[i].entries, 3);
    if (CASES[i].why == NULL)
      assert_null(unpack("tar"));
    else
      expect_error(unpack("tar"), CASES[i].why);
  }
  made_entry many[9];
  char large[102] = "";
  memset(large, 'x', sizeof large - 1);
  for (size_t i = 0; i < 9; i++)
    many[i] = (made_entry){.name = "a", .mode = S_IFREG | 0644};
  make_archive("tar", many, 9);
  expect_error(unpack("tar"), "more entries than are allowed");
  make_archive("tar", &(made_entry){"a", S_IFREG | 0644, large, NULL}, 1);
  expect_error(unpack("tar"), "more bytes than are allowed");
  make_file("none", 0600, "no archive");
  expect_error(unpack("none"), "archive 'the archive' cannot be read");
}

static void files_come_with_their_times_and_whether_they_are_programs(void **state)
{
  (void)state;
  const made_entry entries[] = {PLAIN("d", S_IFDIR | 0755, NULL),
                                PLAIN("./d//program", S_IFREG | 0755, "first"),
                                PLAIN("d/program", S_IFREG | 0755, "later"),
                                PLAIN("text", S_IFREG | 0666, "text"), LINK("hard", 0, "text")};
  struct stat program, text, hard;
  make_archive("tar", entries, 5);
  assert_null(unpack("tar"));
  assert_int_equal(stat(path("in/d/program"), &program), 0);
  assert_int_equal(stat(path("in/text"), &text), 0);
  assert_int_equal(stat(path("in/hard"), &hard), 0);
  assert_int_equal(program.st_mode & 07777, 0700);
  assert_int_equal(program.st_size, strlen("later"));
  assert_int_equal(text.st_mode & 07777, 0600);
  assert_int_equal(text.st_mtim.tv_sec, 1234567);
  assert_int_equal(text.st_ino, hard.st_ino);
}

// ---- the cache

static const made_entry ENVIRONMENT[] = {PLAIN("bin/python3", S_IFREG | 0755, "#!/bin/sh\n"),
                                         PLAIN("pyvenv.cfg", S_IFREG | 0644, "")};

static void an_archive_is_unpacked_once_and_removed_with_its_last_user(void **state)
{
  (void)state;
  environment_cache *cache;
  cached_environment *one, *two, *other;
  char first[256];
  assert_true(dir_make(base_dir, "nereid-environments-left/in")); // of a server that was killed
  make_archive("tar", ENVIRONMENT, 2);
  assert_null(environment_cache_new(base, &LIMITS, &cache));
  assert_null(environment_cache_take(cache, path("tar"), &one));
  assert_null(environment_cache_take(cache, path("tar"), &two));
  assert_false(is_there("nereid-environments-left"));
  snprintf(first, sizeof first, "%s/bin/python3", cached_environment_dir(one));
  assert_string_equal(cached_environment_dir(one), cached_environment_dir(two));
  make_archive("tar", ENVIRONMENT, 1); // another one since
  assert_null(environment_cache_take(cache, path("tar"), &other));
  assert_string_not_equal(cached_environment_dir(one), cached_environment_dir(other));
  environment_cache_release(cache, one);
  assert_int_equal(access(first, F_OK), 0);
  environment_cache_release(cache, two);
  assert_int_not_equal(access(first, F_OK), 0);
  make_file("none", 0600, "no archive");
  expect_error(environment_cache_take(cache, path("none"), &one), "cannot be read");
  expect_error(environment_cache_take(cache, path("absent"), &one), "cannot read archive");
  expect_error(environment_cache_take(cache, base, &one), "cannot read archive");
  char *dir = strndup(first, strlen(base) + strlen("/nereid-environments-XXXXXX"));
  assert_int_equal(access(dir, F_OK), 0);
  environment_cache_release(cache, other);
  environment_cache_free(cache);
  assert_int_not_equal(access(dir, F_OK), 0);
  free(dir);
}

// ---- interpreters

// As a model with this EXECUTION_ENV_PATH gets it, or NULL for a model without.
static TRITONSERVER_Error *find(python_interpreter *found, environment_cache *cache,
                                const char *setting, const char *environment)
{
  json_t *config = environment == NULL ? json_object()
                                       : json_pack("{s{s{ss}}}", "parameters", "EXECUTION_ENV_PATH",
                                                   "string_value", environment);
  TRITONSERVER_Error *error = python_interpreter_init(found, cache, setting, config, base);
  json_decref(config);
  return error;
}

static void expect_interpreter(environment_cache *cache, const char *setting,
                               const char *environment, const char *program, environment_kind kind)
{
  python_interpreter found;
  assert_null(find(&found, cache, setting, environment));
  assert_string_equal(found.path, program);
  assert_int_equal(found.kind, kind);
  assert_int_equal(found.dir == NULL, kind == ENVIRONMENT_NONE);
  python_interpreter_fini(&found);
}

static void the_environment_then_the_setting_then_the_path_name_the_interpreter(void **state)
{
  (void)state;
  python_interpreter found;
  environment_cache *cache;
  assert_null(environment_cache_new(base, &LIMITS, &cache));
  make_file("bin/python3", 0755, "");
  make_file("venv/bin/python3", 0755, "");
  make_file("venv/pyvenv.cfg", 0644, "");
  make_file("conda/bin/python", 0755, "");
  make_file("conda/conda-meta/x", 0644, "");
  make_file("plain/bin/python4", 0755, "");
  setenv("PATH", path("bin"), 1);
  expect_interpreter(cache, NULL, NULL, path("bin/python3"), ENVIRONMENT_NONE);
  expect_interpreter(cache, path("venv/bin/python3"), NULL, path("venv/bin/python3"),
                     ENVIRONMENT_VIRTUAL);
  expect_interpreter(cache, path("conda/bin/python"), "", path("conda/bin/python"),
                     ENVIRONMENT_CONDA);
  expect_interpreter(cache, "absent", path("venv"), path("venv/bin/python3"), ENVIRONMENT_VIRTUAL);
  expect_interpreter(cache, NULL, "$$TRITON_MODEL_DIRECTORY/conda", path("conda/bin/python"),
                     ENVIRONMENT_CONDA);
  expect_error(find(&found, cache, "absent", NULL), "no Python interpreter 'absent'");
  expect_error(find(&found, cache, NULL, path("plain")), "has neither bin/python3 nor bin/python");
  expect_error(find(&found, cache, NULL, path("absent")), "Failed to get the canonical path");
  setenv("NEREID_PYTHON_ENV", path("venv"), 1);
  expect_interpreter(cache, NULL, NULL, path("venv/bin/python3"), ENVIRONMENT_VIRTUAL);
  expect_interpreter(cache, "python3", NULL, path("bin/python3"), ENVIRONMENT_NONE);
  expect_interpreter(cache, NULL, path("conda"), path("conda/bin/python"), ENVIRONMENT_CONDA);
  setenv("NEREID_PYTHON_ENV", path("plain"), 1); // has libraries alone
  expect_interpreter(cache, NULL, NULL, path("bin/python3"), ENVIRONMENT_NONE);
  unsetenv("NEREID_PYTHON_ENV");
  setenv("PATH", path("absent"), 1);
  expect_error(find(&found, cache, NULL, NULL), "no python3 in PATH");
  make_archive("tar", ENVIRONMENT, 2);
  assert_null(find(&found, cache, NULL, path("tar")));
  assert_non_null(found.archive);
  assert_int_equal(found.kind, ENVIRONMENT_VIRTUAL);
  assert_int_equal(access(found.path, X_OK), 0);
  python_interpreter_fini(&found);
  environment_cache_free(cache);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(what_leads_out_or_is_too_much_is_refused),
      TEST(files_come_with_their_times_and_whether_they_are_programs),
      TEST(an_archive_is_unpacked_once_and_removed_with_its_last_user),
      TEST(the_environment_then_the_setting_then_the_path_name_the_interpreter),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

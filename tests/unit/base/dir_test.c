// SPDX-License-Identifier: Apache-2.0
// Paths beneath a directory whose content is not to be trusted.
#include "base/dir.h"

#include <errno.h>
#include <fcntl.h>
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

static char base[] = "/tmp/dir_test_XXXXXX";
static int parent, dir;

static int set_up(void **state)
{
  (void)state;
  memcpy(base + strlen(base) - 6, "XXXXXX", 6);
  assert_non_null(mkdtemp(base));
  parent = open(base, O_RDONLY | O_DIRECTORY);
  assert_int_equal(mkdirat(parent, "inside", 0700), 0);
  assert_int_equal(mkdirat(parent, "outside", 0700), 0);
  dir = openat(parent, "inside", O_RDONLY | O_DIRECTORY);
  close(openat(parent, "outside/file", O_CREAT | O_WRONLY, 0600));
  return 0;
}

static int tear_down(void **state)
{
  (void)state;
  close(dir);
  close(parent);
  int place = open("/tmp", O_RDONLY | O_DIRECTORY);
  assert_true(dir_remove(place, strrchr(base, '/') + 1));
  close(place);
  assert_int_not_equal(access(base, F_OK), 0);
  return 0;
}

static int make(const char *path)
{
  return dir_open(dir, path, O_CREAT | O_EXCL | O_WRONLY, 0600);
}

static void test_files_come_with_their_dirs(void **state)
{
  (void)state;
  int file = make("a/b/c");
  assert_true(file >= 0);
  close(file);
  assert_int_equal(faccessat(dir, "a/b/c", F_OK, 0), 0);
  assert_int_equal(make("a/b/c"), -1);
  assert_true(dir_make(dir, "a/b/d/e") && dir_make(dir, "a/b/d/e"));
  assert_false(dir_make(dir, "a/b/c/d")); // a file is in the way
}

static void test_nothing_is_reached_outside(void **state)
{
  (void)state;
  assert_true(dir_link_to(dir, "up", "../outside"));
  assert_true(dir_link_to(dir, "down", "."));
  static const char *const paths[] = {"up/file", "../outside/file", "/etc/passwd", "down/x", "up"};
  for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
    assert_int_equal(dir_open(dir, paths[i], O_RDONLY, 0), -1);
    assert_int_equal(make(paths[i]), -1);
    assert_false(dir_share_file(dir, paths[i], "mine"));
    dir_remove_file(dir, i == 4 ? "absent" : paths[i]);
  }
  assert_false(dir_make(dir, "up/new"));
  assert_false(dir_link_to(dir, "up/new", "x"));
  assert_int_equal(faccessat(parent, "outside/file", F_OK, 0), 0);
  assert_int_not_equal(faccessat(parent, "outside/new", F_OK, 0), 0);
}

static void test_links_are_told_apart_by_where_they_lead(void **state)
{
  (void)state;
  close(make("a/file"));
  assert_true(dir_link_to(dir, "good", "a/file"));
  assert_true(dir_link_to(dir, "nowhere", "a/absent"));
  assert_true(dir_link_to(dir, "up", "../outside"));
  assert_true(dir_link_to(dir, "absolute", "/etc"));
  assert_true(dir_link_to(dir, "two", "up/file"));
  assert_true(dir_link_to(dir, "loop", "loop"));
  assert_true(dir_resolves(dir, "good") && dir_resolves(dir, "nowhere"));
  static const char *const bad[] = {"up", "absolute", "two", "loop"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    assert_false(dir_resolves(dir, bad[i]));
}

static void test_a_second_name_is_the_same_file(void **state)
{
  (void)state;
  struct stat one, two;
  close(make("a/file"));
  assert_true(dir_share_file(dir, "a/file", "b/file"));
  assert_int_equal(fstatat(dir, "a/file", &one, 0), 0);
  assert_int_equal(fstatat(dir, "b/file", &two, 0), 0);
  assert_true(one.st_ino == two.st_ino);
}

static void test_removing_follows_no_link_and_opens_what_is_closed(void **state)
{
  (void)state;
  close(make("a/b/file"));
  assert_true(dir_link_to(dir, "a/up", "../../outside"));
  assert_int_equal(fchmodat(dir, "a/b", 0, 0), 0);
  assert_true(dir_remove(dir, "a"));
  assert_int_not_equal(faccessat(dir, "a", F_OK, 0), 0);
  assert_int_equal(faccessat(parent, "outside/file", F_OK, 0), 0);
  assert_true(dir_remove(dir, "absent"));
  assert_true(dir_link_to(dir, "up", "../outside"));
  assert_true(dir_remove(dir, "up")); // the link
  assert_int_equal(faccessat(parent, "outside/file", F_OK, 0), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_files_come_with_their_dirs, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_nothing_is_reached_outside, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_links_are_told_apart_by_where_they_lead, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(test_a_second_name_is_the_same_file, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_removing_follows_no_link_and_opens_what_is_closed,
                                      set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

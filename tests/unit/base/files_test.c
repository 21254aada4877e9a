// SPDX-License-Identifier: Apache-2.0
// Files below a root: which links are followed under which policy, what is never opened, and what
// counts as a change.
#include "base/cleanup.h"
#include "base/file_stamp.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

// The tests' directory: `inside` is the root, `allowed` and `outside` are beside it.
static char base[64];

static const char *path_of(const char *name)
{
  static char paths[4][256];
  static int next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof(paths[0]), "%s/%s", base, name);
  return path;
}

static void put(const char *name, const char *content)
{
  FILE *file = fopen(path_of(name), "w");
  assert_non_null(file);
  fputs(content, file);
  fclose(file);
}

// `target` without a leading '/' is relative to the link; "@x" is the absolute path of x.
static void put_link(const char *name, const char *target)
{
  const char *to = target[0] == '@' ? path_of(target + 1) : target;
  const char *fresh = path_of("fresh");
  assert_int_equal(symlink(to, fresh), 0);
  assert_int_equal(rename(fresh, path_of(name)), 0); // takes the place of one that is there
}

static int set_up(void **state)
{
  (void)state;
  static const char *dirs[] = {
      "inside",       "inside/directory", "allowed",          "allowed/directory",
      "allowed_evil", "outside",          "outside/directory"};
  strcpy(base, "/tmp/nereid-files-XXXXXX");
  assert_non_null(mkdtemp(base));
  for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
    assert_int_equal(mkdir(path_of(dirs[i]), 0700), 0);
  put("inside/file", "inside");
  put("inside/directory/file", "inside");
  put("allowed/file", "allowed");
  put("allowed_evil/file", "evil");
  put("outside/file", "outside");
  put("outside/directory/file", "outside");
  return 0;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place)
{
  (void)status, (void)kind, (void)place;
  return remove(path);
}

static int tear_down(void **state)
{
  (void)state;
  return nftw(base, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static file_root open_inside(const file_policy *policy)
{
  file_root root;
  assert_null(files_open_root(path_of("inside"), policy, &root));
  return root;
}

static bool reads(const file_root *root, const char *name, const char *expected)
{
  AUTO_BUFFER buffer content = BUFFER_EMPTY;
  AUTO_ERROR error *e = files_read(root, name, 100, &content);
  if (e != NULL) {
    assert_int_equal(content.size, 0);
    return false;
  }
  assert_int_equal(content.size, strlen(expected));
  assert_memory_equal(content.data, expected, content.size);
  return true;
}

static file_kind kind_of(const file_root *root, const char *name)
{
  file_kind kind;
  assert_null(files_kind(root, name, &kind));
  return kind;
}

// ---- policies ----

static void put_all_links(void)
{
  put_link("inside/near", "directory/file");
  put_link("inside/near_dir", "@inside/directory");
  put_link("inside/allowed", "../allowed/file");
  put_link("inside/allowed_dir", "@allowed/directory");
  put_link("inside/evil", "@allowed_evil/file");
  put_link("inside/out", "@outside/file");
  put_link("inside/out_dir", "../outside/directory");
  put_link("allowed/out", "../outside/file");
  put_link("inside/chain", "@allowed/out"); // through the allowed directory and out of it again
}

static void operators_links_lead_anywhere(void **state)
{
  (void)state;
  put_all_links();
  AUTO_ROOT file_root root = open_inside(&file_policy_anywhere);
  assert_true(reads(&root, "near", "inside") && reads(&root, "near_dir/file", "inside"));
  assert_true(reads(&root, "allowed", "allowed") && reads(&root, "out", "outside"));
  assert_true(reads(&root, "out_dir/file", "outside") && reads(&root, "chain", "outside"));
  assert_int_equal(kind_of(&root, "out_dir"), FILE_FOLDER);
  assert_false(reads(&root, path_of("outside/file"), "outside")); // a name is never absolute
}

static void kept_links_lead_below_the_roots_only(void **state)
{
  (void)state;
  put_all_links();
  file_policy policy = {.links = FILE_LINKS_KEPT};
  assert_null(file_policy_add_root(&policy, path_of("inside")));
  assert_null(file_policy_add_root(&policy, path_of("allowed")));
  AUTO_ROOT file_root root = open_inside(&policy);
  assert_true(reads(&root, "near", "inside") && reads(&root, "near_dir/file", "inside"));
  assert_true(reads(&root, "allowed", "allowed"));
  assert_int_equal(kind_of(&root, "allowed_dir"), FILE_FOLDER);
  static const char *refused[] = {
      "evil", "out", "out_dir/file", "chain", "../outside/file", "directory/../../outside/file",
      ".."};
  for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
    assert_false(reads(&root, refused[i], ""));
    assert_int_equal(kind_of(&root, refused[i]), FILE_ABSENT);
  }
  AUTO_ERROR error *e = files_check_link(&root, "out_dir");
  assert_non_null(e);
  assert_string_equal(
      error_message(e),
      "'out_dir' is a link to '../outside/directory', which leads out of its directory");
  assert_null(files_check_link(&root, "allowed"));
  // Below a directory that was opened, too, and where the link leads up to a neighbour of the
  // directory.
  put_link("inside/directory/up", "../file");
  AUTO_ROOT file_root dir = FILE_ROOT_CLOSED;
  assert_null(files_open_dir(&root, "directory", &dir));
  assert_true(reads(&dir, "up", "inside"));
  file_policy_fini(&policy);
}

static void strangers_links_lead_nowhere(void **state)
{
  (void)state;
  put_all_links();
  AUTO_ROOT file_root root = open_inside(&file_policy_no_links);
  assert_true(reads(&root, "file", "inside") && reads(&root, "directory/file", "inside"));
  static const char *refused[] = {"near", "near_dir/file", "allowed",
                                  "out",  "out_dir/file",  "../outside/file"};
  for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
    assert_false(reads(&root, refused[i], ""));
}

static void names_of_clients_stay_below(void **state)
{
  (void)state;
  static const char *good[] = {"a", "a/b", "a/b/", "..a", "a..", "...", "a/./b", "a//b"};
  static const char *bad[] = {"", "/", "/a", "..", "../a", "a/..", "a/../b", "./.."};
  for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
    assert_true(files_stays_below(good[i]));
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
    assert_false(files_stays_below(bad[i]));
}

static void what_is_no_file_is_never_opened(void **state)
{
  (void)state;
  assert_int_equal(mkfifo(path_of("inside/fifo"), 0600), 0); // opening it would wait for a writer
  put_link("inside/to_fifo", "fifo");
  put_link("inside/device", "/dev/zero");
  put_link("inside/gone", "nowhere");
  put_link("inside/loop", "loop");
  AUTO_ROOT file_root root = open_inside(&file_policy_anywhere);
  const struct {
    const char *name;
    file_kind kind;
    const char *message;
  } cases[] = {
      {"fifo", FILE_OTHER, "'fifo' is not a regular file"},
      {"to_fifo", FILE_OTHER, "'to_fifo' is not a regular file"},
      {"device", FILE_OTHER, "'device' is not a regular file"},
      {"directory", FILE_FOLDER, "'directory' is not a regular file"},
      {"gone", FILE_ABSENT, "'gone' is a link to 'nowhere', which does not exist"},
      {"loop", FILE_ABSENT,
       "failed to open 'loop', a link to 'loop': Too many levels of symbolic "
       "links"},
      {"absent", FILE_ABSENT, "'absent' does not exist"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    int descriptor;
    AUTO_ERROR error *e = files_open(&root, cases[i].name, FILE_REGULAR, &descriptor);
    assert_non_null(e);
    assert_int_equal(descriptor, -1);
    assert_string_equal(error_message(e), cases[i].message);
    assert_int_equal(kind_of(&root, cases[i].name), cases[i].kind);
  }
  AUTO_ROOT file_root dir = FILE_ROOT_CLOSED;
  AUTO_ERROR error *e = files_open_dir(&root, "file", &dir);
  assert_string_equal(error_message(e), "'file' is not a directory");
  assert_true(files_exists(&root, "gone"));
  assert_false(files_exists(&root, "absent"));
}

// ---- changes ----

static file_stamp stamp_of(const char *name)
{
  AUTO_ROOT file_root root = open_inside(&file_policy_anywhere);
  file_stamp stamp;
  file_kind kind;
  error *refused = NULL;
  assert_null(file_stamp_take(&root, name, "inside", &kind, &stamp, &refused));
  assert_null(refused);
  return stamp;
}

// Gives the file the times that it may have had before.
static void make_old(const char *name)
{
  const struct timespec long_ago[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
  assert_int_equal(utimensat(AT_FDCWD, path_of(name), long_ago, 0), 0);
}

// The clock of files ticks once in some milliseconds.
static void await_tick(void)
{
  struct stat before, now;
  put("tick", "");
  assert_int_equal(stat(path_of("tick"), &before), 0);
  do {
    put("tick", "");
    assert_int_equal(stat(path_of("tick"), &now), 0);
  } while (now.st_mtim.tv_sec == before.st_mtim.tv_sec &&
           now.st_mtim.tv_nsec == before.st_mtim.tv_nsec);
}

static bool changes(const char *name, file_stamp *last)
{
  file_stamp now = stamp_of(name);
  bool result = file_stamp_differs(now, *last);
  *last = now;
  await_tick();
  return result;
}

static void changes_are_seen_through_links(void **state)
{
  (void)state;
  put_link("inside/directory/data", "@outside/file");
  put_link("inside/directory/more", "@outside/directory");
  await_tick();
  file_stamp last = {0};
  assert_true(changes("directory", &last));
  assert_false(changes("directory", &last));
  put("outside/file", "other");
  assert_true(changes("directory", &last));
  put("outside/new", "outside");
  make_old("outside/new");
  assert_false(changes("directory", &last)); // it is nobody's
  assert_int_equal(rename(path_of("outside/new"), path_of("outside/file")), 0);
  assert_true(changes("directory", &last)); // an old file in the place of a newer one
  put("outside/directory/new", "x");
  assert_true(changes("directory", &last));
  assert_int_equal(unlink(path_of("outside/directory/new")), 0);
  assert_true(changes("directory", &last));
  put_link("inside/directory/data", "@allowed/file");
  assert_true(changes("directory", &last));
  assert_false(changes("directory", &last));
}

static void a_link_on_the_way_that_leads_elsewhere_is_a_change(void **state)
{
  (void)state;
  put_link("outside/current", "directory");
  put_link("inside/directory/data", "@outside/current/file");
  assert_int_equal(mkdir(path_of("outside/older"), 0700), 0);
  put("outside/older/file", "older");
  await_tick();
  file_stamp last = stamp_of("directory");
  assert_false(changes("directory", &last));
  put_link("outside/current", "older"); // no newer file is to be seen from inside
  assert_true(changes("directory", &last));
  put_link("outside/current", "directory");
  assert_true(changes("directory", &last));
}

static void another_dir_of_the_name_is_a_change_though_it_is_older(void **state)
{
  (void)state;
  put_link("inside/current", "@outside/directory");
  put_link("inside/version", "current"); // not the link that is exchanged
  await_tick();
  file_stamp last = stamp_of("version");
  put_link("inside/current", "@allowed/directory");
  assert_true(changes("version", &last));
  put_link("inside/current", "@outside/directory");
  assert_true(changes("version", &last));
  assert_false(changes("version", &last));
}

static void links_in_a_circle_come_to_an_end(void **state)
{
  (void)state;
  static const char *names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
  char link[64], target[64];
  for (int i = 0; i < 8; i++) {
    snprintf(link, sizeof(link), "inside/directory/%s", names[i]);
    assert_int_equal(mkdir(path_of(link), 0700), 0);
  }
  for (int i = 0; i < 8; i++)
    for (int k = 0; k < 8; k++) { // ways of 32 directories: 8 to the 32nd power, if all were gone
      snprintf(link, sizeof(link), "inside/directory/%s/%d", names[i], k);
      snprintf(target, sizeof(target), "../../directory/%s", names[k]);
      put_link(link, target);
    }
  file_stamp last = {0};
  assert_true(changes("directory", &last));
  put("inside/directory/h/new", "x");
  assert_true(changes("directory", &last));
}

#define FILES_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
  const struct CMUnitTest tests[] = {
      FILES_TEST(operators_links_lead_anywhere),
      FILES_TEST(kept_links_lead_below_the_roots_only),
      FILES_TEST(strangers_links_lead_nowhere),
      cmocka_unit_test(names_of_clients_stay_below),
      FILES_TEST(what_is_no_file_is_never_opened),
      FILES_TEST(changes_are_seen_through_links),
      FILES_TEST(a_link_on_the_way_that_leads_elsewhere_is_a_change),
      FILES_TEST(another_dir_of_the_name_is_a_change_though_it_is_older),
      FILES_TEST(links_in_a_circle_come_to_an_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

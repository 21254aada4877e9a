// SPDX-License-Identifier: Apache-2.0
// Paths walked where there is no openat2: what the kernel's own says of the same path, and that
// nothing outside is opened while directories are exchanged for links.
#include "base/path_walk.h"

#include "base/cleanup.h"
#include "base/dir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

enum {
  TREES = 60,
  PATHS = 400, // of each tree
  RACES = 2000 // openings that succeed, and as many that do not
};

#define BENEATH  (RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)
#define NO_LINKS (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)
#define ANYWHERE (RESOLVE_NO_MAGICLINKS)

static char base[] = "/tmp/path_walk_test_XXXXXX";
static int parent, inside; // directories

static void put_file(const char *path)
{
  int file = openat(parent, path, O_CREAT | O_EXCL | O_WRONLY, 0600);
  assert_true(file >= 0);
  close(file);
}

static void put_dir(const char *path)
{
  assert_int_equal(mkdirat(parent, path, 0700), 0);
}

static void put_link(const char *path, const char *target)
{
  assert_int_equal(symlinkat(target, parent, path), 0);
}

static int set_up(void **state)
{
  (void)state;
  memcpy(base + strlen(base) - 6, "XXXXXX", 6);
  assert_non_null(mkdtemp(base));
  parent = open(base, O_RDONLY | O_DIRECTORY);
  put_dir("inside");
  put_dir("outside");
  inside = openat(parent, "inside", O_RDONLY | O_DIRECTORY);
  return 0;
}

static int tear_down(void **state)
{
  (void)state;
  close(inside);
  close(parent);
  assert_true(dir_remove_path(base));
  return 0;
}

static int walk(const char *path, int flags, uint64_t resolve)
{
  return path_walk(inside, path,
                   &(struct open_how){.flags = (uint64_t)(unsigned)flags, .resolve = resolve});
}

// ---- what the kernel says

// Again while it says EAGAIN: it does where "..", and anything renamed or mounted on this machine
// at the same time, might lead out.
static int ask_kernel_how(const char *path, const struct open_how *how)
{
  long result;
  do
    result = syscall(SYS_openat2, inside, path, how, sizeof(*how));
  while (result < 0 && errno == EAGAIN);
  return (int)result;
}

static int ask_kernel(const char *path, int flags, uint64_t resolve)
{
  return ask_kernel_how(path, &(struct open_how){.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
                                                 .resolve = resolve});
}

static bool has_openat2(void)
{
  struct open_how how = {.flags = O_PATH};
  int opened = (int)syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof(how));
  if (opened >= 0)
    close(opened);
  return opened >= 0;
}

static uint32_t chance = 1;

static unsigned draw(unsigned count)
{
  chance = chance * 1664525u + 1013904223u;
  return (chance >> 8) % count;
}

static const char *const NAMES[] = {"a", "b", "c", "d"};

// A path of up to five parts, among which are "..", "." and none.
static void draw_path(char *path, size_t room, bool absolute)
{
  static const char *const parts[] = {"..", ".", "", "a", "b", "c", "d", "a", "b", "c", "d", "e"};
  unsigned count = 1 + draw(5);
  size_t size = (size_t)snprintf(path, room, "%s", absolute ? base : "");
  for (unsigned i = 0; i < count; i++)
    size += (size_t)snprintf(path + size, room - size, "%s%s", i > 0 || absolute ? "/" : "",
                             parts[draw(sizeof(parts) / sizeof(parts[0]))]);
  if (size == 0)
    strcpy(path, ".");
}

// Fills a directory of `parent` with directories, files, links and a FIFO, three levels deep.
static void draw_tree(const char *dir, int depth)
{
  char path[PATH_MAX], target[128];
  for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++) {
    snprintf(path, sizeof(path), "%s/%s", dir, NAMES[i]);
    unsigned kind = draw(10);
    if (kind < 4 && depth < 3) {
      put_dir(path);
      draw_tree(path, depth + 1);
    } else if (kind < 6) {
      put_file(path);
    } else if (kind == 6) {
      assert_int_equal(mkfifoat(parent, path, 0600), 0);
    } else {
      draw_path(target, sizeof(target), draw(5) == 0);
      put_link(path, target);
    }
  }
}

static void same_for_both(const char *path, int flags, uint64_t resolve)
{
  struct stat kernels = {0}, walked = {0};
  AUTO_CLOSE int kernel = ask_kernel(path, flags, resolve);
  int kernel_reason = kernel < 0 ? errno : 0;
  AUTO_CLOSE int found = walk(path, flags, resolve);
  int reason = found < 0 ? errno : 0;
  assert_true((kernel < 0 || fstat(kernel, &kernels) == 0) &&
              (found < 0 || fstat(found, &walked) == 0));
  if (reason != kernel_reason || walked.st_ino != kernels.st_ino || walked.st_dev != kernels.st_dev)
    fail_msg("'%s', flags %#x, rules %#llx: the kernel says %s and opens %lu, the walk %s and %lu",
             path, (unsigned)flags, (unsigned long long)resolve,
             kernel_reason == 0 ? "yes" : strerrorname_np(kernel_reason),
             (unsigned long)kernels.st_ino, reason == 0 ? "yes" : strerrorname_np(reason),
             (unsigned long)walked.st_ino);
  assert_true(found < 0 || (fcntl(found, F_GETFD) & FD_CLOEXEC) != 0);
}

static void any_path_is_what_it_is_to_the_kernel(void **state)
{
  static const uint64_t rules[] = {BENEATH, NO_LINKS, ANYWHERE};
  static const int flags[] = {O_PATH,
                              O_PATH | O_NOFOLLOW,
                              O_PATH | O_DIRECTORY,
                              O_PATH | O_DIRECTORY | O_NOFOLLOW,
                              O_RDONLY | O_NONBLOCK,
                              O_RDONLY | O_NONBLOCK | O_NOFOLLOW,
                              O_RDONLY | O_DIRECTORY};
  char path[256];
  for (int i = 0; i < TREES; i++) {
    draw_tree("inside", 0);
    draw_tree("outside", 2);
    for (int k = 0; k < PATHS; k++) {
      draw_path(path, sizeof(path), draw(10) == 0);
      same_for_both(path, flags[draw(sizeof(flags) / sizeof(flags[0]))], rules[draw(3)]);
    }
    tear_down(state);
    set_up(state);
  }
}

// What is made is made at the same place: by the same paths in two trees that are alike.
static void what_is_made_is_made_at_the_same_place(void **state)
{
  static const uint64_t rules[] = {BENEATH, NO_LINKS, ANYWHERE};
  static const int flags[] = {O_CREAT | O_WRONLY, O_CREAT | O_EXCL | O_WRONLY,
                              O_CREAT | O_WRONLY | O_NOFOLLOW};
  char path[256];
  for (int i = 0; i < TREES; i++) {
    draw_tree("inside", 1);
    for (int k = 0; k < PATHS / 10; k++) {
      draw_path(path, sizeof(path), false);
      size_t size = strlen(path);
      if (path[size - 1] == '/' || path[size - 1] == '.')
        continue; // EISDIR or ENOENT: both make nothing
      uint64_t resolve = rules[draw(3)];
      struct open_how how = {.flags = (uint64_t)(unsigned)(flags[draw(3)] | O_NONBLOCK),
                             .mode = 0600,
                             .resolve = resolve};
      int made = path_walk(inside, path, &how), reason = made < 0 ? errno : 0;
      struct stat status, found;
      if (made < 0) {
        how.flags &= ~(uint64_t)O_CREAT;
        errno = 0;
        AUTO_CLOSE int again = ask_kernel_how(path, &how);
        assert_true(again < 0 || reason == EEXIST || reason == ENXIO || reason == EISDIR);
        continue;
      }
      assert_int_equal(fstat(made, &status), 0);
      close(made);
      AUTO_CLOSE int kernels = ask_kernel(path, O_PATH, resolve);
      assert_int_equal(fstat(kernels, &found), 0);
      assert_true(found.st_ino == status.st_ino);
    }
    tear_down(state);
    set_up(state);
  }
}

// ---- without it

static void refused(const char *path, int flags, uint64_t resolve, int reason)
{
  int opened = walk(path, flags, resolve);
  int got = errno;
  assert_int_equal(opened, -1);
  assert_string_equal(strerrorname_np(got), strerrorname_np(reason));
}

static void nothing_leads_out_from_beneath(void **state)
{
  (void)state;
  put_file("outside/file");
  put_dir("inside/dir");
  put_link("inside/up", "../outside/file");
  put_link("inside/dir/up", "../../outside");
  put_link("inside/root", "/");
  put_link("inside/here", ".");
  static const char *const paths[] = {
      "..", "../outside/file", "dir/../../outside/file", "up",  "dir/up/file", "root", "root/tmp",
      "/",  "here/..",         "here/here/../dir/..",    "/..", "/tmp"};
  for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
    refused(paths[i], O_PATH, BENEATH, EXDEV);
  refused("up", O_PATH, NO_LINKS, ELOOP);
  refused("here/dir", O_PATH, NO_LINKS, ELOOP);
  refused("here", O_PATH | O_DIRECTORY, NO_LINKS, ELOOP);
  refused("", O_PATH, BENEATH, ENOENT);
  AUTO_CLOSE int out = walk("dir/up/file", O_RDONLY, ANYWHERE);
  assert_true(out >= 0);
}

static void links_of_the_kernel_are_not_followed(void **state)
{
  (void)state;
  char target[64];
  put_file("outside/file");
  AUTO_CLOSE int file = openat(parent, "outside/file", O_RDONLY);
  snprintf(target, sizeof(target), "/proc/self/fd/%d", file);
  put_link("inside/magic", target);
  snprintf(target, sizeof(target), "/proc/%d/root/tmp", (int)getpid());
  put_link("inside/root", target);
  put_link("inside/cwd", "/proc/self/cwd");
  refused("magic", O_RDONLY, ANYWHERE, ELOOP);
  refused("root", O_RDONLY, ANYWHERE, ELOOP);
  refused("cwd", O_PATH, ANYWHERE, ELOOP);
  refused("/proc/self/exe", O_RDONLY, ANYWHERE, ELOOP);
}

static void ends_of_what_a_path_may_be(void **state)
{
  (void)state;
  char name[PATH_MAX + 1];
  memset(name, 'n', sizeof(name));
  name[PATH_MAX] = '\0';
  refused(name, O_PATH, BENEATH, ENAMETOOLONG);
  name[256] = '\0';
  refused(name, O_PATH, BENEATH, ENAMETOOLONG);
  put_file("inside/link0");
  for (int i = 1; i <= 41; i++) { // the kernel follows forty
    char target[16], path[32];
    snprintf(target, sizeof(target), "link%d", i - 1);
    snprintf(path, sizeof(path), "inside/link%d", i);
    put_link(path, target);
  }
  AUTO_CLOSE int last = walk("link40", O_RDONLY, BENEATH);
  assert_true(last >= 0);
  refused("link41", O_RDONLY, BENEATH, ELOOP);
}

static void links_that_others_put_where_everybody_may_are_not_followed(void **state)
{
  (void)state;
  put_dir("inside/all");
  put_file("inside/file");
  put_link("inside/all/link", "../file");
  assert_int_equal(fchmodat(inside, "all", 01777, 0), 0);
  AUTO_CLOSE int own = walk("all/link", O_RDONLY, BENEATH);
  assert_true(own >= 0);
  if (geteuid() != 0) // nobody else can give a link away
    return;
  assert_int_equal(fchownat(inside, "all/link", 65534, 65534, AT_SYMLINK_NOFOLLOW), 0);
  refused("all/link", O_RDONLY, BENEATH, EACCES);
  assert_int_equal(fchownat(inside, "all", 65534, 65534, 0), 0);
  AUTO_CLOSE int owners = walk("all/link", O_RDONLY, BENEATH);
  assert_true(owners >= 0);
}

static void no_descriptor_stays_open(void **state)
{
  (void)state;
  put_dir("inside/a");
  put_dir("inside/a/b");
  put_link("inside/a/b/up", "../../a/b/../none");
  put_link("inside/a/abs", base);
  int before = dup(0);
  close(before);
  static const char *const paths[] = {"a/b/..", "a/b/up", "a/abs/inside", "a/b/x/y", "../x"};
  for (size_t i = 0; i < 3 * sizeof(paths) / sizeof(paths[0]); i++) {
    int opened = walk(paths[i / 3], O_PATH,
                      i % 3 == 0   ? BENEATH
                      : i % 3 == 1 ? NO_LINKS
                                   : ANYWHERE);
    if (opened >= 0)
      close(opened);
  }
  int after = dup(0);
  close(after);
  assert_int_equal(after, before);
}

// ---- races

static _Atomic bool over;

// A directory and a link to one outside take turns at the name "sub", and "sub/deep" with one that
// leads there too.
static void *exchange(void *nothing)
{
  static const char *const steps[][2] = {
      {"inside/sub", "kept"},           {"link", "inside/sub"},
      {"inside/sub", "link"},           {"kept", "inside/sub"},
      {"inside/sub/deep", "deep"},      {"deep_link", "inside/sub/deep"},
      {"inside/sub/deep", "deep_link"}, {"deep", "inside/sub/deep"}};
  while (!atomic_load(&over))
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
      if (renameat(parent, steps[i][0], parent, steps[i][1]) != 0)
        return &over; // it failed
  return nothing;
}

static void put_racing_tree(void)
{
  static const char *const dirs[] = {"inside/sub", "inside/sub/deep", "outside/sub", "outside/deep",
                                     "outside/sub/deep"};
  static const char *const files[] = {
      "inside/sub/file",  "inside/sub/deep/file", "inside/file",          "outside/file",
      "outside/sub/file", "outside/deep/file",    "outside/sub/deep/file"};
  for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
    put_dir(dirs[i]);
  for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
    put_file(files[i]);
  put_link("link", "../outside");
  put_link("deep_link", "../../outside/deep");
  put_link("inside/through", "sub/deep/..");
}

// Files outside have another mode.
static bool is_outside(int opened)
{
  struct stat status;
  assert_int_equal(fstat(opened, &status), 0);
  return (status.st_mode & 0777) == 0640;
}

static void nothing_outside_is_opened_while_links_take_dirs_places(void **state)
{
  (void)state;
  static const char *const paths[] = {
      "sub/file",         "sub/deep/file",       "sub/deep/../file", "sub/../file",
      "sub/../sub/file",  "sub/deep/../../file", "through/file",     "sub/deep/../deep/file",
      "sub/./deep//file", "through/deep/file"};
  static const char *const files[] = {"outside/file", "outside/sub/file", "outside/deep/file",
                                      "outside/sub/deep/file"};
  static const uint64_t rules[] = {BENEATH, NO_LINKS};
  static const int flags[] = {O_RDONLY, O_PATH, O_RDONLY | O_NOFOLLOW, O_CREAT | O_WRONLY};
  pthread_t thread;
  void *failure;
  put_racing_tree();
  for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
    assert_int_equal(fchmodat(parent, files[i], 0640, 0), 0);
  atomic_store(&over, false);
  assert_int_equal(pthread_create(&thread, NULL, exchange, NULL), 0);
  size_t opened = 0, refused_links = 0, out = 0;
  for (size_t i = 0; opened < RACES || refused_links < RACES; i++) {
    struct open_how how = {.flags = (uint64_t)(unsigned)flags[i / 20 % 4],
                           .resolve = rules[i / 10 % 2]};
    how.mode = (how.flags & O_CREAT) != 0 ? 0600 : 0;
    AUTO_CLOSE int file = path_walk(inside, paths[i % 10], &how);
    opened += file >= 0;
    refused_links += file < 0 && (errno == EXDEV || errno == ELOOP);
    out += file >= 0 && is_outside(file);
  }
  atomic_store(&over, true);
  pthread_join(thread, &failure);
  assert_null(failure);
  assert_int_equal(out, 0);
}

#define WALK_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
  const struct CMUnitTest beside_the_kernel[] = {
      WALK_TEST(any_path_is_what_it_is_to_the_kernel),
      WALK_TEST(what_is_made_is_made_at_the_same_place),
  };
  const struct CMUnitTest tests[] = {
      WALK_TEST(nothing_leads_out_from_beneath),
      WALK_TEST(links_of_the_kernel_are_not_followed),
      WALK_TEST(ends_of_what_a_path_may_be),
      WALK_TEST(links_that_others_put_where_everybody_may_are_not_followed),
      WALK_TEST(no_descriptor_stays_open),
      WALK_TEST(nothing_outside_is_opened_while_links_take_dirs_places),
  };
  int failed = has_openat2() ? cmocka_run_group_tests(beside_the_kernel, NULL, NULL) : 0;
  return failed + cmocka_run_group_tests(tests, NULL, NULL);
}

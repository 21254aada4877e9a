// SPDX-License-Identifier: Apache-2.0
// Directories of packages.
#include "python_packages.h"

#include "base/cleanup.h"

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define MAX_LINKS         16   // followed in a chain
#define MAX_PYTHONS       16   // in one lib directory
#define MAX_TEXT_BYTES    4096 // of pyvenv.cfg, .python-version
#define MAX_VERSION_BYTES 256  // in pyvenv.cfg, .python-version

// Removes the last component; false when there is none.
static bool go_up(char path[PATH_MAX])
{
  char *slash = strrchr(path, '/');
  if (slash == NULL)
    return false;
  *slash = '\0';
  return true;
}

static const char *last_of(const char *path)
{
  const char *slash = strrchr(path, '/');
  return slash != NULL ? slash + 1 : path;
}

// Reads the beginning of a file and adds a NUL. Returns the number of bytes; -1 without a file.
static ssize_t read_start(const framework_system *s, const char *path, char text[MAX_TEXT_BYTES])
{
  char full[PATH_MAX];
  if (!framework_path(full, "%s%s", s->root, path))
    return -1;
  AUTO_CLOSE int file = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  ssize_t size = file < 0 ? -1 : read(file, text, MAX_TEXT_BYTES - 1);
  if (size >= 0)
    text[size] = '\0';
  return size;
}

char *python_packages_nth_newest(const framework_system *s, const char *dir, const char *prefix,
                                 size_t nth)
{
  char full[PATH_MAX];
  struct dirent **entries = NULL;
  int count =
      framework_path(full, "%s%s", s->root, dir) ? scandir(full, &entries, NULL, versionsort) : -1;
  char *found = NULL;
  for (int i = count - 1; i >= 0; i--) {
    if (found == NULL && strncmp(entries[i]->d_name, prefix, strlen(prefix)) == 0 && nth-- == 0)
      found = strdup(entries[i]->d_name);
    free(entries[i]);
  }
  free(entries);
  return found;
}

// ---- directories below a prefix ----

static bool visit(const package_walk *w, const char *dir)
{
  return framework_is_dir(w->system, dir) && w->visit(w->context, dir);
}

// Visits the packages of the Python whose directory in lib is `name`, such as python3.11.
static bool visit_python(const package_walk *w, const char *prefix, const char *name)
{
  static const char *const layouts[] = {"lib/%s/site-packages", "lib64/%s/site-packages",
                                        "local/lib/%s/dist-packages", "lib/%s/dist-packages"};
  char below[NAME_MAX + 64];
  char path[PATH_MAX];
  for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
    const char *mark = strchr(layouts[i], '%');
    snprintf(below, sizeof(below), "%.*s%s%s", (int)(mark - layouts[i]), layouts[i], name,
             mark + 2);
    if (framework_path(path, "%s/%s", prefix, below) && visit(w, path))
      return true;
  }
  return false;
}

// Visits the packages of Python `version`, such as "3.11"; "" is all versions there.
static bool visit_prefix(const package_walk *w, const char *prefix, const char *version)
{
  static const char *const dirs[] = {"lib", "lib64"};
  char path[PATH_MAX];
  bool done = false;
  if (version[0] != '\0' && framework_path(path, "python%s", version))
    done = visit_python(w, prefix, path);
  for (size_t i = 0; version[0] == '\0' && i < sizeof(dirs) / sizeof(dirs[0]); i++) {
    for (size_t nth = 0; !done && nth < MAX_PYTHONS; nth++) {
      char *name = framework_path(path, "%s/%s", prefix, dirs[i])
                       ? python_packages_nth_newest(w->system, path, "python3.", nth)
                       : NULL;
      done = name != NULL && visit_python(w, prefix, name);
      free(name);
    }
  }
  return done || (framework_path(path, "%s/lib/python3/dist-packages", prefix) && visit(w, path));
}

// The user's own packages come before those of the installation.
static bool visit_user(const package_walk *w, const char *version)
{
  const char *base = w->system->variable("PYTHONUSERBASE");
  const char *home = w->system->variable("HOME");
  const char *none = w->system->variable("PYTHONNOUSERSITE");
  char path[PATH_MAX];
  if (none != NULL && *none != '\0')
    return false;
  if (base != NULL && *base == '/')
    return framework_path(path, "%s", base) && visit_prefix(w, path, version);
  return home != NULL && *home == '/' && framework_path(path, "%s/.local", home) &&
         visit_prefix(w, path, version);
}

bool python_packages_of_environment(const package_walk *w, const char *dir)
{
  return visit_prefix(w, dir, "");
}

// ---- virtual environments ----

// The value of `key` in pyvenv.cfg's text, "" when it is absent.
static void read_setting(const char *text, const char *key, char value[PATH_MAX])
{
  value[0] = '\0';
  for (const char *line = text; *line != '\0';) {
    size_t size = strcspn(line, "\r\n");
    const char *equals = memchr(line, '=', size);
    size_t name = equals != NULL ? (size_t)(equals - line) : 0;
    while (name > 0 && line[name - 1] == ' ')
      name--;
    if (name == strlen(key) && strncasecmp(line, key, name) == 0) {
      const char *start = equals + 1 + strspn(equals + 1, " ");
      framework_path(value, "%.*s", (int)(line + size - start), start);
      return;
    }
    line += size + strspn(line + size, "\r\n");
  }
}

// "3.11" of "3.11.7" or "python3.11"; "" when there is none.
static void short_version(const char *text, char version[PATH_MAX])
{
  const char *start = strstr(text, "3.");
  size_t digits = start != NULL ? strspn(start + 2, "0123456789") : 0;
  version[0] = '\0';
  if (digits > 0)
    framework_path(version, "%.*s", (int)digits + 2, start);
}

// Finds the directory of the virtual environment that the interpreter at `path` belongs to.
static bool find_venv(const framework_system *s, const char *path, char dir[PATH_MAX],
                      char text[MAX_TEXT_BYTES])
{
  char file[PATH_MAX];
  if (!framework_path(dir, "%s", path) || !go_up(dir))
    return false;
  for (int up = 0; up < 2; up++) {
    if (framework_path(file, "%s/pyvenv.cfg", dir) && read_start(s, file, text) >= 0)
      return true;
    if (!go_up(dir))
      return false;
  }
  return false;
}

static bool visit_interpreter(const package_walk *w, const char *path, int depth,
                              const char **why_not);

static bool visit_venv(const package_walk *w, const char *dir, const char *text, int depth,
                       const char **why_not)
{
  char value[PATH_MAX];
  char version[PATH_MAX];
  read_setting(text, "version", value);
  if (value[0] == '\0')
    read_setting(text, "version_info", value);
  short_version(value, version);
  if (visit_prefix(w, dir, version))
    return true;
  read_setting(text, "include-system-site-packages", value);
  if (strcasecmp(value, "true") != 0)
    return false;
  char path[PATH_MAX];
  read_setting(text, "home", value);
  return value[0] == '/' && framework_path(path, "%s/python3", value) &&
         visit_interpreter(w, path, depth + 1, why_not);
}

// ---- pyenv ----

// Visits the versions that a text names, separated by lines or colons. A name is a directory of
// pyenv's versions, or the beginning of one: then the newest is taken.
static bool visit_pyenv_versions(const package_walk *w, const char *root, const char *text,
                                 int depth, const char **why_not)
{
  char dir[PATH_MAX];
  char path[PATH_MAX];
  bool done = false;
  if (!framework_path(dir, "%s/versions", root))
    return false;
  for (const char *at = text; !done && *at != '\0';) {
    size_t size = strcspn(at, ":\r\n \t");
    char name[MAX_VERSION_BYTES];
    if (size > 0 && size < sizeof(name) && memchr(at, '/', size) == NULL && *at != '#' &&
        *at != '.') {
      snprintf(name, sizeof(name), "%.*s", (int)size, at);
      bool exact = framework_path(path, "%s/%s", dir, name) && framework_is_dir(w->system, path);
      snprintf(name + size, sizeof(name) - size, "%s", exact ? "" : ".");
      char *entry = python_packages_nth_newest(w->system, dir, name, 0);
      if (exact || entry != NULL)
        done = framework_path(path, "%s/%s/bin/python3", dir, exact ? name : entry) &&
               visit_interpreter(w, path, depth + 1, why_not);
      free(entry);
    }
    at += size + strspn(at + size, ":\r\n \t");
  }
  return done;
}

// Reads the text that chooses a version: PYENV_VERSION, the nearest .python-version, or the global
// one.
static bool read_pyenv_choice(const framework_system *s, const char *root,
                              char text[MAX_TEXT_BYTES])
{
  const char *version = s->variable("PYENV_VERSION");
  char dir[PATH_MAX];
  char path[PATH_MAX];
  if (version != NULL && *version != '\0')
    return snprintf(text, MAX_TEXT_BYTES, "%s", version) < MAX_TEXT_BYTES;
  bool up = framework_path(dir, "%s", s->dir);
  while (up) {
    if (framework_path(path, "%s/.python-version", dir) && read_start(s, path, text) >= 0)
      return true;
    up = go_up(dir);
  }
  return framework_path(path, "%s/version", root) && read_start(s, path, text) >= 0;
}

static bool visit_shim(const package_walk *w, const char *path, int depth, const char **why_not)
{
  char root[PATH_MAX];
  char text[MAX_TEXT_BYTES];
  *why_not = "a shim of pyenv, and no version of pyenv is chosen";
  if (!framework_path(root, "%s", path) || !go_up(root) || !go_up(root) ||
      !read_pyenv_choice(w->system, root, text))
    return false;
  *why_not = "a shim of pyenv, and the version that is chosen is not there";
  return visit_pyenv_versions(w, root, text, depth, why_not);
}

// ---- interpreters ----

static bool is_shim(const char *path)
{
  char dir[PATH_MAX];
  return framework_path(dir, "%s", path) && go_up(dir) && strcmp(last_of(dir), "shims") == 0;
}

// Follows the link at `path`; false when it is not a link.
static bool follow(const framework_system *s, char path[PATH_MAX])
{
  char full[PATH_MAX];
  char target[PATH_MAX];
  ssize_t size =
      framework_path(full, "%s%s", s->root, path) ? readlink(full, target, sizeof(target) - 1) : -1;
  if (size < 0)
    return false;
  target[size] = '\0';
  if (target[0] == '/')
    return framework_path(path, "%s", target);
  return framework_path(full, "%s", path) && go_up(full) &&
         framework_path(path, "%s/%s", full, target);
}

static bool visit_installation(const package_walk *w, char path[PATH_MAX], const char **why_not)
{
  char text[MAX_TEXT_BYTES];
  char version[PATH_MAX];
  ssize_t size = read_start(w->system, path, text);
  *why_not = size < 0 ? "it cannot be read" : "a script, which is not followed";
  if (size < SELFMAG || memcmp(text, ELFMAG, SELFMAG) != 0)
    return false;
  *why_not = NULL;
  short_version(last_of(path), version);
  if (!go_up(path) || !go_up(path))
    return false;
  return visit_user(w, version) || visit_prefix(w, path, version);
}

static bool visit_interpreter(const package_walk *w, const char *path, int depth,
                              const char **why_not)
{
  char at[PATH_MAX];
  char dir[PATH_MAX];
  char text[MAX_TEXT_BYTES];
  *why_not = "links that lead in a circle";
  if (depth > 2 || !framework_path(at, "%s", path))
    return false;
  for (int links = 0; links < MAX_LINKS; links++) {
    *why_not = NULL;
    if (find_venv(w->system, at, dir, text))
      return visit_venv(w, dir, text, depth, why_not);
    if (is_shim(at))
      return visit_shim(w, at, depth, why_not);
    if (!follow(w->system, at))
      return visit_installation(w, at, why_not);
    *why_not = "links that lead in a circle";
  }
  return false;
}

bool python_packages_of_interpreter(const package_walk *w, const char *path, const char **why_not)
{
  return visit_interpreter(w, path, 0, why_not);
}

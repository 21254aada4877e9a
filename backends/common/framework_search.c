// SPDX-License-Identifier: Apache-2.0
// Searches the places in order, and reports what was found.
#include "framework_search.h"

#include "elf_needs.h"
#include "python_packages.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_LOOKED_BYTES 4096 // the rest is not reported

// A search under way.
typedef struct search_state {
  const framework_search *search;
  FILE *looked;
  char *text; // of `looked`
  size_t size;
  bool any;    // the current Python has the package
  bool checks; // check who may write there: not for paths that the operator names
} search_state;

static void report(search_state *h, const char *where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void report(search_state *h, const char *where, const char *format, ...)
{
  if (h->looked == NULL || ftell(h->looked) > MAX_LOOKED_BYTES)
    return;
  va_list arguments;
  va_start(arguments, format);
  fprintf(h->looked, "%s'%s': ", ftell(h->looked) > 0 ? "; " : "", where);
  vfprintf(h->looked, format, arguments);
  va_end(arguments);
}

// A library may be found in several ways; it is reported once.
static bool is_reported(search_state *h, const char *where)
{
  char quoted[PATH_MAX + 4];
  snprintf(quoted, sizeof(quoted), "'%s': ", where);
  return h->looked != NULL && fflush(h->looked) == 0 && strstr(h->text, quoted) != NULL;
}

// ---- one library ----

static const char *machine_name(unsigned machine, char name[32])
{
  static const struct {
    unsigned machine;
    const char *name;
  } rows[] = {{EM_386, "x86"},         {EM_X86_64, "x86_64"}, {EM_ARM, "arm"},
              {EM_AARCH64, "aarch64"}, {EM_PPC64, "ppc64"},   {EM_S390, "s390"},
              {EM_RISCV, "riscv"}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
    if (rows[i].machine == machine)
      return rows[i].name;
  snprintf(name, 32, "machine %u", machine);
  return name;
}

// Whether the file is a library for this machine. For other files the loader's error would not name
// the cause.
static bool is_loadable(search_state *h, const char *full, const char *path)
{
  Elf64_Ehdr header = {0};
  char name[32];
  char own[32];
  int file = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  ssize_t size = file < 0 ? -1 : read(file, &header, sizeof(header));
  int reason = errno;
  if (file >= 0)
    close(file);
  if (size < 0)
    report(h, path, "cannot be read: %s", strerror(reason));
  else if (size < (ssize_t)sizeof(header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    report(h, path, "is no library");
  else if (ELF_OWN_MACHINE != EM_NONE && header.e_machine != ELF_OWN_MACHINE)
    report(h, path, "is for %s, and this machine is %s", machine_name(header.e_machine, name),
           machine_name(ELF_OWN_MACHINE, own));
  else if (h->search->framework->needs_avx && !h->search->system->has_avx)
    report(h, path, "needs AVX, which this processor does not have");
  else
    return true;
  return false;
}

// Whether strangers cannot have written what is at `full`.
static bool is_safe(search_state *h, const char *full, const char *path)
{
  char *why = NULL;
  const bool safe = framework_is_safe(full, h->search->system->strict, &why);
  if (!safe)
    report(h, path, "is left alone, since %s", why != NULL ? why : "others may write there");
  free(why);
  return safe;
}

static bool try_library(search_state *h, const char *path)
{
  char full[PATH_MAX];
  char *why_not = NULL;
  if (is_reported(h, path) || !framework_path(full, "%s%s", h->search->system->root, path))
    return false;
  if ((h->checks && !is_safe(h, full, path)) || !is_loadable(h, full, path))
    return false;
  if (h->search->open(h->search->context, full, &why_not))
    return true;
  report(h, path, "%s", why_not != NULL ? why_not : "does not open");
  free(why_not);
  return false;
}

// ---- one directory ----

// Tries the newest library in `dir`; *has: there is one.
static bool try_dir(search_state *h, const char *dir, bool *has)
{
  const framework_search *s = h->search;
  char path[PATH_MAX];
  char *name = python_packages_nth_newest(s->system, dir, s->framework->library, 0);
  bool found = name != NULL && framework_path(path, "%s/%s", dir, name) && try_library(h, path);
  *has = name != NULL;
  free(name);
  return found;
}

// Tries one directory of a Python's packages.
static bool try_packages(void *context, const char *dir)
{
  search_state *h = context;
  char path[PATH_MAX];
  bool has;
  if (!framework_path(path, "%s/%s", dir, h->search->framework->dir) ||
      !framework_is_dir(h->search->system, path))
    return false;
  h->any = true;
  if (try_dir(h, path, &has))
    return true;
  if (!has && !is_reported(h, path))
    report(h, path, "has no %s", h->search->framework->library);
  return false;
}

// ---- Pythons ----

static package_walk walk_of(search_state *h)
{
  return (package_walk){h->search->system, try_packages, h};
}

// Tries an environment: its packages, and a library that conda has installed without Python.
static bool try_environment(search_state *h, const char *dir)
{
  package_walk walk = walk_of(h);
  char path[PATH_MAX];
  bool has = false;
  if (dir == NULL || *dir == '\0')
    return false;
  h->any = false;
  if (python_packages_of_environment(&walk, dir))
    return true;
  if (framework_path(path, "%s/lib", dir) && try_dir(h, path, &has))
    return true;
  if (!h->any && !has && !is_reported(h, dir))
    report(h, dir, "%s",
           framework_is_dir(h->search->system, dir) ? "no such package in this environment"
                                                    : "no such directory");
  return false;
}

static bool try_interpreter(search_state *h, const char *path)
{
  package_walk walk = walk_of(h);
  const char *why_not = NULL;
  h->any = false;
  if (is_reported(h, path))
    return false;
  if (python_packages_of_interpreter(&walk, path, &why_not))
    return true;
  if (!h->any)
    report(h, path, "%s", why_not != NULL ? why_not : "this Python has no such package");
  return false;
}

// Whether `path` is a program, or a link, which is followed later.
static bool is_program(const search_state *h, const char *path)
{
  char full[PATH_MAX];
  struct stat status;
  if (!framework_path(full, "%s%s", h->search->system->root, path) || lstat(full, &status) != 0)
    return false;
  return S_ISLNK(status.st_mode) || (S_ISREG(status.st_mode) && access(full, X_OK) == 0);
}

// Tries every `name` in PATH, in order.
static bool try_path(search_state *h, const char *name)
{
  const char *dirs = h->search->system->variable("PATH");
  char path[PATH_MAX];
  bool any = false;
  for (const char *at = dirs != NULL ? dirs : ""; *at != '\0';) {
    size_t size = strcspn(at, ":");
    if (*at == '/' && framework_path(path, "%.*s/%s", (int)size, at, name) && is_program(h, path)) {
      any = true;
      if (try_interpreter(h, path))
        return true;
    }
    at += size + (at[size] == ':');
  }
  if (!any)
    report(h, name, "not in PATH");
  return false;
}

static bool try_executable(search_state *h, const char *named)
{
  if (named == NULL || *named == '\0')
    return false;
  return strchr(named, '/') != NULL ? try_interpreter(h, named) : try_path(h, named);
}

// ---- the order ----

static bool try_loader(search_state *h, const char *name)
{
  char *why_not = NULL;
  if (name == NULL)
    return false;
  if (h->search->open(h->search->context, name, &why_not))
    return true;
  report(h, name, "%s", why_not != NULL ? why_not : "not in the loader's path");
  free(why_not);
  return false;
}

static bool try_near(search_state *h)
{
  const framework *f = h->search->framework;
  bool has;
  if (try_dir(h, h->search->own_dir, &has))
    return true;
  for (size_t i = 0; i < FRAMEWORK_LOADER_NAMES; i++)
    if (try_loader(h, f->loader_names[i]))
      return true;
  return false;
}

// Environments that variables name. Others may have put libraries there, so they are checked.
static bool try_variables(search_state *h, const char *const *names)
{
  bool found = false;
  h->checks = true;
  for (; *names != NULL && !found; names++)
    found = try_environment(h, h->search->system->variable(*names));
  h->checks = false;
  return found;
}

// The order of docs/backends.md.
static bool go(search_state *h)
{
  static const char *const of_nereid[] = {"NEREID_PYTHON_ENV", NULL};
  static const char *const of_shells[] = {"VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME", NULL};
  const framework_search *s = h->search;
  if (s->library != NULL) // only the named library is tried
    return strchr(s->library, '/') != NULL ? try_library(h, s->library) : try_loader(h, s->library);
  if (try_environment(h, s->python_environment) || try_variables(h, of_nereid) || try_near(h) ||
      try_variables(h, of_shells) || try_executable(h, s->python_executable))
    return true;
  h->checks = true;
  return try_path(h, "python3");
}

bool framework_find(const framework_search *search, char **looked)
{
  search_state h = {.search = search};
  h.looked = open_memstream(&h.text, &h.size);
  bool found = go(&h);
  if (h.looked != NULL)
    fclose(h.looked);
  *looked = h.text;
  return found;
}

char *framework_not_found(const framework *f, const char *looked)
{
  char *text = NULL;
  int length = asprintf(
      &text,
      "%s was not found. Install it with 'pip install %s' for the python3 in the server's PATH, or "
      "in a virtual environment and start the server with "
      "--backend-config=%s,python-environment=DIR, or name the library with "
      "--backend-config=%s,library=PATH (looked in %s)",
      f->name, f->package, f->backend, f->backend,
      looked != NULL && *looked != '\0' ? looked : "no place: there was none to look in");
  return length < 0 ? NULL : text;
}

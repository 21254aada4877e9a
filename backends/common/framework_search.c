// The order of the places, and what is said of them; see framework_search.h.
#include "framework_search.h"

#include "python_packages.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_LOOKED_BYTES 4096 // further ones are not reported

static const char *process_variable(const char *name)
{
  return getenv(name);
}

void framework_system_init(framework_system *system)
{
  static char dir[PATH_MAX]; // backends start one after the other
  *system = (framework_system){.root = "", .dir = "/", .variable = process_variable};
  if (getcwd(dir, sizeof dir) != NULL)
    system->dir = dir;
#ifdef __x86_64__
  system->has_avx = __builtin_cpu_supports("avx") != 0;
#else
  system->has_avx = true; // nobody's framework asks for it there
#endif
}

// A search under way.
typedef struct search_state {
  const framework_search *search;
  FILE *looked;
  char *text; // of `looked`
  size_t size;
  bool any;    // the Python that is looked at has the package
  bool checks; // who may write there: not of what the operator has named
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

// A library may be found in several ways.
static bool is_reported(search_state *h, const char *where)
{
  char quoted[PATH_MAX + 4];
  snprintf(quoted, sizeof quoted, "'%s': ", where);
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
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    if (rows[i].machine == machine)
      return rows[i].name;
  snprintf(name, 32, "machine %u", machine);
  return name;
}

// That of this program, which is of the machine.
static unsigned own_machine(void)
{
#if defined __x86_64__
  return EM_X86_64;
#elif defined __aarch64__
  return EM_AARCH64;
#else
  return EM_NONE;
#endif
}

// Whether the file is a library for this machine: what the loader says of others names no cause.
static bool is_loadable(search_state *h, const char *full, const char *path)
{
  Elf64_Ehdr header = {0};
  char name[32];
  char own[32];
  int file = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  ssize_t size = file < 0 ? -1 : read(file, &header, sizeof header);
  int reason = errno;
  if (file >= 0)
    close(file);
  if (size < 0)
    report(h, path, "cannot be read: %s", strerror(reason));
  else if (size < (ssize_t)sizeof header || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    report(h, path, "is no library");
  else if (own_machine() != EM_NONE && header.e_machine != own_machine())
    report(h, path, "is for %s, and this machine is %s", machine_name(header.e_machine, name),
           machine_name(own_machine(), own));
  else if (h->search->framework->needs_avx && !h->search->system->has_avx)
    report(h, path, "needs AVX, which this processor does not have");
  else
    return true;
  return false;
}

// What is wrong with who may write to `status`'s file; NULL when nothing is. In a directory with
// the sticky bit nobody replaces what others own.
static const char *why_unsafe(const struct stat *status, bool strict)
{
  bool sticky = S_ISDIR(status->st_mode) && (status->st_mode & S_ISVTX) != 0;
  if ((status->st_mode & S_IWOTH) != 0 && !sticky)
    return "may be written by anybody";
  if (!strict)
    return NULL;
  if (status->st_uid != 0 && status->st_uid != geteuid())
    return "belongs to another user";
  if ((status->st_mode & S_IWGRP) != 0 && !sticky && status->st_gid != 0 &&
      status->st_gid != getegid())
    return "may be written by another group";
  return NULL;
}

// Whether strangers cannot have put there what is at `full`: it, and all directories above it.
static bool is_safe(search_state *h, const char *full, const char *path)
{
  char *at = realpath(full, NULL);
  const char *why = at == NULL ? "cannot be reached" : NULL;
  struct stat status;
  while (why == NULL && at[0] != '\0') {
    why = lstat(at, &status) == 0 ? why_unsafe(&status, h->search->system->strict)
                                  : "cannot be reached";
    if (why == NULL)
      *strrchr(at, '/') = '\0';
  }
  if (why != NULL)
    report(h, path, "is left alone, since '%s' %s", at != NULL ? at : full, why);
  free(at);
  return why == NULL;
}

static bool try_library(search_state *h, const char *path)
{
  char full[PATH_MAX];
  char *why_not = NULL;
  if (is_reported(h, path) ||
      snprintf(full, sizeof full, "%s%s", h->search->system->root, path) >= (int)sizeof full)
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

// The newest library in `directory`; *has: there is one.
static bool try_dir(search_state *h, const char *dir, bool *has)
{
  const framework_search *s = h->search;
  char path[PATH_MAX];
  char *name = python_packages_nth_newest(s->system, dir, s->framework->library, 0);
  bool found = name != NULL && snprintf(path, sizeof path, "%s/%s", dir, name) < (int)sizeof path &&
               try_library(h, path);
  *has = name != NULL;
  free(name);
  return found;
}

static bool is_dir(const search_state *h, const char *path)
{
  char full[PATH_MAX];
  struct stat status;
  return snprintf(full, sizeof full, "%s%s", h->search->system->root, path) < (int)sizeof full &&
         stat(full, &status) == 0 && S_ISDIR(status.st_mode);
}

// One directory of a Python's packages.
static bool try_packages(void *context, const char *dir)
{
  search_state *h = context;
  char path[PATH_MAX];
  bool has;
  if (snprintf(path, sizeof path, "%s/%s", dir, h->search->framework->dir) >= (int)sizeof path ||
      !is_dir(h, path))
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

// An environment: its packages, and a library that conda has installed without Python.
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
  if (snprintf(path, sizeof path, "%s/lib", dir) < (int)sizeof path && try_dir(h, path, &has))
    return true;
  if (!h->any && !has && !is_reported(h, dir))
    report(h, dir, "%s",
           is_dir(h, dir) ? "no such package in this environment" : "no such directory");
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

// Whether there is a program at `path`, or a link, which is followed later.
static bool is_program(const search_state *h, const char *path)
{
  char full[PATH_MAX];
  struct stat status;
  if (snprintf(full, sizeof full, "%s%s", h->search->system->root, path) >= (int)sizeof full ||
      lstat(full, &status) != 0)
    return false;
  return S_ISLNK(status.st_mode) || (S_ISREG(status.st_mode) && access(full, X_OK) == 0);
}

// Every `name` in PATH, in its order.
static bool try_path(search_state *h, const char *name)
{
  const char *dirs = h->search->system->variable("PATH");
  char path[PATH_MAX];
  bool any = false;
  for (const char *at = dirs != NULL ? dirs : ""; *at != '\0';) {
    size_t size = strcspn(at, ":");
    if (*at == '/' &&
        snprintf(path, sizeof path, "%.*s/%s", (int)size, at, name) < (int)sizeof path &&
        is_program(h, path)) {
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

static bool try_variables(search_state *h)
{
  static const char *const names[] = {"NEREID_PYTHON_ENV", "VIRTUAL_ENV", "CONDA_PREFIX",
                                      "PYTHONHOME"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (try_environment(h, h->search->system->variable(names[i])))
      return true;
  return false;
}

// What was asked for, then what lies nearest: the order of docs/backends.md.
static bool go(search_state *h)
{
  const framework_search *s = h->search;
  if (s->library != NULL) // who names a library gets that one or none
    return strchr(s->library, '/') != NULL ? try_library(h, s->library) : try_loader(h, s->library);
  if (try_environment(h, s->python_environment) || try_near(h))
    return true;
  h->checks = true;
  if (try_variables(h))
    return true;
  h->checks = false;
  if (try_executable(h, s->python_executable))
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

// This process's machine, and paths on it; see framework_system.h.
#include "framework_system.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *process_variable(const char *name)
{
  return getenv(name);
}

void framework_system_init(framework_system *system)
{
  static char dir[PATH_MAX]; // backends start one after the other
  *system = (framework_system){.root = "", .dir = "/", .variable = process_variable};
  if (getcwd(dir, sizeof(dir)) != NULL)
    system->dir = dir;
#ifdef __x86_64__
  system->has_avx = __builtin_cpu_supports("avx") != 0;
#else
  system->has_avx = true; // nobody's framework asks for it there
#endif
}

bool framework_path(char path[PATH_MAX], const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(path, PATH_MAX, format, arguments);
  va_end(arguments);
  return length >= 0 && length < PATH_MAX;
}

bool framework_is_dir(const framework_system *s, const char *path)
{
  char full[PATH_MAX];
  struct stat status;
  return framework_path(full, "%s%s", s->root, path) && stat(full, &status) == 0 &&
         S_ISDIR(status.st_mode);
}

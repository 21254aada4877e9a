// SPDX-License-Identifier: Apache-2.0
// This process's machine, and paths on it.
#include "framework_system.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
  system->has_avx = true; // no framework needs it there
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

// Says why other users could write to `status`'s file; NULL when they could not. In a directory
// with the sticky bit users cannot replace files of others.
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

bool framework_is_safe(const char *full, bool strict, char **why)
{
  char *at = realpath(full, NULL);
  const char *reason = at == NULL ? "cannot be reached" : NULL;
  struct stat status;
  while (reason == NULL && at[0] != '\0') {
    reason = lstat(at, &status) == 0 ? why_unsafe(&status, strict) : "cannot be reached";
    if (reason == NULL)
      *strrchr(at, '/') = '\0';
  }
  *why = NULL;
  if (reason != NULL && asprintf(why, "'%s' %s", at != NULL ? at : full, reason) < 0)
    *why = NULL;
  free(at);
  return reason == NULL;
}

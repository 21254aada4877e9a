// SPDX-License-Identifier: Apache-2.0
// Finds the interpreter that the configuration names. Load threads.
#include "pyenv/interpreter.h"

#include "backend_config.h"
#include "backend_error.h"
#include "base/cleanup.h"
#include "base/files.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char ENVIRONMENT[] = "NEREID_PYTHON_ENV";
static const char MODEL_DIR[] = "$$TRITON_MODEL_DIRECTORY";

static bool is_program(const char *path)
{
  struct stat status;
  return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

// Looks for `name` in the absolute directories of PATH. NULL: not found.
static char *search(const char *name)
{
  const char *dirs = getenv("PATH");
  for (const char *at = dirs == NULL ? "/usr/local/bin:/usr/bin:/bin" : dirs; *at != '\0';) {
    size_t length = strcspn(at, ":");
    char *path = NULL;
    if (*at == '/' && asprintf(&path, "%.*s/%s", (int)length, at, name) < 0)
      return NULL;
    if (path != NULL && is_program(path))
      return path;
    free(path);
    at += length + (at[length] == ':');
  }
  return NULL;
}

// ---- the interpreter of the backend's settings

// The interpreter of an environment. NULL if it has none: it may hold libraries alone.
static TRITONSERVER_Error *find_program(const char *dir, char **interpreter)
{
  static const char *const programs[] = {"bin/python3", "bin/python"};
  *interpreter = NULL;
  for (size_t i = 0; dir != NULL && *dir == '/' && i < 2; i++) {
    char *path;
    if (asprintf(&path, "%s/%s", dir, programs[i]) < 0)
      return backend_error_no_memory("a Python environment");
    if (is_program(path)) {
      *interpreter = path;
      return NULL;
    }
    free(path);
  }
  return NULL;
}

static TRITONSERVER_Error *find_installed(const char *setting, char **interpreter)
{
  const char *wanted = setting == NULL ? "python3" : setting;
  BACKEND_RETURN_IF_ERROR(find_program(setting == NULL ? getenv(ENVIRONMENT) : NULL, interpreter));
  if (*interpreter != NULL)
    return NULL;
  *interpreter = strchr(wanted, '/') == NULL ? search(wanted)
                 : is_program(wanted)        ? files_absolute(wanted)
                                             : NULL;
  if (*interpreter != NULL)
    return NULL;
  if (setting != NULL)
    return backend_error_unavailable("no Python interpreter '%s' "
                                     "(--backend-config=python,python-executable)",
                                     setting);
  return backend_error_unavailable("no python3 in PATH; name an interpreter with "
                                   "--backend-config=python,python-executable=PATH");
}

// ---- environments

static bool has(const char *dir, const char *name)
{
  AUTO_FREE char *path = NULL;
  return asprintf(&path, "%s/%s", dir, name) >= 0 && access(path, F_OK) == 0;
}

// An interpreter given by its path may belong to an environment.
static TRITONSERVER_Error *find_dir_of(python_interpreter *self)
{
  AUTO_FREE char *dir = strdup(self->path);
  if (dir == NULL)
    return backend_error_no_memory("a Python environment");
  for (int i = 0; i < 2 && strchr(dir, '/') != NULL; i++)
    *strrchr(dir, '/') = '\0';
  if (has(dir, "pyvenv.cfg"))
    self->kind = ENVIRONMENT_VIRTUAL;
  else if (has(dir, "conda-meta"))
    self->kind = ENVIRONMENT_CONDA;
  else
    return NULL;
  self->dir = dir;
  dir = NULL;
  return NULL;
}

static TRITONSERVER_Error *find_in_dir(python_interpreter *self, const char *path)
{
  self->kind = has(self->dir, "pyvenv.cfg") ? ENVIRONMENT_VIRTUAL : ENVIRONMENT_CONDA;
  BACKEND_RETURN_IF_ERROR(find_program(self->dir, &self->path));
  if (self->path != NULL)
    return NULL;
  return backend_error_invalid("execution environment '%s' has neither bin/python3 nor bin/python",
                               path);
}

// The path of EXECUTION_ENV_PATH, for free().
static char *expand(const char *path, const char *model_dir)
{
  const char *at = strstr(path, MODEL_DIR);
  char *result;
  if (at == NULL)
    return files_absolute(path);
  int length =
      asprintf(&result, "%.*s%s%s", (int)(at - path), path, model_dir, at + strlen(MODEL_DIR));
  return length < 0 ? NULL : result;
}

static TRITONSERVER_Error *use_named(python_interpreter *self, const char *path)
{
  struct stat status;
  AUTO_FREE char *resolved = realpath(path, NULL);
  if (resolved == NULL || stat(resolved, &status) != 0)
    return backend_error_internal("Failed to get the canonical path for %s.", path);
  if (!S_ISDIR(status.st_mode))
    BACKEND_RETURN_IF_ERROR(environment_cache_take(self->cache, resolved, &self->archive));
  self->dir = strdup(self->archive == NULL ? resolved : cached_environment_dir(self->archive));
  return self->dir == NULL ? backend_error_no_memory("a Python environment")
                           : find_in_dir(self, path);
}

TRITONSERVER_Error *python_interpreter_init(python_interpreter *self, environment_cache *cache,
                                            const char *setting, const json_t *model_config,
                                            const char *model_dir)
{
  *self = (python_interpreter){.cache = cache};
  const char *named = backend_parameter(model_config, "EXECUTION_ENV_PATH");
  TRITONSERVER_Error *error;
  if (named == NULL || *named == '\0') {
    error = find_installed(setting, &self->path);
    if (error == NULL)
      error = find_dir_of(self);
  } else {
    AUTO_FREE char *path = expand(named, model_dir);
    error = path == NULL ? backend_error_no_memory("a Python environment") : use_named(self, path);
  }
  if (error != NULL)
    python_interpreter_fini(self);
  return error;
}

void python_interpreter_fini(python_interpreter *self)
{
  if (self->archive != NULL)
    environment_cache_release(self->cache, self->archive);
  free(self->dir);
  free(self->path);
  *self = (python_interpreter){0};
}

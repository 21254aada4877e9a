#include "environment.h"

#include "backend_error.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_program(const char *path)
{
  struct stat status;
  return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

// A relative path is the server's; the worker runs elsewhere.
static char *absolute(const char *path)
{
  char *folder = *path == '/' ? NULL : getcwd(NULL, 0);
  char *result = NULL;
  if (*path == '/')
    return strdup(path);
  if (folder != NULL && asprintf(&result, "%s/%s", folder, path) < 0)
    result = NULL;
  free(folder);
  return result;
}

// Looks for `name` in the folders of PATH that are absolute. Gives NULL when it is in none.
static char *search(const char *name)
{
  const char *folders = getenv("PATH");
  for (const char *at = folders == NULL ? "/usr/local/bin:/usr/bin:/bin" : folders; *at != '\0';) {
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

TRITONSERVER_Error *python_environment_find(const char *setting, const json_t *model_config,
                                            const char *model_folder, char **interpreter)
{
  (void)model_config;
  (void)model_folder;
  const char *wanted = setting == NULL ? "python3" : setting;
  *interpreter = NULL;
  if (strchr(wanted, '/') == NULL)
    *interpreter = search(wanted);
  else if (is_program(wanted))
    *interpreter = absolute(wanted);
  if (*interpreter != NULL)
    return NULL;
  if (setting != NULL)
    return backend_error(TRITONSERVER_ERROR_UNAVAILABLE,
                         "no Python interpreter '%s' "
                         "(--backend-config=python,python-executable)",
                         setting);
  return backend_error(TRITONSERVER_ERROR_UNAVAILABLE,
                       "no python3 in PATH; name an interpreter with "
                       "--backend-config=python,python-executable=PATH");
}

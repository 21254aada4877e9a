// SPDX-License-Identifier: Apache-2.0
// Opens libraries, which stay in the process. Load threads.
#include "framework.h"

#include "backend_error.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

TRITONSERVER_Error *framework_open_file(const char *path, void **handle)
{
  *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
  return *handle != NULL ? NULL : backend_error(TRITONSERVER_ERROR_NOT_FOUND, "%s", dlerror());
}

TRITONSERVER_Error *framework_find_functions(void *handle, const char *path, const char *wanted,
                                             const framework_function *functions, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    void *symbol = dlsym(handle, functions[i].name);
    if (symbol == NULL && !functions[i].optional)
      return backend_error(TRITONSERVER_ERROR_UNSUPPORTED, "'%s' is not %s: it has no %s", path,
                           wanted, functions[i].name);
    memcpy(functions[i].member, &symbol, sizeof(symbol));
  }
  return NULL;
}

// ---- what stays ----

// Open libraries in the same directory.
typedef struct neighbours {
  const char *dir;
  size_t dir_size; // including the slash
  char *paths[64];
  size_t count;
} neighbours;

static int add_neighbour(struct dl_phdr_info *info, size_t size, void *context)
{
  neighbours *found = context;
  (void)size;
  if (info->dlpi_name != NULL && strncmp(info->dlpi_name, found->dir, found->dir_size) == 0 &&
      found->count < sizeof(found->paths) / sizeof(found->paths[0]))
    found->paths[found->count++] = strdup(info->dlpi_name);
  return 0;
}

static void keep(const char *path)
{
  void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD | RTLD_NODELETE);
  if (library != NULL)
    dlclose(library);
}

void framework_keep_open(const framework_library *library)
{
  const char *slash = strrchr(library->path, '/');
  neighbours found = {.dir = library->path};
  if (slash == NULL) // only the loader knows the directory
    return;
  found.dir_size = (size_t)(slash - library->path) + 1;
  dl_iterate_phdr(add_neighbour, &found);
  for (size_t i = 0; i < found.count; i++) {
    if (found.paths[i] != NULL)
      keep(found.paths[i]);
    free(found.paths[i]);
  }
}

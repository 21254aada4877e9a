// SPDX-License-Identifier: Apache-2.0
// Opens libarchive, once; see archive_library.h.
#include "archive_library.h"

#include "backend_error.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#define LIBRARY "libarchive.so.13"

static archive_library functions;
static char failure[256]; // why the library cannot be used; "": it can

static void open_library(void)
{
  void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
  const char *why = library == NULL ? dlerror() : NULL;
#define LOAD(name)                                                                                 \
  if (why == NULL) {                                                                               \
    *(void **)&functions.name = dlsym(library, "archive_" #name);                                  \
    why = functions.name == NULL ? LIBRARY " has no archive_" #name : NULL;                        \
  }
  ARCHIVE_FUNCTIONS(LOAD)
#undef LOAD
  if (why != NULL)
    snprintf(failure, sizeof(failure), "%s", why);
}

TRITONSERVER_Error *archive_library_open(const char *path, const archive_library **library)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, open_library);
  *library = &functions;
  if (failure[0] == '\0')
    return NULL;
  return backend_error_unavailable(
      "'%s' is an archive, which libarchive reads, and that does not open: %s "
      "(install the system's package: libarchive13, libarchive13t64, libarchive)",
      path, failure);
}

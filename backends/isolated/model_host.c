// SPDX-License-Identifier: Apache-2.0
// The program of a model's own process: nereid-model-host LIBTRITONSERVER. The library is loaded
// with global symbols, where backends find its functions.
#include "process/process.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int count, char **arguments)
{
  int (*run)(int);
  void *library = count == 2 ? dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL) : NULL;
  void *found = library == NULL ? NULL : dlsym(library, "NEREID_ModelHostRun");
  if (found == NULL) {
    const char *why = count == 2 ? dlerror() : "the server starts it, nobody else";
    fprintf(stderr, "nereid-model-host: %s\n", why);
    return 2;
  }
  memcpy(&run, &found, sizeof(run));
  return run(PROCESS_SOCKET);
}

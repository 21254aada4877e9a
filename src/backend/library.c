// SPDX-License-Identifier: Apache-2.0
// Opens shared libraries. The operator chooses them; only the file's completeness is checked here.
#include "backend/library.h"

#include "base/cleanup.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// True when the file ends before one of its segments: the loader would map it nevertheless and die
// of SIGBUS.
static bool is_cut(const char *library)
{
  AUTO_CLOSE int file = open(library, O_RDONLY | O_CLOEXEC);
  ElfW(Ehdr) header;
  struct stat status;
  if (file < 0 || fstat(file, &status) != 0 ||
      pread(file, &header, sizeof(header), 0) != sizeof(header) ||
      memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return false; // dlopen has a better text
  for (size_t i = 0; i < header.e_phnum; i++) {
    ElfW(Phdr) segment;
    off_t offset = (off_t)(header.e_phoff + i * sizeof(segment));
    if (pread(file, &segment, sizeof(segment), offset) != sizeof(segment) ||
        (segment.p_type == PT_LOAD && (segment.p_offset > (uint64_t)status.st_size ||
                                       segment.p_filesz > status.st_size - segment.p_offset)))
      return true;
  }
  return false;
}

error *library_open(const char *path, void **handle)
{
  if (is_cut(path))
    return error_new(ERROR_NOT_FOUND, "unable to load shared library: %s: file too short", path);
  *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (*handle == NULL)
    return error_new(ERROR_NOT_FOUND, "unable to load shared library: %s", dlerror());
  return NULL;
}

void library_close(void *handle)
{
  if (handle != NULL)
    dlclose(handle);
}

// POSIX guarantees that a function's address fits dlsym's result; C forbids the direct cast.
void library_find(void *handle, const char *symbol, void *function)
{
  void *address = dlsym(handle, symbol);
  memcpy(function, &address, sizeof(address));
}

// SPDX-License-Identifier: Apache-2.0
// Opening of shared libraries. Whatever runs in one is the operator's choice; that the file is
// whole is looked at here.
#include "backend/library.h"

#include "base/cleanup.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// True when the file ends before a segment does: the loader maps it all the same and dies of
// SIGBUS.
static bool is_cut(const char *library)
{
  AUTO_CLOSE int file = open(library, O_RDONLY | O_CLOEXEC);
  ElfW(Ehdr) header;
  struct stat status;
  if (file < 0 || fstat(file, &status) != 0 ||
      pread(file, &header, sizeof(header), 0) != sizeof(header) ||
      memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return false; // dlopen has the better words
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

// POSIX guarantees that a function's address fits in what dlsym returns; C does not let it be cast
// directly.
void library_find(void *handle, const char *symbol, void *function)
{
  void *address = dlsym(handle, symbol);
  memcpy(function, &address, sizeof(address));
}

// SPDX-License-Identifier: Apache-2.0
// A region in a POSIX shared memory object: checks key and bounds, maps it. Called by jobs.
#include "frontend/common/tensor/shared_region.h"

#include "base/checked.h"
#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY_MAX_BYTES   255
#define RESERVED_PREFIX "triton_python_backend_shm_region_"

// Characters of objects' names. Others are refused, so that neither the C library nor the kernel
// can take a name for a path.
static bool is_key_character(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         (c != '\0' && strchr("._-+=:@,~#%", c) != NULL);
}

static error *check_key(const shared_region *r)
{
  const char *key = r->key;
  const char *component = key + (key[0] == '/');
  size_t size = strlen(component);
  bool valid = size > 0 && size <= KEY_MAX_BYTES && strcmp(component, ".") != 0 &&
               strcmp(component, "..") != 0;
  for (size_t i = 0; valid && i < size; i++)
    valid = is_key_character(component[i]);
  if (strncmp(key + strspn(key, "/"), RESERVED_PREFIX, strlen(RESERVED_PREFIX)) == 0)
    return error_new(ERROR_INVALID_ARG,
                     "cannot register shared memory region '%s' with key '%.256s' as the key "
                     "contains the reserved prefix '%s'",
                     r->name, key, RESERVED_PREFIX);
  if (!valid)
    return error_new(ERROR_INVALID_ARG,
                     "Unable to open shared memory region: '%.256s': cannot register shared memory "
                     "region '%s' - invalid shm key '%.256s'",
                     key, r->name, key);
  return NULL;
}

static error *check_size(const shared_region *r, int descriptor)
{
  struct stat file;
  size_t end;
  if (fstat(descriptor, &file) != 0 || !S_ISREG(file.st_mode) || file.st_size < 0)
    return error_new(ERROR_INTERNAL, "Invalid shared memory region: '%s'", r->key);
  if (r->byte_size == 0 || !checked_add_size(r->offset, r->byte_size, &end) ||
      end > (size_t)file.st_size)
    return error_new(
        ERROR_INVALID_ARG,
        "failed to register shared memory region '%s': invalid args: offset %" PRIu64 " and "
        "byte_size %zu, expected at least a byte, all of them within the %lld bytes of "
        "'%s'",
        r->name, r->offset, r->byte_size, (long long)file.st_size, r->key);
  return shared_region_check_room(r, r->room);
}

// Maps the region, which may begin anywhere in a page. The descriptor is not kept.
error *system_region_open(shared_region *r)
{
  RETURN_IF_ERROR(check_key(r));
  // O_NONBLOCK, because a FIFO of that name must not block.
  AUTO_CLOSE int descriptor = shm_open(r->key, O_RDWR | O_NONBLOCK, 0);
  if (descriptor < 0)
    return error_new(ERROR_INTERNAL, "Unable to open shared memory region: '%s': %s%s", r->key,
                     strerror(errno),
                     errno == ENOENT ? " in the server's /dev/shm, which other containers see only "
                                       "where they share it (docker run --ipc)"
                                     : "");
  RETURN_IF_ERROR(check_size(r, descriptor));
  size_t into_page = r->offset % (uint64_t)sysconf(_SC_PAGESIZE);
  r->pages_size = r->byte_size + into_page;
  r->pages = mmap(NULL, r->pages_size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor,
                  (off_t)(r->offset - into_page));
  if (r->pages == MAP_FAILED)
    return error_new(ERROR_UNAVAILABLE,
                     "failed to register shared memory region '%s': unable to process address "
                     "space: %s",
                     r->name, strerror(errno));
  r->base = (char *)r->pages + into_page;
  error *e = memory_guard_watch(r->pages, r->pages_size, &r->guard);
  if (e != NULL)
    munmap(r->pages, r->pages_size);
  return e;
}

void system_region_close(shared_region *r)
{
  if (r->guard == NULL)
    return;
  memory_guard_forget(r->guard);
  munmap(r->pages, r->pages_size);
  r->guard = NULL;
}

// Keys, the object's size, and the mapping. The descriptor is closed at once: nothing of it is
// kept.
#include "frontend/common/tensor/shared_mapping.h"

#include "base/checked.h"
#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY_MAX_BYTES   255
#define RESERVED_PREFIX "triton_python_backend_shm_region_"

// What names of objects are made of. Anything else is refused, and so is whatever the C library or
// the kernel might read as a path.
static bool is_key_character(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         (c != '\0' && strchr("._-+=:@,~#%", c) != NULL);
}

static error *check_key(const char *name, const char *key)
{
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
                     name, key, RESERVED_PREFIX);
  if (!valid)
    return error_new(ERROR_INVALID_ARG,
                     "Unable to open shared memory region: '%.256s': cannot register shared memory "
                     "region '%s' - invalid shm key '%.256s'",
                     key, name, key);
  return NULL;
}

static error *invalid_arguments(const char *name)
{
  return error_new(ERROR_INVALID_ARG, "failed to register shared memory region '%s': invalid args",
                   name);
}

static error *check_size(const char *name, const char *key, int descriptor, uint64_t offset,
                         uint64_t byte_size)
{
  struct stat file;
  size_t end;
  if (fstat(descriptor, &file) != 0 || !S_ISREG(file.st_mode) || file.st_size < 0)
    return error_new(ERROR_INTERNAL, "Invalid shared memory region: '%s'", key);
  if (byte_size == 0 || !checked_add_size(offset, byte_size, &end) || end > (size_t)file.st_size)
    return invalid_arguments(name);
  return NULL;
}

// The region may begin anywhere in a page.
static error *map(const char *name, int descriptor, uint64_t offset, uint64_t byte_size,
                  shared_mapping *mapping)
{
  size_t into_page = offset % (uint64_t)sysconf(_SC_PAGESIZE);
  mapping->pages_size = byte_size + into_page;
  mapping->pages = mmap(NULL, mapping->pages_size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor,
                        (off_t)(offset - into_page));
  if (mapping->pages == MAP_FAILED)
    return error_new(ERROR_UNAVAILABLE,
                     "failed to register shared memory region '%s': unable to process address "
                     "space: %s",
                     name, strerror(errno));
  mapping->base = (char *)mapping->pages + into_page;
  error *e = memory_guard_watch(mapping->pages, mapping->pages_size, &mapping->guard);
  if (e != NULL)
    munmap(mapping->pages, mapping->pages_size);
  return e;
}

error *shared_mapping_open(const char *name, const char *key, uint64_t offset, uint64_t byte_size,
                           uint64_t room, shared_mapping *mapping)
{
  RETURN_IF_ERROR(check_key(name, key));
  // A FIFO of that name must not block.
  AUTO_CLOSE int descriptor = shm_open(key, O_RDWR | O_NONBLOCK, 0);
  if (descriptor < 0)
    return error_new(ERROR_INTERNAL, "Unable to open shared memory region: '%s': %s", key,
                     strerror(errno));
  RETURN_IF_ERROR(check_size(name, key, descriptor, offset, byte_size));
  if (byte_size > room)
    return error_new(ERROR_UNAVAILABLE,
                     "failed to register shared memory region '%s': too many bytes are registered",
                     name);
  return map(name, descriptor, offset, byte_size, mapping);
}

void shared_mapping_close(shared_mapping *mapping)
{
  memory_guard_forget(mapping->guard);
  munmap(mapping->pages, mapping->pages_size);
}

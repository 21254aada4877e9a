// The registry. Counts of users are guarded by its lock, so that who finds a region can take it.
#include "frontend/common/tensor/shared_memory.h"

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/string_map.h"
#include "frontend/common/tensor/memory_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY_MAX_BYTES   255
#define RESERVED_PREFIX "triton_python_backend_shm_region_"

struct shared_region {
  shared_memory *memory;
  char *name;
  char *key;
  uint64_t offset;
  uint64_t byte_size;
  void *base;           // its first byte
  void *pages;          // what is mapped: the pages that it is in
  size_t pages_size;    // bytes
  guarded_range *guard; // of the pages; NULL: nothing is mapped
  size_t users;         // guarded by the registry's lock
  bool leaving;         // the same; it goes with its last user
};

struct shared_memory {
  bool allow_clients;
  pthread_mutex_t lock;
  string_map regions; // name → shared_region; the lock guards all of this
  uint64_t bytes;     // of all
};

shared_memory *shared_memory_new(bool allow_clients)
{
  shared_memory *m = calloc(1, sizeof(*m));
  if (m == NULL)
    return NULL;
  m->allow_clients = allow_clients;
  pthread_mutex_init(&m->lock, NULL);
  return m;
}

static void free_region(shared_region *r)
{
  if (r == NULL)
    return;
  if (r->guard != NULL) {
    memory_guard_forget(r->guard);
    munmap(r->pages, r->pages_size);
  }
  free(r->name);
  free(r->key);
  free(r);
}

void shared_memory_free(shared_memory *m)
{
  if (m == NULL)
    return;
  string_map_entry *entry;
  for (size_t i = 0; (entry = string_map_walk(&m->regions, &i)) != NULL;)
    free_region(entry->value);
  string_map_fini(&m->regions);
  pthread_mutex_destroy(&m->lock);
  free(m);
}

error *shared_memory_allowed(const shared_memory *m)
{
  return m->allow_clients
             ? NULL
             : error_new(ERROR_UNSUPPORTED, "Client shared memory is disabled. Start the server "
                                            "with '--allow-client-shm=true' to enable.");
}

// ---- mapping ----

// What names of objects are made of. Anything else is refused, and so is whatever the C library or
// the kernel might read as a path.
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
    return error_new(ERROR_INVALID_ARG,
                     "failed to register shared memory region '%s': invalid args", r->name);
  if (r->byte_size > SHARED_MEMORY_MAX_BYTES - r->memory->bytes)
    return error_new(ERROR_UNAVAILABLE,
                     "failed to register shared memory region '%s': too many bytes are registered",
                     r->name);
  return NULL;
}

// Maps the region's object. The region may begin anywhere in a page. The descriptor is closed at
// once: nothing of it is kept.
static error *map(shared_region *r)
{
  RETURN_IF_ERROR(check_key(r));
  // A FIFO of that name must not block.
  AUTO_CLOSE int descriptor = shm_open(r->key, O_RDWR | O_NONBLOCK, 0);
  if (descriptor < 0)
    return error_new(ERROR_INTERNAL, "Unable to open shared memory region: '%s': %s", r->key,
                     strerror(errno));
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

// ---- registering ----

static error *make_region(shared_memory *m, const char *name, const char *key, uint64_t offset,
                          uint64_t byte_size, shared_region **result)
{
  shared_region *r = calloc(1, sizeof(*r));
  if (r == NULL)
    return error_no_memory();
  *r = (shared_region){.memory = m, .offset = offset, .byte_size = byte_size};
  r->name = strdup(name);
  r->key = strdup(key);
  error *e = r->name == NULL || r->key == NULL ? error_no_memory() : map(r);
  if (e == NULL)
    *result = r;
  else
    free_region(r);
  return e;
}

error *shared_memory_register_system(shared_memory *m, const char *name, const char *key,
                                     uint64_t offset, uint64_t byte_size)
{
  shared_region *r = NULL;
  RETURN_IF_ERROR(shared_memory_allowed(m));
  if (strlen(name) > SHARED_MEMORY_NAME_MAX_BYTES)
    return error_new(ERROR_INVALID_ARG,
                     "expected a name of at most %d bytes for a shared memory region",
                     SHARED_MEMORY_NAME_MAX_BYTES);
  LOCK_SCOPE(&m->lock);
  if (string_map_get(&m->regions, slice_of(name)) != NULL)
    return error_new(ERROR_ALREADY_EXISTS, "shared memory region '%s' already in manager", name);
  if (m->regions.live_count >= SHARED_MEMORY_MAX_REGIONS)
    return error_new(ERROR_UNAVAILABLE,
                     "failed to register shared memory region '%s': there are %d already", name,
                     SHARED_MEMORY_MAX_REGIONS);
  RETURN_IF_ERROR(make_region(m, name, key, offset, byte_size, &r));
  if (!string_map_put(&m->regions, slice_of(name), r)) {
    free_region(r);
    return error_no_memory();
  }
  m->bytes += byte_size;
  return NULL;
}

error *shared_memory_register_cuda(shared_memory *m, const char *name)
{
  RETURN_IF_ERROR(shared_memory_allowed(m));
  return error_new(ERROR_INVALID_ARG,
                   "failed to register CUDA shared memory region: '%.256s', GPUs not supported",
                   name);
}

// ---- unregistering ----

// Takes a region out of the registry unless somebody uses it. The lock is held; the caller frees
// what this returns without it.
static shared_region *remove_unused(shared_region *r)
{
  if (r->users > 0)
    return NULL;
  string_map_remove(&r->memory->regions, slice_of(r->name));
  r->memory->bytes -= r->byte_size;
  return r;
}

// `name` as in shared_memory_unregister. NULL when there is nothing more to free.
static shared_region *unregister_next(shared_memory *m, const char *name)
{
  LOCK_SCOPE(&m->lock);
  string_map_entry *entry;
  for (size_t i = 0; (entry = string_map_walk(&m->regions, &i)) != NULL;) {
    shared_region *r = entry->value;
    if (name != NULL && strcmp(r->name, name) != 0)
      continue;
    r->leaving = true;
    if (remove_unused(r) != NULL)
      return r;
  }
  return NULL;
}

error *shared_memory_unregister(shared_memory *m, TRITONSERVER_MemoryType kind, const char *name)
{
  RETURN_IF_ERROR(shared_memory_allowed(m));
  if (kind == TRITONSERVER_MEMORY_GPU)
    return NULL; // there are none
  for (shared_region *r; (r = unregister_next(m, name)) != NULL;)
    free_region(r);
  return NULL;
}

// ---- status ----

static void print_region(const shared_region *r, bool by_name, buffer *json)
{
  if (json->size > 1)
    buffer_append_char(json, ',');
  if (by_name) {
    buffer_append_json_string(json, slice_of(r->name));
    buffer_append_char(json, ':');
  }
  buffer_append_text(json, "{\"name\":");
  buffer_append_json_string(json, slice_of(r->name));
  buffer_append_text(json, ",\"key\":");
  buffer_append_json_string(json, slice_of(r->key));
  buffer_append_format(json, ",\"offset\":%" PRIu64 ",\"byte_size\":%" PRIu64 "}", r->offset,
                       r->byte_size);
}

// There is no memory of a GPU.
static error *print_regions(shared_memory *m, bool gpu, const char *name, bool by_name,
                            buffer *json)
{
  LOCK_SCOPE(&m->lock);
  string_map_entry *entry;
  for (size_t i = 0; name == NULL && !gpu && (entry = string_map_walk(&m->regions, &i)) != NULL;)
    print_region(entry->value, by_name, json);
  if (name == NULL)
    return NULL;
  const shared_region *r = string_map_get(&m->regions, slice_of(name));
  if (r == NULL)
    return error_new(ERROR_NOT_FOUND, "Unable to find %s shared memory region: '%.256s'",
                     gpu ? "cuda" : "system", name);
  if (gpu)
    return error_new(ERROR_NOT_FOUND,
                     "The region named '%s' is registered as system shared memory, not CUDA shared "
                     "memory",
                     name);
  print_region(r, by_name, json);
  return NULL;
}

error *shared_memory_print(shared_memory *m, TRITONSERVER_MemoryType kind, const char *name,
                           bool by_name, buffer *json)
{
  buffer_append_char(json, by_name ? '{' : '[');
  RETURN_IF_ERROR(print_regions(m, kind == TRITONSERVER_MEMORY_GPU, name, by_name, json));
  buffer_append_char(json, by_name ? '}' : ']');
  return json->failed ? error_no_memory() : NULL;
}

// ---- use ----

static error *check_span(const shared_region *r, uint64_t offset, uint64_t byte_size)
{
  size_t end;
  if (offset >= r->byte_size)
    return error_new(ERROR_INVALID_ARG, "Invalid offset for shared memory region: '%s'", r->name);
  if (!checked_add_size(offset, byte_size, &end))
    return error_new(ERROR_INVALID_ARG,
                     "Integer overflow detected: byte_size (%" PRIu64 ") + offset (%" PRIu64
                     ") exceeds maximum value (%zu) for region '%s'",
                     byte_size, offset, SIZE_MAX, r->name);
  if (end > r->byte_size)
    return error_new(ERROR_INVALID_ARG, "Invalid offset + byte size for shared memory region: '%s'",
                     r->name);
  return NULL;
}

error *shared_memory_take(shared_memory *m, const char *name, uint64_t offset, uint64_t byte_size,
                          shared_span *span)
{
  LOCK_SCOPE(&m->lock);
  shared_region *r = string_map_get(&m->regions, slice_of(name));
  if (r == NULL)
    return error_new(ERROR_NOT_FOUND, "Unable to find shared memory region: '%.256s'", name);
  RETURN_IF_ERROR(check_span(r, offset, byte_size));
  r->users++;
  *span = (shared_span){.region = r, .base = (char *)r->base + offset, .byte_size = byte_size};
  return NULL;
}

error *shared_span_check(const shared_span *span)
{
  const shared_region *r = span->region;
  if (!guarded_range_is_broken(r->guard))
    return NULL;
  return error_new(
      ERROR_INVALID_ARG,
      "shared memory region '%s' is unregistered: some of it was gone when it was used "
      "(its file was made smaller, or there was no memory for it)",
      r->name);
}

static shared_region *drop_user(shared_region *r)
{
  LOCK_SCOPE(&r->memory->lock);
  r->users--;
  r->leaving = r->leaving || guarded_range_is_broken(r->guard);
  return r->leaving ? remove_unused(r) : NULL;
}

void shared_span_give_back(shared_span *span)
{
  free_region(drop_user(span->region));
  span->region = NULL;
}

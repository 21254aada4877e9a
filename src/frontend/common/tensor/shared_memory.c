// SPDX-License-Identifier: Apache-2.0
// The registry. Its lock guards the counts of users, so that a region that is found can be taken.
// Regions are opened and closed without the lock.
#include "frontend/common/tensor/shared_memory.h"

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/container_of.h"
#include "base/state.h"
#include "base/string_map.h"
#include "base/thread.h"
#include "frontend/common/observe/frontend_log.h"
#include "frontend/common/tensor/shared_region.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct shared_memory {
  bool allow_clients;
  pthread_mutex_t lock;   // guards what follows
  string_map regions;     // name → shared_region
  uint64_t bytes;         // sum of all regions
  jobs *jobs;             // NULL: freed; the last user closes a region itself
  shared_region *closing; // GONE regions of GPUs, whose last user must not wait
  bool job_queued;        // `closer` is queued or runs
  struct job closer;
};

static void enter(shared_region *r, region_state to)
{
  static const unsigned allowed[] = {
      [REGION_OPENING] = STATE_BIT(REGION_OPEN) | STATE_BIT(REGION_GONE),
      [REGION_OPEN] = STATE_BIT(REGION_LEAVING),
      [REGION_LEAVING] = STATE_BIT(REGION_LEAVING) | STATE_BIT(REGION_GONE),
      [REGION_GONE] = 0,
  };
  state_assert(allowed, r->state, to);
  r->state = to;
}

static error *close_region(shared_region *r)
{
  assert(r->users == 0);
  if (r->kind == TRITONSERVER_MEMORY_GPU)
    return cuda_region_close(r);
  system_region_close(r);
  return NULL;
}

// NULL is allowed. Closing still needs the region's fields.
static error *free_region(shared_region *r)
{
  if (r == NULL)
    return NULL;
  error *e = close_region(r);
  free(r->name);
  free(r->key);
  free(r);
  return e;
}

// For a region that no request waits for.
static void free_and_log(shared_region *r)
{
  error *e = free_region(r);
  if (e != NULL)
    frontend_log_warning("a shared memory region of a client: %s", error_message(e));
  error_free(e);
}

shared_memory *shared_memory_new(bool allow_clients, jobs *jobs)
{
  shared_memory *m = calloc(1, sizeof(*m));
  if (m == NULL)
    return NULL;
  m->allow_clients = allow_clients;
  m->jobs = jobs;
  pthread_mutex_init(&m->lock, NULL);
  return m;
}

// Takes the list of regions to close.
static shared_region *take_closing(shared_memory *m)
{
  LOCK_SCOPE(&m->lock);
  shared_region *first = m->closing;
  m->closing = NULL;
  m->job_queued = m->job_queued && first != NULL;
  return first;
}

static void close_waiting(shared_memory *m)
{
  for (shared_region *first; (first = take_closing(m)) != NULL;)
    for (shared_region *next; first != NULL; first = next) {
      next = first->next;
      free_and_log(first);
    }
}

static void run_closer(struct job *j)
{
  close_waiting(container_of(j, shared_memory, closer));
}

void shared_memory_forget_jobs(shared_memory *m)
{
  if (m == NULL)
    return;
  LOCK_SCOPE(&m->lock);
  m->jobs = NULL;
}

void shared_memory_free(shared_memory *m)
{
  if (m == NULL)
    return;
  assert(m->jobs == NULL);
  close_waiting(m);
  string_map_entry *entry;
  for (size_t i = 0; (entry = string_map_walk(&m->regions, &i)) != NULL;)
    free_and_log(entry->value);
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

// ---- registering ----

static shared_region *find(const shared_memory *m, const char *name)
{
  shared_region *r = string_map_get(&m->regions, slice_of(name));
  return r == NULL || r->state == REGION_OPENING ? NULL : r;
}

// The caller closes the region after it has released the lock.
static void take_out(shared_region *r)
{
  shared_memory *m = r->memory;
  assert(r->users == 0 && lock_is_held(&m->lock));
  string_map_remove(&m->regions, slice_of(r->name));
  if (r->counted)
    m->bytes -= r->byte_size;
  enter(r, REGION_GONE);
}

static error *take_name(shared_memory *m, shared_region *r)
{
  LOCK_SCOPE(&m->lock);
  if (string_map_get(&m->regions, slice_of(r->name)) != NULL)
    return error_new(ERROR_ALREADY_EXISTS, "shared memory region '%s' already in manager", r->name);
  if (m->regions.live_count >= SHARED_MEMORY_MAX_REGIONS)
    return error_new(ERROR_UNAVAILABLE,
                     "failed to register shared memory region '%s': there are %d already", r->name,
                     SHARED_MEMORY_MAX_REGIONS);
  r->room = SHARED_MEMORY_MAX_BYTES - m->bytes;
  return string_map_put(&m->regions, slice_of(r->name), r) ? NULL : error_no_memory();
}

// Makes the open region visible, if there is still room for its bytes.
static error *let_in(shared_region *r)
{
  shared_memory *m = r->memory;
  LOCK_SCOPE(&m->lock);
  RETURN_IF_ERROR(shared_region_check_room(r, SHARED_MEMORY_MAX_BYTES - m->bytes));
  m->bytes += r->byte_size;
  r->counted = true;
  enter(r, REGION_OPEN);
  return NULL;
}

// Opens a region whose name is taken and makes it visible; on failure the name is free again.
static error *open_named(shared_region *r)
{
  error *e = r->kind == TRITONSERVER_MEMORY_GPU ? cuda_region_open(r) : system_region_open(r);
  if (e == NULL)
    e = let_in(r);
  if (e == NULL)
    return NULL;
  LOCK_SCOPE(&r->memory->lock);
  take_out(r);
  return e;
}

// `like` has the fields of its kind, without texts.
static error *add_region(shared_memory *m, const char *name, const char *key,
                         const shared_region *like)
{
  if (strlen(name) > SHARED_MEMORY_NAME_MAX_BYTES)
    return error_new(ERROR_INVALID_ARG,
                     "expected a name of at most %d bytes for a shared memory region",
                     SHARED_MEMORY_NAME_MAX_BYTES);
  shared_region *r = calloc(1, sizeof(*r));
  if (r == NULL)
    return error_no_memory();
  *r = *like;
  r->memory = m;
  r->name = strdup(name);
  r->key = strdup(key);
  error *e = r->name == NULL || r->key == NULL ? error_no_memory() : take_name(m, r);
  if (e == NULL)
    e = open_named(r);
  if (e != NULL)
    error_free(free_region(r));
  return e;
}

error *shared_memory_register_system(shared_memory *m, const char *name, const char *key,
                                     uint64_t offset, uint64_t byte_size)
{
  RETURN_IF_ERROR(shared_memory_allowed(m));
  const shared_region like = {
      .kind = TRITONSERVER_MEMORY_CPU, .offset = offset, .byte_size = byte_size};
  return add_region(m, name, key, &like);
}

error *shared_memory_register_cuda(shared_memory *m, const char *name, slice handle, int64_t device,
                                   uint64_t byte_size)
{
  const gpu_devices *devices;
  shared_region like = {.kind = TRITONSERVER_MEMORY_GPU, .device = device, .byte_size = byte_size};
  RETURN_IF_ERROR(shared_memory_allowed(m));
  RETURN_IF_ERROR(cuda_region_find_gpus(name, &devices));
  if (handle.size != sizeof(like.handle))
    return error_new(ERROR_INVALID_ARG,
                     "'raw_handle' must be a valid cudaIpcMemHandle_t: expected %zu bytes, got %zu",
                     sizeof(like.handle), handle.size);
  memcpy(like.handle, handle.data, sizeof(like.handle));
  return add_region(m, name, "", &like);
}

error *shared_memory_find_gpus(const char *name)
{
  const gpu_devices *devices;
  return cuda_region_find_gpus(name, &devices);
}

// ---- unregistering ----

// Takes out a region that matches and has no users; NULL when there is none left. The caller closes
// it without the lock. `name` as in shared_memory_unregister.
static shared_region *unregister_next(shared_memory *m, TRITONSERVER_MemoryType kind,
                                      const char *name)
{
  LOCK_SCOPE(&m->lock);
  string_map_entry *entry;
  for (size_t i = 0; (entry = string_map_walk(&m->regions, &i)) != NULL;) {
    shared_region *r = entry->value;
    if (r->kind != kind || r->state == REGION_OPENING ||
        (name != NULL && strcmp(r->name, name) != 0))
      continue;
    enter(r, REGION_LEAVING);
    if (r->users > 0)
      continue;
    take_out(r);
    return r;
  }
  return NULL;
}

// Triton's words when one of all regions cannot be closed.
static error *tell_failures(const buffer *names, error *first_owned)
{
  if (first_owned == NULL || names == NULL)
    return first_owned;
  error *e = error_new(ERROR_INTERNAL,
                       "Failed to unregister the following cuda shared memory regions: %.*s: %s",
                       (int)names->size, names->data, error_message(first_owned));
  error_free(first_owned);
  return e;
}

error *shared_memory_unregister(shared_memory *m, TRITONSERVER_MemoryType kind, const char *name)
{
  error *first = NULL;
  AUTO_BUFFER buffer failed = BUFFER_EMPTY;
  RETURN_IF_ERROR(shared_memory_allowed(m));
  for (shared_region *r; (r = unregister_next(m, kind, name)) != NULL;) {
    AUTO_FREE char *its_name = r->name;
    r->name = NULL;
    error *e = free_region(r);
    if (e != NULL)
      buffer_append_format(&failed, "%s ,", its_name);
    if (first == NULL)
      first = e;
    else
      error_free(e);
    if (name != NULL)
      break; // a region registered under this name from now on stays
  }
  return tell_failures(name == NULL ? &failed : NULL, first);
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
  if (r->kind == TRITONSERVER_MEMORY_GPU) {
    buffer_append_format(json, ",\"device_id\":%" PRId64, r->device);
  } else {
    buffer_append_text(json, ",\"key\":");
    buffer_append_json_string(json, slice_of(r->key));
    buffer_append_format(json, ",\"offset\":%" PRIu64, r->offset);
  }
  buffer_append_format(json, ",\"byte_size\":%" PRIu64 "}", r->byte_size);
}

static error *print_one(const shared_memory *m, TRITONSERVER_MemoryType kind, const char *name,
                        bool by_name, buffer *json)
{
  const bool gpu = kind == TRITONSERVER_MEMORY_GPU;
  const shared_region *r = find(m, name);
  if (r == NULL)
    return error_new(ERROR_NOT_FOUND, "Unable to find %s shared memory region: '%.256s'",
                     gpu ? "cuda" : "system", name);
  if (r->kind != kind)
    return error_new(ERROR_NOT_FOUND,
                     "The region named '%s' is registered as %s shared memory, not %s shared "
                     "memory",
                     name, gpu ? "system" : "CUDA", gpu ? "CUDA" : "system");
  print_region(r, by_name, json);
  return NULL;
}

static error *print_regions(shared_memory *m, TRITONSERVER_MemoryType kind, const char *name,
                            bool by_name, buffer *json)
{
  LOCK_SCOPE(&m->lock);
  if (name != NULL)
    return print_one(m, kind, name, by_name, json);
  string_map_entry *entry;
  for (size_t i = 0; (entry = string_map_walk(&m->regions, &i)) != NULL;) {
    const shared_region *r = entry->value;
    if (r->kind == kind && r->state != REGION_OPENING)
      print_region(r, by_name, json);
  }
  return NULL;
}

error *shared_memory_print(shared_memory *m, TRITONSERVER_MemoryType kind, const char *name,
                           bool by_name, buffer *json)
{
  buffer_append_char(json, by_name ? '{' : '[');
  RETURN_IF_ERROR(print_regions(m, kind, name, by_name, json));
  buffer_append_char(json, by_name ? '}' : ']');
  return json->failed ? error_no_memory() : NULL;
}

// ---- use ----

static error *check_span(const shared_region *r, uint64_t offset, uint64_t byte_size)
{
  size_t end;
  if (offset >= r->byte_size)
    return error_new(ERROR_INVALID_ARG,
                     "Invalid offset for shared memory region: '%s': offset %" PRIu64
                     ", expected less than its %zu bytes",
                     r->name, offset, r->byte_size);
  if (!checked_add_size(offset, byte_size, &end))
    return error_new(ERROR_INVALID_ARG,
                     "Integer overflow detected: byte_size (%" PRIu64 ") + offset (%" PRIu64
                     ") exceeds maximum value (%zu) for region '%s'",
                     byte_size, offset, SIZE_MAX, r->name);
  if (end > r->byte_size)
    return error_new(ERROR_INVALID_ARG,
                     "Invalid offset + byte size for shared memory region: '%s': offset %" PRIu64
                     " and byte_size %" PRIu64 ", expected the end within its %zu bytes",
                     r->name, offset, byte_size, r->byte_size);
  return NULL;
}

error *shared_memory_take(shared_memory *m, const char *name, uint64_t offset, uint64_t byte_size,
                          shared_span *span)
{
  LOCK_SCOPE(&m->lock);
  shared_region *r = find(m, name);
  if (r == NULL)
    return error_new(ERROR_NOT_FOUND, "Unable to find shared memory region: '%.256s'", name);
  RETURN_IF_ERROR(check_span(r, offset, byte_size));
  r->users++;
  *span = (shared_span){.region = r, .base = (char *)r->base + offset, .byte_size = byte_size};
  if (r->kind == TRITONSERVER_MEMORY_GPU) {
    span->handle = r->handle;
    span->device = r->device;
  }
  return NULL;
}

error *shared_span_read(const shared_span *span, void *to)
{
  const shared_region *r = span->region;
  if (span->handle != NULL)
    return cuda_region_read(r, span->base, to, span->byte_size);
  memcpy(to, span->base, span->byte_size);
  return NULL;
}

static bool is_broken(const shared_region *r)
{
  return r->guard != NULL && guarded_range_is_broken(r->guard);
}

error *shared_span_check(const shared_span *span)
{
  const shared_region *r = span->region;
  if (!is_broken(r))
    return NULL;
  return error_new(
      ERROR_INVALID_ARG,
      "shared memory region '%s' is unregistered: some of it was gone when it was used "
      "(its file was made smaller, or there was no memory for it)",
      r->name);
}

// The lock is held. If the job cannot be queued, the next call's job closes this region too.
static void close_by_job(shared_memory *m, shared_region *r)
{
  r->next = m->closing;
  m->closing = r;
  if (m->job_queued)
    return;
  m->closer = (struct job){.run = run_closer};
  error *e = jobs_submit(m->jobs, JOB_DRIVER, &m->closer);
  m->job_queued = e == NULL;
  error_free(e);
}

// Returns the region if the caller must free it, else NULL.
static shared_region *drop_user(shared_region *r)
{
  shared_memory *m = r->memory;
  LOCK_SCOPE(&m->lock);
  r->users--;
  if (is_broken(r))
    enter(r, REGION_LEAVING);
  if (r->state != REGION_LEAVING || r->users > 0)
    return NULL;
  take_out(r);
  if (r->kind != TRITONSERVER_MEMORY_GPU || m->jobs == NULL)
    return r;
  close_by_job(m, r);
  return NULL;
}

void shared_span_give_back(shared_span *span)
{
  shared_region *r = drop_user(span->region);
  if (r != NULL)
    free_and_log(r);
  span->region = NULL;
}

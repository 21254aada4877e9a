// SPDX-License-Identifier: Apache-2.0
// Memory of the played devices. A device address lies in a reservation that nobody may touch, so
// the host faults there; the data are as far behind it as the reservation is long, in a memfd for
// each allocation. Addresses are handed out once around: what was freed stays without memory.
#include "fake.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SPACE   ((CUdeviceptr)1 << 38)
#define PAGE    ((size_t)4096)
#define PATTERN 0xA5
#define MAGIC   UINT64_C(0x6e65726569640a01)

typedef struct ipc_handle {
  uint64_t magic, generation, bytes, pid_namespace;
  int pid, fd;
  char uuid[16]; // the end of the text
} ipc_handle;
_Static_assert(sizeof(ipc_handle) <= sizeof(CUipcMemHandle), "a handle has 64 bytes");

typedef struct host_range {
  struct host_range *next;
  char *base;
  size_t bytes;
  int ordinal;
  bool registered;
} host_range;

static CUdeviceptr space, cursor;
static fake_range *ranges, *mapped; // by address
static host_range *pinned;

// ---- addresses ----

// mmap as the kernel has it: sanitizers need not know of this memory, their books would be large.
static void *map_raw(CUdeviceptr at, size_t bytes, int protection, int flags, int fd, size_t offset)
{
  return (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
}

static bool reserve_space(void)
{
  if (space != 0)
    return true;
  void *memory =
      map_raw(0, 2 * SPACE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return false;
  space = cursor = (CUdeviceptr)memory;
  return true;
}

bool fake_is_device_address(CUdeviceptr address)
{
  return space != 0 && address >= space && address < space + SPACE;
}

void *fake_shadow(CUdeviceptr address)
{
  return (void *)(address + SPACE);
}

static size_t rounded(size_t bytes)
{
  return (bytes + PAGE - 1) / PAGE * PAGE;
}

bool fake_map(CUdeviceptr base, size_t bytes, int fd, size_t offset)
{
  return map_raw(base + SPACE, rounded(bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                 offset) != MAP_FAILED;
}

void fake_unmap(CUdeviceptr base, size_t bytes)
{
  map_raw(base + SPACE, rounded(bytes), PROT_NONE,
          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

// From the cursor on, and once around; a page that nobody has lies between two ranges.
CUdeviceptr fake_reserve(size_t bytes, size_t alignment)
{
  if (!reserve_space() || bytes > SPACE / 4)
    return 0;
  for (int round = 0; round < 2; round++) {
    CUdeviceptr base = (cursor + alignment - 1) / alignment * alignment;
    for (const fake_range *r = ranges; r != NULL; r = r->next)
      if (base < r->base + r->bytes + PAGE && r->base < base + bytes + PAGE)
        base = (r->base + r->bytes + PAGE + alignment - 1) / alignment * alignment;
    if (base + bytes + PAGE <= space + SPACE) {
      cursor = base + rounded(bytes) + PAGE;
      return base;
    }
    cursor = space;
  }
  return 0;
}

fake_range *fake_range_new(fake_kind kind, int ordinal, CUdeviceptr base, size_t bytes, int fd)
{
  fake_range **at = kind == FAKE_MAPPED ? &mapped : &ranges;
  fake_range *range = calloc(1, sizeof(*range));
  if (range == NULL)
    return NULL;
  range->kind = kind;
  range->ordinal = ordinal;
  range->base = base;
  range->bytes = bytes;
  range->fd = fd;
  while (*at != NULL && (*at)->base < base)
    at = &(*at)->next;
  range->next = *at;
  *at = range;
  return range;
}

void fake_range_remove(fake_range *range)
{
  fake_range **at = range->kind == FAKE_MAPPED ? &mapped : &ranges;
  while (*at != range)
    at = &(*at)->next;
  *at = range->next;
  if (range->kind != FAKE_RESERVED)
    fake_unmap(range->base, range->bytes);
  if (range->fd >= 0)
    close(range->fd);
  free(range);
}

static fake_range *range_in(fake_range *list, CUdeviceptr address)
{
  for (fake_range *r = list; r != NULL && r->base <= address; r = r->next)
    if (address < r->base + r->bytes)
      return r;
  return NULL;
}

fake_range *fake_range_at(CUdeviceptr address)
{
  fake_range *range = range_in(mapped, address);
  return range == NULL ? range_in(ranges, address) : range;
}

CUresult fake_find(CUdeviceptr address, size_t bytes, fake_range **range)
{
  fake_range *found = fake_range_at(address);
  *range = found;
  if (found == NULL || found->kind == FAKE_RESERVED)
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  while (found != NULL && (found->kind != FAKE_MAPPED || found->accessible)) {
    if (bytes <= found->base + found->bytes - address)
      return CUDA_SUCCESS;
    if (found->kind != FAKE_MAPPED)
      break;
    bytes -= found->base + found->bytes - address; // the next piece
    address = found->base + found->bytes;
    found = range_in(mapped, address);
  }
  return CUDA_ERROR_ILLEGAL_ADDRESS;
}

// ---- device memory ----

bool fake_take_bytes(int ordinal, size_t bytes)
{
  const fake_device *device = fake_device_of(ordinal);
  int index = fake_context_of(ordinal)->index;
  uint64_t used = fake_used_by_all(index) + device->memory_used;
  if (used > device->memory || bytes > device->memory - used)
    return false;
  fake_counters()->used[index] += bytes;
  return true;
}

void fake_give_bytes(int ordinal, size_t bytes)
{
  fake_counters()->used[fake_context_of(ordinal)->index] -= bytes;
}

static void name_of(uint64_t generation, char name[64])
{
  snprintf(name, 64, "fake-gpu-%016llx", (unsigned long long)generation);
}

int fake_memory_new(size_t bytes, uint64_t *generation)
{
  char name[64];
  if (getrandom(generation, sizeof(*generation), 0) != sizeof(*generation))
    return -1;
  name_of(*generation, name);
  int fd = memfd_create(name, MFD_CLOEXEC);
  if (fd >= 0 && ftruncate(fd, (off_t)rounded(bytes)) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

// So that reading what nobody has written shows.
void fake_fill_new(int fd, size_t bytes)
{
  char pattern[PAGE];
  size_t end = fake_config_now()->fill_bytes;
  memset(pattern, PATTERN, sizeof(pattern));
  for (size_t at = 0; at < bytes && at < end; at += sizeof(pattern))
    if (pwrite(fd, pattern, sizeof(pattern), (off_t)at) < 0)
      return;
}

static CUresult allocate(int ordinal, size_t bytes, CUdeviceptr *memory)
{
  uint64_t generation;
  if (!fake_take_bytes(ordinal, bytes))
    return CUDA_ERROR_OUT_OF_MEMORY;
  int fd = fake_memory_new(bytes, &generation);
  CUdeviceptr base = fd < 0 ? 0 : fake_reserve(bytes, PAGE);
  fake_range *range = NULL;
  if (base != 0 && fake_map(base, bytes, fd, 0))
    range = fake_range_new(FAKE_ALLOCATED, ordinal, base, bytes, fd);
  if (range == NULL) {
    fake_give_bytes(ordinal, bytes);
    if (fd >= 0)
      close(fd);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  fake_fill_new(fd, bytes);
  range->generation = generation;
  *memory = base;
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *memory, size_t bytes)
{
  ENTER(cuMemAlloc_v2, true, true);
  if (bytes == 0)
    return CUDA_ERROR_INVALID_VALUE;
  mtx_lock(&fake_lock);
  fake_count(allocations, 1);
  CUresult code = allocate(fake_current()->ordinal, bytes, memory);
  mtx_unlock(&fake_lock);
  return code;
}

FAKE_EXPORT CUresult cuMemFree_v2(CUdeviceptr memory)
{
  ENTER(cuMemFree_v2, true, true);
  mtx_lock(&fake_lock);
  fake_count(syncs, 1);
  CUresult code = fake_wait_for_device(-1);
  fake_range *range = fake_range_at(memory);
  if (range == NULL || range->kind != FAKE_ALLOCATED || range->base != memory) {
    code = CUDA_ERROR_INVALID_VALUE;
  } else {
    fake_give_bytes(range->ordinal, range->bytes);
    fake_range_remove(range);
  }
  mtx_unlock(&fake_lock);
  return code;
}

void fake_free_all(CUcontext context)
{
  fake_range *next;
  for (fake_range *r = ranges; r != NULL; r = next) {
    next = r->next;
    if (r->ordinal != context->ordinal || r->kind == FAKE_RESERVED)
      continue;
    if (r->kind == FAKE_ALLOCATED)
      fake_give_bytes(r->ordinal, r->bytes);
    else
      fake_count(ipc_opened, -1);
    fake_range_remove(r);
  }
}

FAKE_EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
  ENTER(cuMemGetInfo_v2, true, true);
  const fake_device *device = fake_device_of(fake_current()->ordinal);
  uint64_t used = fake_used_by_all(fake_current()->index) + device->memory_used;
  *total = device->memory;
  *free_bytes = used > device->memory ? 0 : device->memory - used;
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr memory)
{
  ENTER(cuMemGetAddressRange_v2, true, true);
  mtx_lock(&fake_lock);
  const fake_range *range = fake_range_at(memory);
  bool found = range != NULL && range->kind != FAKE_RESERVED;
  if (found && base != NULL)
    *base = range->base;
  if (found && bytes != NULL)
    *bytes = range->bytes;
  mtx_unlock(&fake_lock);
  return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

// ---- host memory ----

static host_range **host_at(const void *memory)
{
  host_range **at = &pinned;
  while (*at != NULL &&
         ((const char *)memory < (*at)->base || (const char *)memory >= (*at)->base + (*at)->bytes))
    at = &(*at)->next;
  return at;
}

bool fake_is_pinned(const void *memory, size_t bytes)
{
  const host_range *range = *host_at(memory);
  return range != NULL && bytes <= (size_t)(range->base + range->bytes - (const char *)memory);
}

static bool pin(void *memory, size_t bytes, bool registered)
{
  host_range *range = calloc(1, sizeof(*range));
  if (range == NULL)
    return false;
  *range = (host_range){pinned, memory, bytes, fake_current()->ordinal, registered};
  pinned = range;
  fake_count(host_bytes, bytes);
  return true;
}

static CUresult unpin(void *memory, bool registered)
{
  host_range **at = host_at(memory), *range = *at;
  if (range == NULL || range->base != memory || range->registered != registered)
    return registered ? (CUresult)713 : CUDA_ERROR_INVALID_VALUE;
  *at = range->next;
  fake_count(host_bytes, -range->bytes);
  if (!registered)
    free(memory);
  free(range);
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
  ENTER(cuMemHostAlloc, true, true);
  if (bytes == 0 || flags > 7)
    return CUDA_ERROR_INVALID_VALUE;
  if (posix_memalign(memory, PAGE, bytes) != 0)
    return CUDA_ERROR_OUT_OF_MEMORY;
  size_t fill = fake_config_now()->fill_bytes;
  memset(*memory, PATTERN, bytes < fill ? bytes : fill);
  mtx_lock(&fake_lock);
  fake_count(allocations, 1);
  bool done = pin(*memory, bytes, false);
  mtx_unlock(&fake_lock);
  if (!done)
    free(*memory);
  return done ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

FAKE_EXPORT CUresult cuMemFreeHost(void *memory)
{
  ENTER(cuMemFreeHost, true, true);
  mtx_lock(&fake_lock);
  fake_count(syncs, 1);
  fake_wait_for_device(-1);
  CUresult code = unpin(memory, false);
  mtx_unlock(&fake_lock);
  return code;
}

FAKE_EXPORT CUresult cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags)
{
  ENTER(cuMemHostRegister_v2, true, true);
  if (memory == NULL || bytes == 0 || flags > 15)
    return CUDA_ERROR_INVALID_VALUE;
  mtx_lock(&fake_lock);
  fake_count(allocations, 1);
  CUresult code = CUDA_SUCCESS;
  for (const host_range *r = pinned; r != NULL; r = r->next)
    if (r->base < (char *)memory + bytes && (char *)memory < r->base + r->bytes)
      code = (CUresult)712;
  if (code == CUDA_SUCCESS && !pin(memory, bytes, true))
    code = CUDA_ERROR_OUT_OF_MEMORY;
  mtx_unlock(&fake_lock);
  return code;
}

FAKE_EXPORT CUresult cuMemHostUnregister(void *memory)
{
  ENTER(cuMemHostUnregister, true, true);
  mtx_lock(&fake_lock);
  fake_count(syncs, 1);
  fake_wait_for_device(-1);
  CUresult code = unpin(memory, true);
  mtx_unlock(&fake_lock);
  return code;
}

// ---- what a pointer is ----

typedef struct pointer {
  unsigned type;
  int ordinal, exportable;
  CUdeviceptr base;
  size_t bytes;
} pointer;

static pointer look_at(CUdeviceptr memory)
{
  const fake_range *range = fake_range_at(memory);
  if (range != NULL && range->kind != FAKE_RESERVED)
    return (pointer){CU_MEMORYTYPE_DEVICE, range->ordinal,
                     range->kind == FAKE_ALLOCATED && fake_device_of(range->ordinal)->ipc,
                     range->base, range->bytes};
  const host_range *host = *host_at((void *)memory);
  if (host != NULL)
    return (pointer){CU_MEMORYTYPE_HOST, host->ordinal, 0, (CUdeviceptr)host->base, host->bytes};
  return (pointer){.ordinal = -2};
}

static CUresult attribute_of(const pointer *found, int attribute, void *value)
{
  switch (attribute) {
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    *(unsigned *)value = found->type;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    *(int *)value = found->ordinal;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    *(int *)value = found->exportable;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    *(CUdeviceptr *)value = found->base;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    *(size_t *)value = found->bytes;
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

static pointer look_locked_at(CUdeviceptr memory)
{
  mtx_lock(&fake_lock);
  pointer found = look_at(memory);
  mtx_unlock(&fake_lock);
  return found;
}

FAKE_EXPORT CUresult cuPointerGetAttributes(unsigned count, int *attributes, void **values,
                                            CUdeviceptr memory)
{
  ENTER(cuPointerGetAttributes, true, true);
  pointer found = look_locked_at(memory);
  CUresult code = CUDA_SUCCESS;
  for (unsigned i = 0; code == CUDA_SUCCESS && i < count; i++)
    code = attribute_of(&found, attributes[i], values[i]);
  return code;
}

// What NVIDIA's python backend calls instead, on threads that have no context: of the memory that
// it is asked about the driver knows one.
FAKE_EXPORT CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr memory)
{
  ENTER(cuPointerGetAttributes, true, false);
  pointer found = look_locked_at(memory);
  return found.type == 0 ? CUDA_ERROR_INVALID_VALUE : attribute_of(&found, attribute, value);
}

// ---- memory of other processes ----

static uint64_t pid_namespace(void)
{
  struct stat found;
  return stat("/proc/self/ns/pid", &found) == 0 ? found.st_ino : 0;
}

FAKE_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr memory)
{
  ENTER(cuIpcGetMemHandle, true, true);
  CUresult code = CUDA_ERROR_INVALID_VALUE;
  mtx_lock(&fake_lock);
  const fake_range *range = fake_range_at(memory);
  if (range != NULL && range->kind == FAKE_ALLOCATED) {
    const fake_device *device = fake_device_of(range->ordinal);
    ipc_handle made = {.magic = MAGIC,
                       .generation = range->generation,
                       .bytes = range->bytes,
                       .pid_namespace = pid_namespace(),
                       .pid = getpid(),
                       .fd = range->fd};
    size_t length = strlen(device->uuid), start = length < 16 ? 0 : length - 16;
    memcpy(made.uuid, device->uuid + start, length - start);
    memset(handle, 0, sizeof(*handle));
    memcpy(handle, &made, sizeof(made));
    code = device->ipc ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
  }
  mtx_unlock(&fake_lock);
  return code;
}

static int ordinal_of(const char uuid[16])
{
  for (int i = 0; i < fake_visible_count(); i++) {
    const char *text = fake_device_of(i)->uuid;
    size_t length = strlen(text), start = length < 16 ? 0 : length - 16;
    if (strncmp(text + start, uuid, 16) == 0)
      return i;
  }
  return -1;
}

// Does the process still have this memory at that descriptor?
static bool exporter_has(int pid, int fd, uint64_t generation)
{
  char path[64], name[64], expected[96], link[128];
  snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
  name_of(generation, name);
  snprintf(expected, sizeof(expected), "/memfd:%s (deleted)", name);
  ssize_t n = readlink(path, link, sizeof(link) - 1);
  return n == (ssize_t)strlen(expected) && memcmp(link, expected, (size_t)n) == 0;
}

bool fake_exporter_is_gone(const fake_range *range)
{
  return range->kind == FAKE_IMPORTED &&
         !exporter_has(range->exporter, range->exporter_fd, range->generation);
}

static CUresult import(const ipc_handle *handle, int ordinal, CUdeviceptr *memory)
{
  char path[64];
  snprintf(path, sizeof(path), "/proc/%d/fd/%d", handle->pid, handle->fd);
  if (!exporter_has(handle->pid, handle->fd, handle->generation))
    return CUDA_ERROR_INVALID_VALUE; // stale
  int fd = open(path, O_RDWR | O_CLOEXEC);
  CUdeviceptr base = fd < 0 ? 0 : fake_reserve(handle->bytes, PAGE);
  fake_range *range = NULL;
  if (base != 0 && fake_map(base, handle->bytes, fd, 0))
    range = fake_range_new(FAKE_IMPORTED, ordinal, base, handle->bytes, fd);
  if (range == NULL) {
    if (fd >= 0)
      close(fd);
    return fd < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
  }
  range->generation = handle->generation;
  range->exporter = handle->pid;
  range->exporter_fd = handle->fd;
  range->opened = 1;
  fake_count(ipc_opened, 1);
  *memory = base;
  return CUDA_SUCCESS;
}

static CUresult open_handle(const ipc_handle *handle, CUdeviceptr *memory)
{
  int ordinal = handle->magic == MAGIC ? ordinal_of(handle->uuid) : -1;
  CUcontext context = fake_current();
  if (handle->magic != MAGIC || handle->bytes == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (handle->pid_namespace != pid_namespace() || ordinal < 0)
    return CUDA_ERROR_INVALID_DEVICE;
  if (handle->pid == getpid())
    return CUDA_ERROR_INVALID_CONTEXT;
  if (!fake_device_of(ordinal)->ipc)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (ordinal != context->ordinal &&
      (fake_device_of(context->ordinal)->peers & 1u << fake_context_of(ordinal)->index) == 0)
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  for (fake_range *r = ranges; r != NULL; r = r->next) {
    if (r->kind == FAKE_IMPORTED && r->generation == handle->generation) {
      r->opened++;
      *memory = r->base;
      return CUDA_SUCCESS;
    }
  }
  return import(handle, ordinal, memory);
}

FAKE_EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *memory, CUipcMemHandle handle,
                                           unsigned flags)
{
  ENTER(cuIpcOpenMemHandle_v2, true, true);
  ipc_handle read;
  memcpy(&read, &handle, sizeof(read));
  if (flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
    return CUDA_ERROR_INVALID_VALUE;
  mtx_lock(&fake_lock);
  CUresult code = open_handle(&read, memory);
  mtx_unlock(&fake_lock);
  return code;
}

FAKE_EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr memory)
{
  ENTER(cuIpcCloseMemHandle, true, true);
  mtx_lock(&fake_lock);
  fake_wait_for_device(-1);
  fake_range *range = fake_range_at(memory);
  bool good = range != NULL && range->kind == FAKE_IMPORTED && range->base == memory;
  if (good && --range->opened == 0) {
    fake_count(ipc_opened, -1);
    fake_range_remove(range);
  }
  mtx_unlock(&fake_lock);
  return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

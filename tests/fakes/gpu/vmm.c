// SPDX-License-Identifier: Apache-2.0
// Virtual memory of the played driver: addresses are reserved, pieces of memory made, mapped there
// and opened for devices; a piece goes to another process as a file descriptor.
#include "fake.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define GRANULARITY ((size_t)2 << 20)
#define MAGIC       UINT64_C(0x6e65726569640b01)

typedef struct fake_piece {
  struct fake_piece *next;
  CUmemGenericAllocationHandle handle;
  int ordinal, fd;
  size_t bytes;
  unsigned held; // by its handle and its mappings
  bool released; // the handle is no longer good
  bool exportable, imported;
} fake_piece;

typedef struct footer { // behind the piece's memory in its file
  uint64_t magic, bytes;
  int index;
} footer;

static fake_piece *pieces;
static CUmemGenericAllocationHandle handles = 0x1000;

static fake_piece *piece_of(CUmemGenericAllocationHandle handle)
{
  fake_piece *piece = pieces;
  while (piece != NULL && (piece->handle != handle || piece->released))
    piece = piece->next;
  return piece;
}

static fake_piece *piece_new(int ordinal, int fd, size_t bytes)
{
  fake_piece *piece = calloc(1, sizeof(*piece));
  if (piece == NULL)
    return NULL;
  *piece = (fake_piece){
      .next = pieces, .handle = ++handles, .ordinal = ordinal, .fd = fd, .bytes = bytes, .held = 1};
  pieces = piece;
  return piece;
}

static void let_go(fake_piece *piece)
{
  fake_piece **at = &pieces;
  if (--piece->held > 0)
    return;
  while (*at != piece)
    at = &(*at)->next;
  *at = piece->next;
  if (!piece->imported)
    fake_give_bytes(piece->ordinal, piece->bytes);
  close(piece->fd);
  free(piece);
}

// ---- addresses ----

FAKE_EXPORT CUresult cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t alignment,
                                         CUdeviceptr wanted, unsigned long long flags)
{
  ENTER(cuMemAddressReserve, true, false);
  (void)wanted; // a hint
  if (bytes == 0 || bytes % GRANULARITY != 0 || flags != 0 || (alignment & (alignment - 1)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  mtx_lock(&fake_lock);
  *address = fake_reserve(bytes, alignment < GRANULARITY ? GRANULARITY : alignment);
  bool done = *address != 0 && fake_range_new(FAKE_RESERVED, 0, *address, bytes, -1) != NULL;
  mtx_unlock(&fake_lock);
  return done ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static bool has_mapping(CUdeviceptr address, size_t bytes)
{
  for (CUdeviceptr at = address; at < address + bytes; at += GRANULARITY)
    if (fake_range_at(at)->kind == FAKE_MAPPED)
      return true;
  return false;
}

FAKE_EXPORT CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes)
{
  ENTER(cuMemAddressFree, true, false);
  mtx_lock(&fake_lock);
  fake_range *range = fake_range_at(address);
  bool good = range != NULL && range->kind == FAKE_RESERVED && range->base == address &&
              range->bytes == bytes && !has_mapping(address, bytes);
  if (good)
    fake_range_remove(range);
  mtx_unlock(&fake_lock);
  return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// ---- pieces ----

static int device_of(const CUmemAllocationProp *properties)
{
  bool good = properties->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
              properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
              properties->location.id >= 0 && properties->location.id < fake_visible_count();
  return good ? properties->location.id : -1;
}

FAKE_EXPORT CUresult cuMemGetAllocationGranularity(size_t *bytes,
                                                   const CUmemAllocationProp *properties,
                                                   int option)
{
  ENTER(cuMemGetAllocationGranularity, true, false);
  if (device_of(properties) < 0 || option < 0 || option > 1)
    return CUDA_ERROR_INVALID_VALUE;
  *bytes = GRANULARITY;
  return CUDA_SUCCESS;
}

static CUresult create(const CUmemAllocationProp *properties, size_t bytes,
                       CUmemGenericAllocationHandle *handle)
{
  uint64_t generation;
  int ordinal = device_of(properties);
  footer end = {.magic = MAGIC, .bytes = bytes, .index = fake_context_of(ordinal)->index};
  if (!fake_take_bytes(ordinal, bytes))
    return CUDA_ERROR_OUT_OF_MEMORY;
  int fd = fake_memory_new(bytes, &generation);
  fake_piece *piece = NULL;
  if (fd >= 0 && pwrite(fd, &end, sizeof(end), (off_t)bytes) == sizeof(end))
    piece = piece_new(ordinal, fd, bytes);
  if (piece == NULL) {
    fake_give_bytes(ordinal, bytes);
    if (fd >= 0)
      close(fd);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  fake_fill_new(fd, bytes);
  piece->exportable = properties->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  *handle = piece->handle;
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                                 const CUmemAllocationProp *properties, unsigned long long flags)
{
  ENTER(cuMemCreate, true, false);
  int ordinal = device_of(properties);
  if (ordinal < 0 || bytes == 0 || bytes % GRANULARITY != 0 || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  const fake_device *device = fake_device_of(ordinal);
  int type = properties->requestedHandleTypes;
  if (!device->vmm || (type != CU_MEM_HANDLE_TYPE_NONE &&
                       (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !device->fds)))
    return CUDA_ERROR_NOT_SUPPORTED;
  mtx_lock(&fake_lock);
  fake_count(allocations, 1);
  CUresult code = create(properties, bytes, handle);
  mtx_unlock(&fake_lock);
  return code;
}

// Its mappings keep the memory.
FAKE_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
  ENTER(cuMemRelease, true, false);
  mtx_lock(&fake_lock);
  fake_piece *piece = piece_of(handle);
  if (piece != NULL) {
    piece->released = true;
    let_go(piece);
  }
  mtx_unlock(&fake_lock);
  return piece == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

// ---- mappings ----

static CUresult map_piece(CUdeviceptr address, size_t bytes, fake_piece *piece)
{
  const fake_range *range = fake_range_at(address);
  if (piece == NULL || bytes != piece->bytes || range == NULL || range->kind != FAKE_RESERVED ||
      address % GRANULARITY != 0 || bytes > range->base + range->bytes - address ||
      has_mapping(address, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  fake_range *mapping = fake_range_new(FAKE_MAPPED, piece->ordinal, address, bytes, -1);
  if (mapping == NULL)
    return CUDA_ERROR_OUT_OF_MEMORY;
  if (!fake_map(address, bytes, piece->fd, 0)) {
    fake_range_remove(mapping);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  mapping->piece = piece;
  piece->held++;
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                              CUmemGenericAllocationHandle handle, unsigned long long flags)
{
  ENTER(cuMemMap, true, false);
  if (offset != 0 || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  mtx_lock(&fake_lock);
  CUresult code = map_piece(address, bytes, piece_of(handle));
  mtx_unlock(&fake_lock);
  return code;
}

// Whole mappings that lie one behind the other.
static bool are_mappings(CUdeviceptr address, size_t bytes)
{
  CUdeviceptr at = address;
  while (at < address + bytes) {
    const fake_range *range = fake_range_at(at);
    if (range == NULL || range->kind != FAKE_MAPPED || range->base != at)
      return false;
    at += range->bytes;
  }
  return bytes > 0 && at == address + bytes;
}

FAKE_EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t bytes)
{
  ENTER(cuMemUnmap, true, false);
  mtx_lock(&fake_lock);
  fake_wait_for_device(-1);
  bool good = are_mappings(address, bytes);
  for (CUdeviceptr at = address; good && at < address + bytes;) {
    fake_range *range = fake_range_at(at);
    fake_piece *piece = range->piece;
    at += range->bytes;
    fake_range_remove(range);
    let_go(piece);
  }
  mtx_unlock(&fake_lock);
  return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

FAKE_EXPORT CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes,
                                    const CUmemAccessDesc *access, size_t count)
{
  ENTER(cuMemSetAccess, true, false);
  for (size_t i = 0; i < count; i++)
    if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || access[i].location.id < 0 ||
        access[i].location.id >= fake_visible_count())
      return CUDA_ERROR_INVALID_DEVICE;
  mtx_lock(&fake_lock);
  bool good = count > 0 && are_mappings(address, bytes);
  for (CUdeviceptr at = address; good && at < address + bytes;) {
    fake_range *range = fake_range_at(at);
    for (size_t i = 0; i < count; i++)
      if (access[i].location.id == range->ordinal)
        range->accessible = access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    at += range->bytes;
  }
  mtx_unlock(&fake_lock);
  return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// ---- between processes ----

FAKE_EXPORT CUresult cuMemExportToShareableHandle(void *shareable,
                                                  CUmemGenericAllocationHandle handle, int type,
                                                  unsigned long long flags)
{
  ENTER(cuMemExportToShareableHandle, true, false);
  int fd = -1;
  mtx_lock(&fake_lock);
  fake_piece *piece = piece_of(handle);
  bool good = piece != NULL && piece->exportable &&
              type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR && flags == 0;
  if (good)
    fd = fcntl(piece->fd, F_DUPFD_CLOEXEC, 0);
  mtx_unlock(&fake_lock);
  if (good && fd >= 0)
    *(int *)shareable = fd;
  return !good ? CUDA_ERROR_INVALID_VALUE : fd < 0 ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle,
                                                    void *shareable, int type)
{
  ENTER(cuMemImportFromShareableHandle, true, false);
  int fd = (int)(intptr_t)shareable;
  struct stat found;
  footer end = {0};
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || fstat(fd, &found) != 0 ||
      found.st_size <= (off_t)sizeof(end) || found.st_size % (off_t)GRANULARITY == 0)
    return CUDA_ERROR_INVALID_VALUE;
  off_t bytes = found.st_size / (off_t)GRANULARITY * (off_t)GRANULARITY;
  if (pread(fd, &end, sizeof(end), bytes) != sizeof(end) || end.magic != MAGIC ||
      end.bytes != (uint64_t)bytes)
    return CUDA_ERROR_INVALID_VALUE;
  int ordinal = fake_ordinal_of_index(end.index), own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (ordinal < 0 || own < 0) {
    if (own >= 0)
      close(own);
    return CUDA_ERROR_INVALID_DEVICE;
  }
  mtx_lock(&fake_lock);
  fake_piece *piece = piece_new(ordinal, own, end.bytes);
  if (piece != NULL) {
    piece->imported = true;
    piece->exportable = true;
    *handle = piece->handle;
  } else {
    close(own);
  }
  mtx_unlock(&fake_lock);
  return piece == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

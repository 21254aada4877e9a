// SPDX-License-Identifier: Apache-2.0
// Regions: addresses reserved once and filled piece by piece, which processes share by file
// descriptors. One owner; no use of the memory may be left when the region is freed.
#include "gpu/ipc.h"

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/list.h"
#include "gpu/context.h"
#include "gpu/device.h"
#include "gpu/health.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct piece {
  list_node node;
  CUdeviceptr address;
  size_t bytes;
} piece;

struct gpu_region {
  int device; // the device whose context it holds
  bool exports;
  size_t granularity, reserved, filled;
  CUdeviceptr base;
  list pieces;
};

static const char *missing_function(const gpu_driver *driver)
{
#define NEEDED(name)                                                                               \
  if (driver->name == NULL)                                                                        \
    return #name;
  NEEDED(cuMemAddressReserve)
  NEEDED(cuMemAddressFree)
  NEEDED(cuMemCreate)
  NEEDED(cuMemRelease)
  NEEDED(cuMemMap)
  NEEDED(cuMemUnmap)
  NEEDED(cuMemSetAccess)
  NEEDED(cuMemGetAllocationGranularity)
#undef NEEDED
  return NULL;
}

static CUmemAllocationProp properties_of(const gpu_region *r)
{
  return (CUmemAllocationProp){
      .type = CU_MEM_ALLOCATION_TYPE_PINNED,
      .requestedHandleTypes =
          r->exports ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE,
      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = r->device},
  };
}

static error *unsupported(int device, const char *why)
{
  return error_new(ERROR_UNSUPPORTED, "GPU %d: no regions of virtual memory: %s", device, why);
}

static error *check_device(gpu_region *r)
{
  const gpu_driver *driver = gpu_driver_opened();
  const gpu_devices *devices;
  const char *missing = missing_function(driver);
  if (missing != NULL) {
    char why[96];
    snprintf(why, sizeof(why), "the NVIDIA driver has no %s", missing);
    return unsupported(r->device, why);
  }
  RETURN_IF_ERROR(gpu_devices_find(&devices, NULL));
  const gpu_device *device = &devices->items[r->device];
  if (!device->virtual_memory)
    return unsupported(r->device, "the device has none");
  r->exports = device->exports_fds && driver->cuMemExportToShareableHandle != NULL &&
               driver->cuMemImportFromShareableHandle != NULL;
  return NULL;
}

// Rounds `bytes` up to a whole number of granules.
static bool round_up(const gpu_region *r, size_t bytes, size_t *rounded)
{
  if (!checked_add_size(bytes, r->granularity - 1, rounded))
    return false;
  *rounded -= *rounded % r->granularity;
  return true;
}

static error *reserve(gpu_region *r, size_t bytes)
{
  const gpu_driver *driver = gpu_driver_opened();
  CUmemAllocationProp properties = properties_of(r);
  CUresult code = driver->cuMemGetAllocationGranularity(&r->granularity, &properties,
                                                        CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  if (code == CUDA_SUCCESS && (r->granularity == 0 || !round_up(r, bytes, &r->reserved)))
    code = CUDA_ERROR_INVALID_VALUE;
  if (code == CUDA_SUCCESS)
    code = driver->cuMemAddressReserve(&r->base, r->reserved, 0, 0, 0);
  return gpu_error_on(r->device, code, "GPU %d: no addresses for %zu bytes", r->device, bytes);
}

static error *open_region(gpu_region *r, size_t bytes)
{
  CUcontext before;
  RETURN_IF_ERROR(check_device(r));
  RETURN_IF_ERROR(gpu_context_visit(r->device, &before));
  error *e = reserve(r, bytes);
  gpu_context_leave(before);
  return e;
}

error *gpu_region_new(int device, size_t reserved_bytes, gpu_region **region)
{
  RETURN_IF_ERROR(gpu_context_hold(device));
  gpu_region *r = calloc(1, sizeof(*r));
  error *e = r == NULL ? error_no_memory() : NULL;
  if (e == NULL) {
    r->device = device;
    list_init(&r->pieces);
    e = open_region(r, reserved_bytes);
  }
  if (e != NULL) {
    free(r);
    gpu_context_release(device);
    return e;
  }
  *region = r;
  return NULL;
}

void gpu_region_free(gpu_region *region)
{
  if (region == NULL)
    return;
  const gpu_driver *driver = gpu_driver_opened();
  int device = region->device;
  CUcontext before;
  AUTO_ERROR error *e = gpu_context_visit(device, &before);
  list_foreach_safe (piece, p, node, &region->pieces) {
    if (e == NULL)
      gpu_health_tell(device, driver->cuMemUnmap(p->address, p->bytes));
    free(p);
  }
  if (e == NULL) {
    gpu_health_tell(device, driver->cuMemAddressFree(region->base, region->reserved));
    gpu_context_leave(before);
  }
  gpu_context_release(device);
  free(region);
}

void *gpu_region_base(const gpu_region *region)
{
  return (void *)(uintptr_t)region->base;
}

size_t gpu_region_bytes(const gpu_region *region)
{
  return region->filled;
}

// Maps `handle` at the end of the filled part.
static CUresult map(const gpu_region *r, CUmemGenericAllocationHandle handle, size_t bytes)
{
  const gpu_driver *driver = gpu_driver_opened();
  CUdeviceptr at = r->base + r->filled;
  CUmemAccessDesc access = {
      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = r->device},
      .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
  };
  CUresult code = driver->cuMemMap(at, bytes, 0, handle, 0);
  if (code != CUDA_SUCCESS)
    return code;
  code = driver->cuMemSetAccess(at, bytes, &access, 1);
  if (code != CUDA_SUCCESS)
    driver->cuMemUnmap(at, bytes);
  return code;
}

// Takes over `handle` and releases it: the mapping keeps the memory. *fd: a descriptor, if wanted.
static error *append(gpu_region *r, CUmemGenericAllocationHandle handle, size_t bytes, int *fd)
{
  const gpu_driver *driver = gpu_driver_opened();
  int made = -1;
  piece *p = calloc(1, sizeof(*p));
  CUresult code = p == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
  if (code == CUDA_SUCCESS && fd != NULL)
    code = driver->cuMemExportToShareableHandle(&made, handle,
                                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  if (code == CUDA_SUCCESS)
    code = map(r, handle, bytes);
  gpu_health_tell(r->device, driver->cuMemRelease(handle));
  if (code != CUDA_SUCCESS) {
    cleanup_close(&made);
    free(p);
    return gpu_error_on(r->device, code, "GPU %d: a region cannot grow by %zu bytes", r->device,
                        bytes);
  }
  p->address = r->base + r->filled;
  p->bytes = bytes;
  list_append(&r->pieces, &p->node);
  r->filled += bytes;
  if (fd != NULL)
    *fd = made;
  return NULL;
}

static error *grow(gpu_region *r, size_t bytes, int *fd)
{
  CUmemAllocationProp properties = properties_of(r);
  CUmemGenericAllocationHandle handle;
  CUresult code = gpu_driver_opened()->cuMemCreate(&handle, bytes, &properties, 0);
  RETURN_IF_ERROR(
      gpu_error_on(r->device, code, "GPU %d: no %zu bytes of device memory", r->device, bytes));
  return append(r, handle, bytes, fd);
}

error *gpu_region_grow(gpu_region *region, size_t bytes, int *fd, size_t *added)
{
  size_t rounded;
  CUcontext before;
  *added = 0;
  if (fd != NULL)
    *fd = -1;
  if (fd != NULL && !region->exports)
    return unsupported(region->device, "its memory cannot be handed on by file descriptor");
  if (!round_up(region, bytes, &rounded) || rounded > region->reserved)
    return error_new(ERROR_INVALID_ARG, "GPU %d: %zu bytes do not fit into a region of %zu",
                     region->device, bytes, region->reserved);
  if (rounded <= region->filled)
    return NULL;
  RETURN_IF_ERROR(gpu_context_visit(region->device, &before));
  size_t missing = rounded - region->filled;
  error *e = grow(region, missing, fd);
  gpu_context_leave(before);
  if (e == NULL)
    *added = missing;
  return e;
}

error *gpu_region_import(gpu_region *region, int fd, size_t bytes)
{
  CUmemGenericAllocationHandle handle;
  CUcontext before;
  if (!region->exports)
    return unsupported(region->device, "its memory cannot be handed on by file descriptor");
  if (bytes == 0 || bytes % region->granularity != 0 || bytes > region->reserved - region->filled)
    return error_new(ERROR_INVALID_ARG,
                     "GPU %d: a piece of %zu bytes does not fit into a region with %zu of %zu",
                     region->device, bytes, region->filled, region->reserved);
  RETURN_IF_ERROR(gpu_context_visit(region->device, &before));
  CUresult code = gpu_driver_opened()->cuMemImportFromShareableHandle(
      &handle, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  error *e = gpu_error_on(region->device, code, "GPU %d: the descriptor's memory", region->device);
  if (e == NULL)
    e = append(region, handle, bytes, NULL);
  gpu_context_leave(before);
  return e;
}

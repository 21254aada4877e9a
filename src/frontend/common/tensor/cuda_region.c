// SPDX-License-Identifier: Apache-2.0
// A region in GPU memory of another process, opened by its CUDA handle. Called by jobs, because the
// driver may take long: the first call of the process opens it, the first region on a device makes
// a context there.
#include "frontend/common/tensor/shared_region.h"

#include "gpu/copy.h"
#include "gpu/device.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define INVALID_ARGS "failed to register shared memory region: invalid args: "

error *cuda_region_find_gpus(const char *name, const gpu_devices **devices)
{
  const char *why = NULL;
  error *e = gpu_devices_find(devices, &why);
  if (e == NULL && (*devices)->count > 0)
    return NULL;
  if (e != NULL)
    why = error_message(e);
  error *told =
      error_new(ERROR_INVALID_ARG,
                "failed to register CUDA shared memory region: '%.256s', GPUs not supported: %s",
                name, why != NULL ? why : "there is none");
  error_free(e);
  return told;
}

// Triton's words, then the reason, which Triton only logs.
error *cuda_region_open(shared_region *r)
{
  const gpu_devices *devices = NULL;
  RETURN_IF_ERROR(cuda_region_find_gpus(r->name, &devices));
  if (r->device < 0 || (uint64_t)r->device >= devices->count)
    return error_new(ERROR_INVALID_ARG,
                     INVALID_ARGS "region '%s' is on GPU %" PRId64
                                  ", but this server's GPUs are 0 to %zu",
                     r->name, r->device, devices->count - 1);
  gpu_mapping mapping;
  error *e = gpu_ipc_open((int)r->device, r->handle, &mapping);
  if (e != NULL) {
    const bool is_full = error_get_code(e) == ERROR_UNAVAILABLE;
    error *told = error_new(is_full ? ERROR_UNAVAILABLE : ERROR_INVALID_ARG,
                            INVALID_ARGS "region '%s': %s", r->name, error_message(e));
    error_free(e);
    return told;
  }
  r->mapping = mapping;
  r->base = mapping.base;
  if (r->byte_size > mapping.bytes)
    e = error_new(ERROR_INVALID_ARG,
                  "failed to register shared memory region '%s': invalid args: its size of %" PRIu64
                  " bytes is more than the %zu that are allocated on GPU %" PRId64,
                  r->name, r->byte_size, mapping.bytes, r->device);
  else
    e = shared_region_check_room(r, r->room);
  if (e != NULL)
    error_free(cuda_region_close(r));
  return e;
}

error *cuda_region_close(shared_region *r)
{
  if (r->mapping.base == NULL)
    return NULL;
  error *e = gpu_ipc_close(&r->mapping);
  r->mapping.base = NULL;
  return e;
}

error *cuda_region_read(const shared_region *r, const void *from, void *to, size_t size)
{
  char what[512];
  const gpu_place place = {.kind = GPU_MEMORY_DEVICE, .device = (int)r->device};
  snprintf(what, sizeof(what), "shared memory region '%s'", r->name);
  return gpu_copy_now(to, (gpu_place){.kind = GPU_MEMORY_HOST}, from, place, size, what);
}

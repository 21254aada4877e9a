// SPDX-License-Identifier: Apache-2.0
// Other processes' memory by CUDA's handles. For threads that may wait for milliseconds.
#include "gpu/ipc.h"

#include "base/cleanup.h"
#include "gpu/context.h"
#include "gpu/health.h"

#include <string.h>

static const char *reason_of(CUresult code)
{
  switch (code) {
  case CUDA_ERROR_INVALID_CONTEXT:
    return "; the memory is of this same process, which has it already";
  case CUDA_ERROR_INVALID_VALUE:
  case CUDA_ERROR_INVALID_HANDLE:
  case CUDA_ERROR_MAP_FAILED:
    return "; its process may have ended or freed it, or the handle is none";
  case CUDA_ERROR_INVALID_DEVICE:
    return "; its process may be in another PID namespace (containers need --pid=host and "
           "--ipc=host), or the memory on a device that this process does not see";
  case CUDA_ERROR_NOT_SUPPORTED:
    return "; this platform has no CUDA IPC (as WSL2, and integrated GPUs)";
  case CUDA_ERROR_PEER_ACCESS_UNSUPPORTED:
    return "; the memory is on a device that this one cannot reach";
  default:
    return "";
  }
}

// A made-up handle must not mark the device: after an unknown error gpu_health_look finds out
// whether the context is dead.
static error *open_error(int device, CUresult code)
{
  AUTO_ERROR error *e = gpu_error(code, "failed to open CUDA IPC handle");
  if (code != CUDA_ERROR_UNKNOWN)
    gpu_health_tell(device, code);
  return error_new(error_get_code(e), "%s%s", error_message(e), reason_of(code));
}

// Finds the memory's real device, since the other process may have named a wrong one, and its size
// from `memory` on.
static CUresult locate(CUdeviceptr memory, gpu_mapping *mapping)
{
  const gpu_driver *driver = gpu_driver_opened();
  int which = CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
  CUdeviceptr start = 0;
  size_t bytes = 0;
  void *values[] = {&mapping->device};
  CUresult code = driver->cuMemGetAddressRange_v2(&start, &bytes, memory);
  mapping->base = (void *)(uintptr_t)memory;
  mapping->bytes = (size_t)(start + bytes - memory);
  return code == CUDA_SUCCESS ? driver->cuPointerGetAttributes(1, &which, values, memory) : code;
}

static error *map(int device, const unsigned char handle[64], gpu_mapping *mapping)
{
  const gpu_driver *driver = gpu_driver_opened();
  CUipcMemHandle copy;
  CUdeviceptr memory;
  memcpy(copy.reserved, handle, sizeof(copy.reserved));
  CUresult code = driver->cuIpcOpenMemHandle_v2(&memory, copy, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  if (code != CUDA_SUCCESS)
    return open_error(device, code);
  gpu_mapping found = {.device = device};
  error *e = gpu_error_on(device, locate(memory, &found), "failed to open CUDA IPC handle");
  if (e == NULL && found.device != device)
    e = error_new(ERROR_INVALID_ARG,
                  "failed to open CUDA IPC handle: the memory is on GPU %d, not on GPU %d",
                  found.device, device);
  if (e == NULL)
    *mapping = found;
  else
    gpu_health_tell(device, driver->cuIpcCloseMemHandle(memory));
  return e;
}

error *gpu_ipc_open(int device, const unsigned char handle[64], gpu_mapping *mapping)
{
  CUcontext before;
  error *e = gpu_health_lost_error(device);
  if (e != NULL)
    return error_wrap(e, "failed to open CUDA IPC handle");
  RETURN_IF_ERROR(gpu_context_hold(device));
  e = gpu_context_visit(device, &before);
  if (e == NULL) {
    e = map(device, handle, mapping);
    gpu_context_leave(before);
  }
  if (e != NULL)
    gpu_context_release(device);
  return e;
}

error *gpu_ipc_close(gpu_mapping *mapping)
{
  int device = mapping->device;
  CUcontext before;
  error *e = gpu_health_lost_error(device);
  if (e != NULL) { // left until the process ends, with the context
    *mapping = (gpu_mapping){0};
    return error_wrap(e, "failed to close CUDA IPC handle");
  }
  e = gpu_context_visit(device, &before);
  if (e == NULL) {
    CUresult code = gpu_driver_opened()->cuIpcCloseMemHandle((CUdeviceptr)(uintptr_t)mapping->base);
    gpu_context_leave(before);
    e = gpu_error_on(device, code, "failed to close CUDA IPC handle");
  }
  *mapping = (gpu_mapping){0};
  gpu_context_release(device);
  return e;
}

static error *export_error(int device, CUresult code)
{
  const char *reason = code == CUDA_ERROR_NOT_SUPPORTED ? reason_of(code) : "";
  AUTO_ERROR error *e = gpu_error_on(device, code, "GPU %d: its memory cannot be exported", device);
  return error_new(error_get_code(e), "%s%s", error_message(e), reason);
}

error *gpu_ipc_export(int device, const void *memory, unsigned char handle[64], size_t *offset)
{
  const gpu_driver *driver = gpu_driver_opened();
  CUdeviceptr base, address = (CUdeviceptr)(uintptr_t)memory;
  CUipcMemHandle made;
  size_t bytes;
  CUcontext before;
  RETURN_IF_ERROR(gpu_context_visit(device, &before));
  CUresult code = driver->cuMemGetAddressRange_v2(&base, &bytes, address);
  if (code == CUDA_SUCCESS)
    code = driver->cuIpcGetMemHandle(&made, base);
  gpu_context_leave(before);
  if (code != CUDA_SUCCESS)
    return export_error(device, code);
  memcpy(handle, made.reserved, sizeof(made.reserved));
  *offset = (size_t)(address - base);
  return NULL;
}

// SPDX-License-Identifier: Apache-2.0
// NVIDIA's runtime library as far as its Triton server of 2.51 calls it, on whatever libcuda.so.1
// is there: with the played one, that server sees played GPUs
// (tests/e2e/gpu/test_gpu_abi_triton.py). Its own runtime asks a driver for tables that nobody but
// NVIDIA knows.
#include "src/gpu/cuda.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT       __attribute__((visibility("default")))
#define MOST_DEVICES 16

static struct {
#define FUNCTION(name, arguments) CUresult(*name) arguments;
  CUDA_FUNCTIONS(FUNCTION, FUNCTION)
#undef FUNCTION
} driver;
static CUresult state = CUDA_ERROR_NOT_INITIALIZED;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUcontext contexts[MOST_DEVICES]; // guarded by the lock
static _Thread_local int current;

static void open_driver(void)
{
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  state = CUDA_ERROR_NO_DEVICE;
  if (library == NULL)
    return;
#define FIND(name, arguments) *(void **)&driver.name = dlsym(library, #name);
  CUDA_FUNCTIONS(FIND, FIND)
#undef FIND
  state = driver.cuInit(0);
}

static CUresult enter(int device)
{
  CUdevice handle;
  CUresult code = state;
  pthread_once(&once, open_driver);
  code = state;
  if (code == CUDA_SUCCESS)
    code = driver.cuDeviceGet(&handle, device);
  if (code != CUDA_SUCCESS)
    return code;
  pthread_mutex_lock(&lock);
  if (contexts[device] == NULL)
    code = driver.cuDevicePrimaryCtxRetain(&contexts[device], handle);
  pthread_mutex_unlock(&lock);
  current = device;
  return code == CUDA_SUCCESS ? driver.cuCtxSetCurrent(contexts[device]) : code;
}

#define ENTER                                                                                      \
  do {                                                                                             \
    CUresult entered = enter(current);                                                             \
    if (entered != CUDA_SUCCESS)                                                                   \
      return entered;                                                                              \
  } while (0)

static CUdeviceptr of(const void *memory)
{
  return (uintptr_t)memory;
}

// ---- devices ----

EXPORT int cudaGetDeviceCount(int *count)
{
  *count = 0;
  pthread_once(&once, open_driver);
  return state == CUDA_SUCCESS ? driver.cuDeviceGetCount(count) : state;
}

EXPORT int cudaSetDevice(int device)
{
  return enter(device);
}

EXPORT int cudaGetDevice(int *device)
{
  *device = current;
  return CUDA_SUCCESS;
}

struct properties { // of CUDA 12; the rest stays 0
  char name[256];
  char unused[32];
  size_t memory;
  char more[64];
  int major, minor;
  char rest[1032 - 368];
};
_Static_assert(offsetof(struct properties, memory) == 288 &&
                   offsetof(struct properties, major) == 360 && sizeof(struct properties) == 1032,
               "the layout of cudaDeviceProp");

EXPORT int cudaGetDeviceProperties_v2(struct properties *found, int device)
{
  CUdevice handle;
  pthread_once(&once, open_driver);
  memset(found, 0, sizeof(*found));
  if (state != CUDA_SUCCESS || driver.cuDeviceGet(&handle, device) != CUDA_SUCCESS)
    return CUDA_ERROR_INVALID_DEVICE;
  driver.cuDeviceGetName(found->name, sizeof(found->name), handle);
  driver.cuDeviceTotalMem_v2(&found->memory, handle);
  driver.cuDeviceGetAttribute(&found->major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, handle);
  return driver.cuDeviceGetAttribute(&found->minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                                     handle);
}

EXPORT int cudaDeviceGetPCIBusId(char *id, int size, int device)
{
  CUdevice handle;
  ENTER;
  driver.cuDeviceGet(&handle, device);
  return driver.cuDeviceGetPCIBusId(id, size, handle);
}

EXPORT int cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
  ENTER;
  return driver.cuDeviceCanAccessPeer(can, device, peer);
}

EXPORT int cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
  int own = current;
  CUresult code = enter(peer);
  current = own;
  if (code == CUDA_SUCCESS)
    code = enter(own);
  return code == CUDA_SUCCESS ? driver.cuCtxEnablePeerAccess(contexts[peer], flags) : code;
}

EXPORT int cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
  ENTER;
  return driver.cuCtxGetStreamPriorityRange(least, greatest);
}

EXPORT const char *cudaGetErrorString(int code)
{
  const char *text = NULL;
  if (driver.cuGetErrorString == NULL || driver.cuGetErrorString(code, &text) != CUDA_SUCCESS)
    return "unrecognized error code";
  return text;
}

EXPORT int cudaGetLastError(void)
{
  return CUDA_SUCCESS;
}

EXPORT int cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags,
                                   int *result)
{
  char newer[64]; // the driver has several of a name, of which the last is meant
  (void)flags;
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  snprintf(newer, sizeof(newer), "%s_v2", symbol);
  *function = library == NULL ? NULL : dlsym(library, newer);
  if (library != NULL && *function == NULL)
    *function = dlsym(library, symbol);
  if (result != NULL)
    *result = *function == NULL;
  return CUDA_SUCCESS;
}

// ---- memory ----

EXPORT int cudaMalloc(void **memory, size_t bytes)
{
  CUdeviceptr made = 0;
  ENTER;
  CUresult code = driver.cuMemAlloc_v2(&made, bytes);
  *memory = (void *)(uintptr_t)made;
  return code;
}

EXPORT int cudaFree(void *memory)
{
  ENTER;
  return memory == NULL ? CUDA_SUCCESS : driver.cuMemFree_v2(of(memory));
}

EXPORT int cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
  ENTER;
  return driver.cuMemHostAlloc(memory, bytes, flags);
}

EXPORT int cudaFreeHost(void *memory)
{
  ENTER;
  return driver.cuMemFreeHost(memory);
}

EXPORT int cudaMemGetInfo(size_t *left, size_t *total)
{
  ENTER;
  return driver.cuMemGetInfo_v2(left, total);
}

EXPORT int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, CUstream stream)
{
  (void)kind;
  ENTER;
  return driver.cuMemcpyAsync(of(to), of(from), bytes, stream);
}

EXPORT int cudaMemcpy(void *to, const void *from, size_t bytes, int kind)
{
  CUresult code = cudaMemcpyAsync(to, from, bytes, kind, NULL);
  return code == CUDA_SUCCESS ? driver.cuStreamSynchronize(NULL) : code;
}

EXPORT int cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                               size_t bytes, CUstream stream)
{
  ENTER;
  return driver.cuMemcpyPeerAsync(of(to), contexts[to_device], of(from), contexts[from_device],
                                  bytes, stream);
}

EXPORT int cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t bytes)
{
  CUresult code = cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, NULL);
  return code == CUDA_SUCCESS ? driver.cuStreamSynchronize(NULL) : code;
}

EXPORT int cudaMemset(void *memory, int value, size_t bytes)
{
  ENTER;
  return driver.cuMemsetD8Async(of(memory), (unsigned char)value, bytes, NULL);
}

EXPORT int cudaIpcGetMemHandle(CUipcMemHandle *handle, void *memory)
{
  ENTER;
  return driver.cuIpcGetMemHandle(handle, of(memory));
}

EXPORT int cudaIpcOpenMemHandle(void **memory, CUipcMemHandle handle, unsigned flags)
{
  CUdeviceptr mapped = 0;
  ENTER;
  CUresult code = driver.cuIpcOpenMemHandle_v2(&mapped, handle, flags);
  *memory = (void *)(uintptr_t)mapped;
  return code;
}

EXPORT int cudaIpcCloseMemHandle(void *memory)
{
  ENTER;
  return driver.cuIpcCloseMemHandle(of(memory));
}

// ---- streams ----

EXPORT int cudaStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
  ENTER;
  return driver.cuStreamCreateWithPriority(stream, flags, priority);
}

EXPORT int cudaStreamCreate(CUstream *stream)
{
  return cudaStreamCreateWithPriority(stream, 0, 0);
}

EXPORT int cudaStreamDestroy(CUstream stream)
{
  ENTER;
  return driver.cuStreamDestroy_v2(stream);
}

EXPORT int cudaStreamSynchronize(CUstream stream)
{
  ENTER;
  return driver.cuStreamSynchronize(stream);
}

EXPORT int cudaStreamGetFlags(CUstream stream, unsigned *flags)
{
  (void)stream;
  *flags = 0;
  return CUDA_SUCCESS;
}

EXPORT int cudaEventRecord(CUevent event, CUstream stream)
{
  ENTER;
  return driver.cuEventRecord(event, stream);
}

EXPORT int cudaEventSynchronize(CUevent event)
{
  ENTER;
  return driver.cuEventSynchronize(event);
}

EXPORT int cudaLaunchHostFunc(CUstream stream, CUhostFn *function, void *context)
{
  ENTER;
  return driver.cuLaunchHostFunc(stream, function, context);
}

// ---- what nobody needs who has no kernels ----

#define REFUSED(name)                                                                              \
  EXPORT int name(void)                                                                            \
  {                                                                                                \
    return CUDA_ERROR_NOT_SUPPORTED;                                                               \
  }
REFUSED(cudaMallocManaged)
REFUSED(cudaMemPrefetchAsync)
REFUSED(cudaLaunchKernel)
REFUSED(__cudaPopCallConfiguration)
REFUSED(__cudaPushCallConfiguration)
REFUSED(__cudaRegisterFunction)
REFUSED(__cudaRegisterFatBinaryEnd)
REFUSED(__cudaUnregisterFatBinary)

EXPORT void *__cudaRegisterFatBinary(const void *binary)
{
  static void *none;
  (void)binary;
  return &none;
}

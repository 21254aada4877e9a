// SPDX-License-Identifier: Apache-2.0
// The part of CUDA's driver API that nereid calls: its types, numbers and functions, declared here
// so that no toolkit is needed to build. Names, layouts and values are those of NVIDIA's cuda.h
// (12.9 and 13); the suffixes are those under which libcuda.so.1 exports the functions.
#ifndef NEREID_GPU_CUDA_H
#define NEREID_GPU_CUDA_H

#include <stddef.h>

typedef int CUresult;
typedef int CUdevice; // from cuDeviceGet; not the ordinal
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef void CUhostFn(void *context);

typedef struct CUuuid {
  unsigned char bytes[16];
} CUuuid;

typedef struct CUipcMemHandle {
  unsigned char reserved[64];
} CUipcMemHandle;

typedef struct CUmemLocation {
  int type; // CU_MEM_LOCATION_TYPE_DEVICE
  int id;   // ordinal
} CUmemLocation;

typedef struct CUmemAllocationProp {
  int type;                 // CU_MEM_ALLOCATION_TYPE_PINNED
  int requestedHandleTypes; // CU_MEM_HANDLE_TYPE_…
  CUmemLocation location;
  void *win32HandleMetaData;
  struct {
    unsigned char compressionType;
    unsigned char gpuDirectRDMACapable;
    unsigned short usage;
    unsigned char reserved[4];
  } allocFlags;
} CUmemAllocationProp;

typedef struct CUmemAccessDesc {
  CUmemLocation location;
  int flags; // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
} CUmemAccessDesc;

// Values of CUresult.
typedef enum cuda_result {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NOT_INITIALIZED = 3,
  CUDA_ERROR_DEINITIALIZED = 4,
  CUDA_ERROR_STUB_LIBRARY = 34,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_DEVICE = 101,
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_MAP_FAILED = 205,
  CUDA_ERROR_ECC_UNCORRECTABLE = 214,
  CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217,
  CUDA_ERROR_NVLINK_UNCORRECTABLE = 220,
  CUDA_ERROR_CONTAINED = 226,
  CUDA_ERROR_INVALID_HANDLE = 400,
  CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_ILLEGAL_ADDRESS = 700,
  CUDA_ERROR_LAUNCH_TIMEOUT = 702,
  CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704,
  CUDA_ERROR_PEER_ACCESS_NOT_ENABLED = 705,
  CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
  CUDA_ERROR_ASSERT = 710,
  CUDA_ERROR_HARDWARE_STACK_ERROR = 714,
  CUDA_ERROR_LAUNCH_FAILED = 719,
  CUDA_ERROR_TENSOR_MEMORY_LEAK = 721,
  CUDA_ERROR_NOT_SUPPORTED = 801,
  CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
  CUDA_ERROR_MPS_CLIENT_TERMINATED = 810,
  CUDA_ERROR_EXTERNAL_DEVICE = 911,
  CUDA_ERROR_UNKNOWN = 999,
} cuda_result;

// For cuDeviceGetAttribute.
typedef enum cuda_device_attribute {
  CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,
  CU_DEVICE_ATTRIBUTE_PCI_BUS_ID = 33,
  CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID = 34,
  CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT = 40,
  CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
  CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID = 50,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
  CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103,
  CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID = 134,
} cuda_device_attribute;

// For cuPointerGetAttributes, with the type of each.
typedef enum cuda_pointer_attribute {
  CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,                 // unsigned: CU_MEMORYTYPE_…
  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,              // int
  CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE = 10, // int
  CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,           // CUdeviceptr
  CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,                 // size_t
} cuda_pointer_attribute;

#define CU_MEMORYTYPE_HOST                       1
#define CU_MEMORYTYPE_DEVICE                     2
#define CU_MEMHOSTALLOC_PORTABLE                 1
#define CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS       1 // the only flag of cuIpcOpenMemHandle, and required
#define CU_STREAM_NON_BLOCKING                   1
#define CU_EVENT_BLOCKING_SYNC                   1
#define CU_EVENT_DISABLE_TIMING                  2
#define CU_EVENT_INTERPROCESS                    4
#define CU_MEM_ALLOCATION_TYPE_PINNED            1
#define CU_MEM_LOCATION_TYPE_DEVICE              1
#define CU_MEM_HANDLE_TYPE_NONE                  0
#define CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR 1
#define CU_MEM_ALLOC_GRANULARITY_MINIMUM         0
#define CU_MEM_ACCESS_FLAGS_PROT_READWRITE       3
#define CU_STREAM_CAPTURE_MODE_RELAXED           2

// REQUIRED functions; older drivers lack the OPTIONAL ones, and what needs these is refused then.
#define CUDA_FUNCTIONS(REQUIRED, OPTIONAL)                                                         \
  REQUIRED(cuInit, (unsigned flags))                                                               \
  REQUIRED(cuDriverGetVersion, (int *version))                                                     \
  REQUIRED(cuGetErrorName, (CUresult code, const char **name))                                     \
  REQUIRED(cuGetErrorString, (CUresult code, const char **text))                                   \
  REQUIRED(cuDeviceGetCount, (int *count))                                                         \
  REQUIRED(cuDeviceGet, (CUdevice * device, int ordinal))                                          \
  REQUIRED(cuDeviceGetName, (char *name, int size, CUdevice device))                               \
  REQUIRED(cuDeviceGetUuid_v2, (CUuuid * uuid, CUdevice device))                                   \
  REQUIRED(cuDeviceTotalMem_v2, (size_t * bytes, CUdevice device))                                 \
  REQUIRED(cuDeviceGetAttribute, (int *value, int attribute, CUdevice device))                     \
  REQUIRED(cuDeviceGetPCIBusId, (char *id, int size, CUdevice device))                             \
  REQUIRED(cuDeviceCanAccessPeer, (int *can, CUdevice device, CUdevice peer))                      \
  REQUIRED(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                       \
  REQUIRED(cuDevicePrimaryCtxRelease_v2, (CUdevice device))                                        \
  REQUIRED(cuDevicePrimaryCtxGetState, (CUdevice device, unsigned *flags, int *active))            \
  REQUIRED(cuCtxSetCurrent, (CUcontext context))                                                   \
  REQUIRED(cuCtxGetCurrent, (CUcontext * context))                                                 \
  REQUIRED(cuCtxSynchronize, (void))                                                               \
  REQUIRED(cuCtxEnablePeerAccess, (CUcontext peer, unsigned flags))                                \
  REQUIRED(cuCtxGetStreamPriorityRange, (int *least, int *greatest))                               \
  REQUIRED(cuMemGetInfo_v2, (size_t * free, size_t * total))                                       \
  REQUIRED(cuMemAlloc_v2, (CUdeviceptr * memory, size_t bytes))                                    \
  REQUIRED(cuMemFree_v2, (CUdeviceptr memory))                                                     \
  REQUIRED(cuMemHostAlloc, (void **memory, size_t bytes, unsigned flags))                          \
  REQUIRED(cuMemFreeHost, (void *memory))                                                          \
  REQUIRED(cuMemHostRegister_v2, (void *memory, size_t bytes, unsigned flags))                     \
  REQUIRED(cuMemHostUnregister, (void *memory))                                                    \
  REQUIRED(cuMemGetAddressRange_v2, (CUdeviceptr * base, size_t * bytes, CUdeviceptr memory))      \
  REQUIRED(cuPointerGetAttributes,                                                                 \
           (unsigned count, int *attributes, void **values, CUdeviceptr memory))                   \
  REQUIRED(cuIpcGetMemHandle, (CUipcMemHandle * handle, CUdeviceptr memory))                       \
  REQUIRED(cuIpcOpenMemHandle_v2, (CUdeviceptr * memory, CUipcMemHandle handle, unsigned flags))   \
  REQUIRED(cuIpcCloseMemHandle, (CUdeviceptr memory))                                              \
  REQUIRED(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))       \
  REQUIRED(cuMemcpyHtoDAsync_v2,                                                                   \
           (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))                      \
  REQUIRED(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream))      \
  REQUIRED(cuMemcpyDtoDAsync_v2,                                                                   \
           (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))                      \
  REQUIRED(cuMemcpyPeerAsync, (CUdeviceptr to, CUcontext to_context, CUdeviceptr from,             \
                               CUcontext from_context, size_t bytes, CUstream stream))             \
  REQUIRED(cuMemsetD8Async, (CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream))  \
  REQUIRED(cuStreamCreateWithPriority, (CUstream * stream, unsigned flags, int priority))          \
  REQUIRED(cuStreamDestroy_v2, (CUstream stream))                                                  \
  REQUIRED(cuStreamSynchronize, (CUstream stream))                                                 \
  REQUIRED(cuStreamQuery, (CUstream stream))                                                       \
  REQUIRED(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))                    \
  REQUIRED(cuEventCreate, (CUevent * event, unsigned flags))                                       \
  REQUIRED(cuEventDestroy_v2, (CUevent event))                                                     \
  REQUIRED(cuEventRecord, (CUevent event, CUstream stream))                                        \
  REQUIRED(cuEventQuery, (CUevent event))                                                          \
  REQUIRED(cuEventSynchronize, (CUevent event))                                                    \
  OPTIONAL(cuLaunchHostFunc, (CUstream stream, CUhostFn * function, void *context))                \
  OPTIONAL(cuThreadExchangeStreamCaptureMode, (int *mode))                                         \
  OPTIONAL(cuMemAddressReserve, (CUdeviceptr * address, size_t bytes, size_t alignment,            \
                                 CUdeviceptr wanted, unsigned long long flags))                    \
  OPTIONAL(cuMemAddressFree, (CUdeviceptr address, size_t bytes))                                  \
  OPTIONAL(cuMemCreate, (CUmemGenericAllocationHandle * handle, size_t bytes,                      \
                         const CUmemAllocationProp *properties, unsigned long long flags))         \
  OPTIONAL(cuMemRelease, (CUmemGenericAllocationHandle handle))                                    \
  OPTIONAL(cuMemMap, (CUdeviceptr address, size_t bytes, size_t offset,                            \
                      CUmemGenericAllocationHandle handle, unsigned long long flags))              \
  OPTIONAL(cuMemUnmap, (CUdeviceptr address, size_t bytes))                                        \
  OPTIONAL(cuMemSetAccess,                                                                         \
           (CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count))       \
  OPTIONAL(cuMemGetAllocationGranularity,                                                          \
           (size_t * bytes, const CUmemAllocationProp *properties, int option))                    \
  OPTIONAL(cuMemExportToShareableHandle, (void *shareable, CUmemGenericAllocationHandle handle,    \
                                          int type, unsigned long long flags))                     \
  OPTIONAL(cuMemImportFromShareableHandle,                                                         \
           (CUmemGenericAllocationHandle * handle, void *shareable, int type))

#endif

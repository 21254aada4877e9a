// SPDX-License-Identifier: Apache-2.0
// The part of NVML that nereid calls, declared as cuda.h does for CUDA: names, layouts and values
// are those of NVIDIA's nvml.h (12 and 13), exported by libnvidia-ml.so.1.
#ifndef NEREID_GPU_NVML_H
#define NEREID_GPU_NVML_H

#include <stdint.h>

typedef int nvmlReturn_t;
typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct nvmlEventSet_st *nvmlEventSet_t;

// Values of nvmlReturn_t.
typedef enum nvml_result {
  NVML_SUCCESS = 0,
  NVML_ERROR_UNINITIALIZED = 1,
  NVML_ERROR_INVALID_ARGUMENT = 2,
  NVML_ERROR_NOT_SUPPORTED = 3,
  NVML_ERROR_NOT_FOUND = 6,
  NVML_ERROR_NO_PERMISSION = 4,
  NVML_ERROR_DRIVER_NOT_LOADED = 9,
  NVML_ERROR_TIMEOUT = 10,
  NVML_ERROR_GPU_IS_LOST = 15,
  NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
  NVML_ERROR_UNKNOWN = 999,
} nvml_result;

typedef struct nvmlUtilization_t {
  unsigned gpu; // percent
  unsigned memory;
} nvmlUtilization_t;

typedef struct nvmlMemory_v2_t {
  unsigned version;                               // NVML_MEMORY_V2, to be set by the caller
  unsigned long long total, reserved, free, used; // bytes; `used` excludes `reserved`
} nvmlMemory_v2_t;
#define NVML_MEMORY_V2 ((unsigned)(sizeof(nvmlMemory_v2_t) | (2u << 24)))

#define NVML_EVENT_XID   UINT64_C(8)
#define NVML_NO_INSTANCE 0xFFFFFFFFu
typedef struct nvmlEventData_t {
  nvmlDevice_t device;
  unsigned long long eventType;
  unsigned long long eventData; // the Xid's number
  unsigned gpuInstanceId;       // MIG; NVML_NO_INSTANCE: none
  unsigned computeInstanceId;
} nvmlEventData_t;

#define NVML_FUNCTIONS(REQUIRED, OPTIONAL)                                                         \
  REQUIRED(nvmlInit_v2, (void))                                                                    \
  REQUIRED(nvmlShutdown, (void))                                                                   \
  REQUIRED(nvmlSystemGetDriverVersion, (char *version, unsigned size))                             \
  REQUIRED(nvmlDeviceGetCount_v2, (unsigned *count))                                               \
  REQUIRED(nvmlDeviceGetHandleByPciBusId_v2, (const char *id, nvmlDevice_t *device))               \
  REQUIRED(nvmlDeviceGetHandleByUUID, (const char *uuid, nvmlDevice_t *device))                    \
  REQUIRED(nvmlDeviceGetUUID, (nvmlDevice_t device, char *uuid, unsigned size))                    \
  REQUIRED(nvmlDeviceGetName, (nvmlDevice_t device, char *name, unsigned size))                    \
  REQUIRED(nvmlDeviceGetUtilizationRates, (nvmlDevice_t device, nvmlUtilization_t * rates))        \
  OPTIONAL(nvmlDeviceGetMemoryInfo_v2, (nvmlDevice_t device, nvmlMemory_v2_t * memory))            \
  REQUIRED(nvmlDeviceGetPowerUsage, (nvmlDevice_t device, unsigned *milliwatts))                   \
  REQUIRED(nvmlDeviceGetPowerManagementLimit, (nvmlDevice_t device, unsigned *milliwatts))         \
  OPTIONAL(nvmlDeviceGetTotalEnergyConsumption,                                                    \
           (nvmlDevice_t device, unsigned long long *millijoules))                                 \
  OPTIONAL(nvmlDeviceGetMigMode, (nvmlDevice_t device, unsigned *current, unsigned *pending))      \
  OPTIONAL(nvmlDeviceGetGpuInstanceId, (nvmlDevice_t device, unsigned *id))                        \
  REQUIRED(nvmlEventSetCreate, (nvmlEventSet_t * set))                                             \
  REQUIRED(nvmlDeviceRegisterEvents,                                                               \
           (nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set))                    \
  REQUIRED(nvmlEventSetWait_v2,                                                                    \
           (nvmlEventSet_t set, nvmlEventData_t * event, unsigned timeout_ms))                     \
  REQUIRED(nvmlEventSetFree, (nvmlEventSet_t set))

#endif

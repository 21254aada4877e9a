// SPDX-License-Identifier: Apache-2.0
// The GPUs that CUDA shows to this process (after CUDA_VISIBLE_DEVICES). Found once, without making
// a context. Ids are CUDA's ordinals. Values do not change. Any thread.
#ifndef NEREID_GPU_DEVICE_H
#define NEREID_GPU_DEVICE_H

#include "base/error.h"
#include "gpu/cuda.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_GPUS 64

typedef struct gpu_device {
  int ordinal;
  CUdevice handle;
  char name[128];
  char uuid[48];   // "GPU-…", "MIG-…" for a MIG slice
  char pci_id[32]; // "0000:3b:00.0"
  uint64_t memory_bytes;
  int major, minor; // compute capability
  int numa_node;    // of the host; -1: unknown
  bool integrated;
  bool slice; // a MIG slice
  bool virtual_memory;
  bool exports_fds; // virtual memory can be exported as a file descriptor
} gpu_device;

typedef struct gpu_devices {
  size_t count;
  gpu_device items[MAX_GPUS];
} gpu_devices;

// Opens the driver. The first call finds the devices, which live for ever. Without a device (code
// 100), without a driver, or with too old a driver the count is 0, and `*why` (owned by the layer;
// NULL when there are devices) says why. Errors: INTERNAL "unable to get number of CUDA devices:
// <text>".
error *gpu_devices_find(const gpu_devices **devices, const char **why);

// A list without devices. It needs no driver, and lives for ever.
const gpu_devices *gpu_devices_none(void);

// Whether the device's compute capability is at least `minimum` (7.5). As in Triton: greater, or
// less than 0.01 apart.
bool gpu_device_supported(const gpu_device *device, double minimum);

#endif

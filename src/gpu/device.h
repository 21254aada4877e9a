// SPDX-License-Identifier: Apache-2.0
// The GPUs of this machine as CUDA shows them to the process (after CUDA_VISIBLE_DEVICES): found
// once, without making a context on any. Ids are CUDA's ordinals. Values do not change. Any thread.
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
  char uuid[48];   // "GPU-…", of a MIG slice "MIG-…"
  char pci_id[32]; // "0000:3b:00.0"
  uint64_t memory_bytes;
  int major, minor; // compute capability
  int numa_node;    // of the host; -1: not known
  bool integrated;
  bool slice; // of a device with MIG
  bool virtual_memory;
  bool exports_fds; // virtual memory can be handed on as a file descriptor
} gpu_device;

typedef struct gpu_devices {
  size_t count;
  gpu_device items[MAX_GPUS];
} gpu_devices;

// Opens the driver. The first call finds the devices; they live for ever. No device (code 100) is
// no error but a count of 0, as is a machine without a driver or with one that is too old: `*why`
// (owned by the layer; NULL with a device) says then why there are none. Errors: INTERNAL "unable
// to get number of CUDA devices: <text>".
error *gpu_devices_find(const gpu_devices **devices, const char **why);

// Is the device's compute capability at least `minimum` (7.5), which is compared as Triton does:
// greater, or less than 0.01 apart?
bool gpu_device_supported(const gpu_device *device, double minimum);

#endif

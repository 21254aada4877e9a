// SPDX-License-Identifier: Apache-2.0
// Finds the devices, once. Any thread.
#include "gpu/device.h"

#include "base/cleanup.h"
#include "gpu/driver.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_NODE 1000 // larger numbers in the file are not read

typedef enum finding {
  NOT_LOOKED,
  FOUND, // also when there are none
  FAILED,
} finding;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static finding found;
static gpu_devices all;
static gpu_devices none; // nobody writes to it; const data would be in the file
static char reason[512]; // why there are none, or the failure

static void write_uuid(gpu_device *device, const CUuuid *uuid)
{
  int length = snprintf(device->uuid, sizeof(device->uuid), "%s-", device->slice ? "MIG" : "GPU");
  for (size_t i = 0; i < sizeof(uuid->bytes); i++) {
    const char *dash = i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
    length += snprintf(device->uuid + length, sizeof(device->uuid) - (size_t)length, "%s%02x", dash,
                       uuid->bytes[i]);
  }
}

static int attribute(const gpu_driver *driver, CUdevice handle, int which, int otherwise)
{
  int value;
  return driver->cuDeviceGetAttribute(&value, which, handle) == CUDA_SUCCESS ? value : otherwise;
}

// Drivers before CUDA 12.2 do not tell; then the kernel's file may.
static int numa_node(const gpu_driver *driver, const gpu_device *device)
{
  int node = attribute(driver, device->handle, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, -1);
  if (node >= 0)
    return node;
  char path[96];
  int c, known = -1;
  snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/numa_node", device->pci_id);
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return -1;
  while ((c = fgetc(file)) >= '0' && c <= '9' && known < MAX_NODE) // "-1": none
    known = (known < 0 ? 0 : known * 10) + c - '0';
  fclose(file);
  return known;
}

static CUresult describe(const gpu_driver *driver, int ordinal, gpu_device *device)
{
  CUuuid uuid;
  size_t bytes = 0;
  device->ordinal = ordinal;
  CUresult code = driver->cuDeviceGet(&device->handle, ordinal);
  if (code == CUDA_SUCCESS)
    code = driver->cuDeviceGetName(device->name, sizeof(device->name), device->handle);
  if (code == CUDA_SUCCESS)
    code = driver->cuDeviceGetUuid_v2(&uuid, device->handle);
  if (code == CUDA_SUCCESS)
    code = driver->cuDeviceTotalMem_v2(&bytes, device->handle);
  if (code == CUDA_SUCCESS)
    code = driver->cuDeviceGetPCIBusId(device->pci_id, sizeof(device->pci_id), device->handle);
  if (code != CUDA_SUCCESS)
    return code;
  device->slice = strstr(device->name, " MIG ") != NULL; // nothing else in CUDA tells
  write_uuid(device, &uuid);
  device->memory_bytes = bytes;
  for (char *c = device->pci_id; *c != '\0'; c++)
    *c = (char)tolower((unsigned char)*c);
  CUdevice handle = device->handle;
  device->major = attribute(driver, handle, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
  device->minor = attribute(driver, handle, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0);
  device->numa_node = numa_node(driver, device);
  device->integrated = attribute(driver, handle, CU_DEVICE_ATTRIBUTE_INTEGRATED, 0) != 0;
  device->virtual_memory =
      attribute(driver, handle, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0) != 0;
  device->exports_fds =
      device->virtual_memory &&
      attribute(driver, handle, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
                0) != 0;
  return CUDA_SUCCESS;
}

static CUresult describe_all(const gpu_driver *driver)
{
  int count = 0;
  CUresult code = driver->cuDeviceGetCount(&count);
  if (code == CUDA_ERROR_NO_DEVICE)
    return CUDA_SUCCESS;
  for (int i = 0; code == CUDA_SUCCESS && i < count && i < MAX_GPUS; i++) {
    code = describe(driver, i, &all.items[i]);
    if (code == CUDA_SUCCESS)
      all.count++;
  }
  return code;
}

static void find(void)
{
  const gpu_driver *driver;
  AUTO_ERROR error *e = gpu_driver_open(&driver);
  if (e != NULL) {
    snprintf(reason, sizeof(reason), "%s", error_message(e));
    found = error_get_code(e) == ERROR_INTERNAL ? FAILED : FOUND;
    return;
  }
  CUresult code = describe_all(driver);
  found = code == CUDA_SUCCESS ? FOUND : FAILED;
  if (code != CUDA_SUCCESS)
    snprintf(reason, sizeof(reason), "%s (%s)", gpu_error_text(code), gpu_error_name(code));
  else if (all.count == 0)
    snprintf(reason, sizeof(reason), "the NVIDIA driver shows no GPU");
}

error *gpu_devices_find(const gpu_devices **devices, const char **why)
{
  pthread_once(&once, find);
  if (found == FAILED)
    return error_new(ERROR_INTERNAL, "unable to get number of CUDA devices: %s", reason);
  *devices = &all;
  if (why != NULL)
    *why = all.count == 0 ? reason : NULL;
  return NULL;
}

const gpu_devices *gpu_devices_none(void)
{
  return &none;
}

bool gpu_device_supported(const gpu_device *device, double minimum)
{
  double capability = device->major + device->minor / 10.0;
  return capability > minimum || fabs(capability - minimum) < 0.01;
}

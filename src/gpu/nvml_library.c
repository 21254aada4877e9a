// SPDX-License-Identifier: Apache-2.0
// The table of NVML's functions. Any thread; opened once.
#include "gpu/nvml_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

static gpu_nvml table;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static error_code failure_code;
static char failure[256]; // empty: opened

static const char *find_functions(void *library)
{
#define REQUIRED(name, arguments)                                                                  \
  *(void **)&table.name = dlsym(library, #name);                                                   \
  if (table.name == NULL)                                                                          \
    return #name;
#define OPTIONAL(name, arguments) *(void **)&table.name = dlsym(library, #name);
  NVML_FUNCTIONS(REQUIRED, OPTIONAL)
#undef REQUIRED
#undef OPTIONAL
  return NULL;
}

static void open_library(void)
{
  void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    failure_code = ERROR_NOT_FOUND;
    snprintf(failure, sizeof(failure), "no NVML: %s", dlerror());
    return;
  }
  const char *missing = find_functions(library);
  if (missing != NULL) {
    failure_code = ERROR_UNAVAILABLE;
    snprintf(failure, sizeof(failure), "NVML is too old: libnvidia-ml.so.1 has no %s", missing);
  }
}

static const char *text_of(nvmlReturn_t code)
{
  switch (code) {
  case NVML_ERROR_DRIVER_NOT_LOADED:
    return "the NVIDIA driver is not loaded";
  case NVML_ERROR_LIB_RM_VERSION_MISMATCH:
    return "the library is of another version than the driver";
  case NVML_ERROR_NO_PERMISSION:
    return "no permission";
  case NVML_ERROR_GPU_IS_LOST:
    return "a GPU is lost";
  default:
    return "see nvmlReturn_t";
  }
}

error *gpu_nvml_open(const gpu_nvml **nvml)
{
  pthread_once(&once, open_library);
  if (failure[0] != '\0')
    return error_new_text(failure_code, failure);
  nvmlReturn_t code = table.nvmlInit_v2();
  if (code != NVML_SUCCESS)
    return error_new(ERROR_UNAVAILABLE, "NVML does not start: %s (%d)", text_of(code), code);
  *nvml = &table;
  return NULL;
}

void gpu_nvml_close(const gpu_nvml *nvml)
{
  nvml->nvmlShutdown();
}

bool gpu_nvml_find_board(const gpu_nvml *nvml, const gpu_device *device, nvmlDevice_t *found)
{
  return nvml->nvmlDeviceGetHandleByPciBusId_v2(device->pci_id, found) == NVML_SUCCESS;
}

bool gpu_nvml_find(const gpu_nvml *nvml, const gpu_device *device, nvmlDevice_t *found)
{
  if (device->slice)
    return nvml->nvmlDeviceGetHandleByUUID(device->uuid, found) == NVML_SUCCESS;
  return gpu_nvml_find_board(nvml, device, found);
}

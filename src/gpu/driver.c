// SPDX-License-Identifier: Apache-2.0
// The table of the driver's functions. Any thread; opened once.
#include "gpu/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef enum opening {
  NOT_OPENED,
  OPENED,
  FAILED,
} opening;

static gpu_driver table;
static error_code failure_code;
static char failure[512];
static _Atomic opening opened;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fail(error_code code, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void fail(error_code code, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(failure, sizeof(failure), format, arguments);
  va_end(arguments);
  failure_code = code;
  opened = FAILED;
}

// Returns the name of a missing function, or NULL.
static const char *find_functions(void *library)
{
#define REQUIRED(name, arguments)                                                                  \
  *(void **)&table.name = dlsym(library, #name);                                                   \
  if (table.name == NULL)                                                                          \
    return #name;
#define OPTIONAL(name, arguments) *(void **)&table.name = dlsym(library, #name);
  CUDA_FUNCTIONS(REQUIRED, OPTIONAL)
#undef REQUIRED
#undef OPTIONAL
  return NULL;
}

static void open_driver(void)
{
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fail(ERROR_NOT_FOUND, "no NVIDIA driver: %s", dlerror());
    return;
  }
  const char *missing = find_functions(library);
  if (missing != NULL) {
    fail(ERROR_UNAVAILABLE, "the NVIDIA driver is too old: libcuda.so.1 has no %s", missing);
    return;
  }
  CUresult code = table.cuInit(0);
  if (code == CUDA_SUCCESS)
    code = table.cuDriverGetVersion(&table.version);
  if (code == CUDA_SUCCESS)
    opened = OPENED;
  else if (code == CUDA_ERROR_NO_DEVICE || code == CUDA_ERROR_STUB_LIBRARY)
    fail(ERROR_NOT_FOUND, "no GPU: %s", gpu_error_text(code));
  else
    fail(ERROR_INTERNAL, "the NVIDIA driver does not start: %s (%s)", gpu_error_text(code),
         gpu_error_name(code));
}

error *gpu_driver_open(const gpu_driver **driver)
{
  pthread_once(&once, open_driver);
  if (opened != OPENED)
    return error_new_text(failure_code, failure);
  *driver = &table;
  return NULL;
}

const gpu_driver *gpu_driver_opened(void)
{
  return opened == OPENED ? &table : NULL;
}

const char *gpu_error_text(CUresult code)
{
  const char *text;
  if (table.cuGetErrorString == NULL || table.cuGetErrorString(code, &text) != CUDA_SUCCESS)
    return "unrecognized error code";
  return text;
}

const char *gpu_error_name(CUresult code)
{
  const char *name;
  if (table.cuGetErrorName == NULL || table.cuGetErrorName(code, &name) != CUDA_SUCCESS)
    return "unknown";
  return name;
}

// The driver's refusals are faults of the server, not of the client.
static error_code code_of(CUresult code)
{
  switch (code) {
  case CUDA_ERROR_OUT_OF_MEMORY:
    return ERROR_UNAVAILABLE;
  case CUDA_ERROR_NOT_SUPPORTED:
    return ERROR_UNSUPPORTED;
  default:
    return ERROR_INTERNAL;
  }
}

error *gpu_error(CUresult code, const char *what, ...)
{
  char text[256];
  va_list arguments;
  if (code == CUDA_SUCCESS)
    return NULL;
  va_start(arguments, what);
  vsnprintf(text, sizeof(text), what, arguments);
  va_end(arguments);
  return error_new(code_of(code), "%s: %s (%s)", text, gpu_error_text(code), gpu_error_name(code));
}

bool gpu_error_is_sticky(CUresult code)
{
  return code == CUDA_ERROR_ECC_UNCORRECTABLE || code == CUDA_ERROR_NVLINK_UNCORRECTABLE ||
         code == CUDA_ERROR_CONTAINED || code == CUDA_ERROR_ILLEGAL_ADDRESS ||
         code == CUDA_ERROR_LAUNCH_TIMEOUT || code == CUDA_ERROR_ASSERT ||
         (code >= CUDA_ERROR_HARDWARE_STACK_ERROR && code <= CUDA_ERROR_LAUNCH_FAILED) ||
         code == CUDA_ERROR_TENSOR_MEMORY_LEAK || code == CUDA_ERROR_MPS_CLIENT_TERMINATED ||
         code == CUDA_ERROR_EXTERNAL_DEVICE || code == CUDA_ERROR_UNKNOWN;
}

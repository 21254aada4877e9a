// SPDX-License-Identifier: Apache-2.0
// The played driver: its start, devices, primary contexts, the texts of errors.
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

mtx_t fake_lock;
__thread bool fake_in_host_function;

static __thread CUcontext current;
static once_flag once = ONCE_FLAG_INIT;
static pid_t initialised_in;
static struct CUctx_st contexts[FAKE_DEVICES];
static int visible;

// ---- errors ----

static const struct {
  CUresult code;
  const char *name, *text;
} errors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {205, "CUDA_ERROR_MAP_FAILED", "mapping of buffer object failed"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
     "peer access is not supported between these two devices"},
    {220, "CUDA_ERROR_NVLINK_UNCORRECTABLE",
     "uncorrectable NVLink error detected during the execution"},
    {226, "CUDA_ERROR_CONTAINED",
     "Invalid access of peer GPU memory over nvlink or a hardware error"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {702, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
    {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    {705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {710, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {714, "CUDA_ERROR_HARDWARE_STACK_ERROR", "hardware stack error"},
    {715, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction was encountered"},
    {716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {717, "CUDA_ERROR_INVALID_ADDRESS_SPACE",
     "operation not supported on global/shared address space"},
    {718, "CUDA_ERROR_INVALID_PC", "invalid program counter"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {721, "CUDA_ERROR_TENSOR_MEMORY_LEAK", "tensor memory was not freed"},
    {800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     "system has unsupported display driver / cuda driver combination"},
    {810, "CUDA_ERROR_MPS_CLIENT_TERMINATED", "MPS client terminated"},
    {911, "CUDA_ERROR_EXTERNAL_DEVICE",
     "an async error has occurred in external entity outside of CUDA"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static CUresult text_of(CUresult code, const char **name, const char **text)
{
  for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
    if (errors[i].code == code) {
      *(name == NULL ? text : name) = name == NULL ? errors[i].text : errors[i].name;
      return CUDA_SUCCESS;
    }
  }
  *(name == NULL ? text : name) = NULL;
  return CUDA_ERROR_INVALID_VALUE;
}

FAKE_EXPORT CUresult cuGetErrorName(CUresult code, const char **name)
{
  return text_of(code, name, NULL);
}

FAKE_EXPORT CUresult cuGetErrorString(CUresult code, const char **text)
{
  return text_of(code, NULL, text);
}

bool fake_is_sticky(CUresult code)
{
  return code == CUDA_ERROR_ECC_UNCORRECTABLE || code == CUDA_ERROR_NVLINK_UNCORRECTABLE ||
         code == CUDA_ERROR_CONTAINED || code == CUDA_ERROR_ILLEGAL_ADDRESS ||
         code == CUDA_ERROR_LAUNCH_TIMEOUT || code == CUDA_ERROR_ASSERT ||
         (code >= CUDA_ERROR_HARDWARE_STACK_ERROR && code <= CUDA_ERROR_LAUNCH_FAILED) ||
         code == CUDA_ERROR_TENSOR_MEMORY_LEAK || code == CUDA_ERROR_MPS_CLIENT_TERMINATED ||
         code == CUDA_ERROR_EXTERNAL_DEVICE || code == CUDA_ERROR_UNKNOWN;
}

CUresult fake_fail(CUcontext context, CUresult code)
{
  CUresult alive = CUDA_SUCCESS;
  if (context != NULL && fake_is_sticky(code))
    __atomic_compare_exchange_n(&context->dead, &alive, code, false, __ATOMIC_SEQ_CST,
                                __ATOMIC_SEQ_CST);
  return code;
}

// A loop of the server's serves all its clients: it must not call what may take long.
static void refuse_loops(const char *function)
{
  char name[16] = "";
  prctl(PR_GET_NAME, name);
  if (strcmp(name, "http-loop") != 0 && strcmp(name, "grpc-loop") != 0)
    return;
  fprintf(stderr, "the played GPU driver: %s is called on a thread that is a loop\n", function);
  abort();
}

CUresult fake_enter(int call, const char *name, bool initialised, bool context)
{
  CUcontext now = current;
  refuse_loops(name);
  fake_counters()->calls[call]++;
  if (fake_in_host_function)
    return CUDA_ERROR_BUSY;
  if (initialised && initialised_in != getpid())
    return CUDA_ERROR_NOT_INITIALIZED;
  if (context && now == NULL)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (context && __atomic_load_n(&now->held, __ATOMIC_SEQ_CST) == 0)
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (context && __atomic_load_n(&now->dead, __ATOMIC_SEQ_CST) != CUDA_SUCCESS)
    return now->dead;
  const int due = fake_fault_due(name, now == NULL ? -1 : now->index, false);
  return due < 0 ? (CUresult)-due : fake_fail(now, (CUresult)due);
}

// ---- start ----

static void show(int index)
{
  for (int i = 0; i < visible; i++)
    if (contexts[i].index == index)
      return;
  contexts[visible] = (struct CUctx_st){.ordinal = visible, .index = index};
  visible++;
}

// CUDA_VISIBLE_DEVICES: numbers or the beginnings of UUIDs; what is neither ends the list.
static void find_visible(void)
{
  const fake_config *config = fake_config_now();
  const char *list = getenv("CUDA_VISIBLE_DEVICES");
  char copy[1024], *rest = copy, *item;
  if (list == NULL) {
    for (int i = 0; i < config->count; i++)
      show(i);
    return;
  }
  snprintf(copy, sizeof(copy), "%s", list);
  while ((item = strsep(&rest, ",")) != NULL) {
    char *end;
    long index = strtol(item, &end, 10);
    if (*item == '\0' || *end != '\0') {
      index = -1;
      for (int i = 0; i < config->count && *item != '\0'; i++)
        if (strncmp(config->devices[i].uuid, item, strlen(item)) == 0)
          index = i;
    }
    if (index < 0 || index >= config->count)
      return;
    show((int)index);
  }
}

static void start(void)
{
  mtx_init(&fake_lock, mtx_plain);
  find_visible();
}

FAKE_EXPORT CUresult cuInit(unsigned flags)
{
  ENTER(cuInit, false, false);
  if (flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  call_once(&once, start);
  if (visible == 0)
    return CUDA_ERROR_NO_DEVICE;
  if (initialised_in == 0)
    initialised_in = getpid();
  return initialised_in == getpid() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

FAKE_EXPORT CUresult cuDriverGetVersion(int *version)
{
  ENTER(cuDriverGetVersion, false, false);
  *version = fake_config_now()->driver_version;
  return CUDA_SUCCESS;
}

// ---- devices ----

int fake_visible_count(void)
{
  return visible;
}

const fake_device *fake_device_of(int ordinal)
{
  return &fake_config_now()->devices[contexts[ordinal].index];
}

int fake_ordinal_of_index(int index)
{
  for (int i = 0; i < visible; i++)
    if (contexts[i].index == index)
      return i;
  return -1;
}

static bool is_device(CUdevice device)
{
  return device >= FAKE_FIRST_HANDLE && device < FAKE_FIRST_HANDLE + visible;
}

static const fake_device *described(CUdevice device)
{
  return fake_device_of(device - FAKE_FIRST_HANDLE);
}

FAKE_EXPORT CUresult cuDeviceGetCount(int *count)
{
  ENTER(cuDeviceGetCount, true, false);
  *count = visible;
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
  ENTER(cuDeviceGet, true, false);
  if (ordinal < 0 || ordinal >= visible)
    return CUDA_ERROR_INVALID_DEVICE;
  *device = FAKE_FIRST_HANDLE + ordinal;
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
  ENTER(cuDeviceGetName, true, false);
  if (!is_device(device))
    return CUDA_ERROR_INVALID_DEVICE;
  snprintf(name, (size_t)size, "%s", described(device)->name);
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
  ENTER(cuDeviceGetUuid_v2, true, false);
  if (!is_device(device))
    return CUDA_ERROR_INVALID_DEVICE;
  const char *text = strchr(described(device)->uuid, '-');
  memset(uuid, 0, sizeof(*uuid));
  for (size_t i = 0; i < sizeof(uuid->bytes) && text != NULL; i++) {
    text += *text == '-';
    unsigned value;
    if (sscanf(text, "%2x", &value) == 1)
      uuid->bytes[i] = (unsigned char)value;
    text += 2;
  }
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
  ENTER(cuDeviceTotalMem_v2, true, false);
  if (!is_device(device))
    return CUDA_ERROR_INVALID_DEVICE;
  *bytes = described(device)->memory;
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
  unsigned domain = 0, bus = 0, slot = 0;
  ENTER(cuDeviceGetAttribute, true, false);
  if (!is_device(device))
    return CUDA_ERROR_INVALID_DEVICE;
  const fake_device *d = described(device);
  sscanf(d->pci, "%x:%x:%x", &domain, &bus, &slot);
  switch (attribute) {
  case CU_DEVICE_ATTRIBUTE_INTEGRATED:
    *value = d->integrated;
    return CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
    *value = (int)bus;
    return CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
    *value = (int)slot;
    return CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
    *value = (int)domain;
    return CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
    *value = 3;
    return CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    *value = 1;
    return CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
    *value = d->major;
    return CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
    *value = d->minor;
    return CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    *value = d->vmm;
    return CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    *value = d->vmm && d->fds;
    return CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
    *value = d->numa;
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

FAKE_EXPORT CUresult cuDeviceGetPCIBusId(char *id, int size, CUdevice device)
{
  ENTER(cuDeviceGetPCIBusId, true, false);
  if (!is_device(device))
    return CUDA_ERROR_INVALID_DEVICE;
  snprintf(id, (size_t)size, "%s", described(device)->pci);
  return CUDA_SUCCESS;
}

static bool reaches(int ordinal, int peer)
{
  return ordinal != peer && (fake_device_of(ordinal)->peers & 1u << contexts[peer].index) != 0;
}

FAKE_EXPORT CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
  ENTER(cuDeviceCanAccessPeer, true, false);
  if (!is_device(device) || !is_device(peer))
    return CUDA_ERROR_INVALID_DEVICE;
  *can = reaches(device - FAKE_FIRST_HANDLE, peer - FAKE_FIRST_HANDLE);
  return CUDA_SUCCESS;
}

// ---- contexts ----

CUcontext fake_context_of(int ordinal)
{
  return &contexts[ordinal];
}

CUcontext fake_current(void)
{
  return current;
}

static bool is_context(CUcontext context)
{
  return context >= contexts && context < contexts + visible && context->held > 0;
}

FAKE_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
  ENTER(cuDevicePrimaryCtxRetain, true, false);
  if (!is_device(device))
    return CUDA_ERROR_INVALID_DEVICE;
  *context = &contexts[device - FAKE_FIRST_HANDLE];
  mtx_lock(&fake_lock);
  (*context)->held++;
  fake_counters()->contexts[(*context)->index]++;
  mtx_unlock(&fake_lock);
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
  ENTER(cuDevicePrimaryCtxRelease_v2, true, false);
  if (!is_device(device))
    return CUDA_ERROR_INVALID_DEVICE;
  CUcontext context = &contexts[device - FAKE_FIRST_HANDLE];
  mtx_lock(&fake_lock);
  if (context->held == 1)
    fake_wait_for_device(context->ordinal);
  if (context->held == 0) {
    mtx_unlock(&fake_lock);
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  fake_counters()->contexts[context->index]--;
  if (context->held == 1) { // whatever is in it goes
    fake_close_streams(context->ordinal);
    fake_free_all(context);
    context->enabled = 0;
  }
  context->held--;
  mtx_unlock(&fake_lock);
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
  ENTER(cuDevicePrimaryCtxGetState, true, false);
  if (!is_device(device))
    return CUDA_ERROR_INVALID_DEVICE;
  *flags = 0;
  *active = contexts[device - FAKE_FIRST_HANDLE].held > 0;
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuCtxSetCurrent(CUcontext context)
{
  ENTER(cuCtxSetCurrent, true, false);
  if (context != NULL && !is_context(context))
    return CUDA_ERROR_INVALID_CONTEXT;
  current = context;
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuCtxGetCurrent(CUcontext *context)
{
  ENTER(cuCtxGetCurrent, true, false);
  *context = current;
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuCtxSynchronize(void)
{
  ENTER(cuCtxSynchronize, true, true);
  mtx_lock(&fake_lock);
  fake_count(syncs, 1);
  CUresult code = fake_wait_for_device(current->ordinal);
  mtx_unlock(&fake_lock);
  return code;
}

FAKE_EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
  ENTER(cuCtxEnablePeerAccess, true, true);
  if (flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (!is_context(peer))
    return CUDA_ERROR_INVALID_CONTEXT;
  if (!reaches(current->ordinal, peer->ordinal))
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  uint32_t bit = 1u << peer->ordinal;
  uint32_t before = __atomic_fetch_or(&current->enabled, bit, __ATOMIC_SEQ_CST);
  return (before & bit) != 0 ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
  ENTER(cuCtxGetStreamPriorityRange, true, true);
  *least = 0;
  *greatest = -5;
  return CUDA_SUCCESS;
}

// Each row of the table: what is missing does not link.
#define ROW(name, arguments) (void (*)(void)) name,
__attribute__((used)) static void (*const rows[])(void) = {CUDA_FUNCTIONS(ROW, ROW)};

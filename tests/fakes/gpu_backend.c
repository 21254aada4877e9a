// SPDX-License-Identifier: Apache-2.0
// A backend for GPUs as somebody else would write and build it: on the server's ABI and NVIDIA's
// driver alone. It gathers its input into memory of the server's pool on its device and copies the
// output from there, says in the file that the setting `calls` names what each call gave, and asks
// for all that a library built for GPUs asks for. NVIDIA's server loads it, too
// (tests/e2e/gpu/test_gpu_abi_triton.py).
#include "triton/core/tritonbackend.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRY(expression)                                                                            \
  do {                                                                                             \
    TRITONSERVER_Error *try_error = (expression);                                                  \
    if (try_error != NULL)                                                                         \
      return try_error;                                                                            \
  } while (0)

static FILE *calls;
static TRITONBACKEND_MemoryManager *manager;

static bool say(const char *call, TRITONSERVER_Error *error)
{
  fprintf(calls, "%.*s:", (int)strcspn(call, "("), call);
  if (error != NULL)
    fprintf(calls, " %s: %s\n", TRITONSERVER_ErrorCodeString(error),
            TRITONSERVER_ErrorMessage(error));
  TRITONSERVER_ErrorDelete(error);
  return error == NULL;
}

#define SAY(call, ...)                                                                             \
  do {                                                                                             \
    if (say(#call, call)) {                                                                        \
      fprintf(calls, " " __VA_ARGS__);                                                             \
      fputc('\n', calls);                                                                          \
    }                                                                                              \
  } while (0)

// ---- the driver ----

static struct {
  int (*cuInit)(unsigned);
  int (*cuDeviceGet)(int *, int);
  int (*cuDevicePrimaryCtxRetain)(void **, int);
  int (*cuDevicePrimaryCtxRelease_v2)(int);
  int (*cuCtxSetCurrent)(void *);
  int (*cuMemcpyHtoDAsync_v2)(uint64_t, const void *, size_t, void *);
  int (*cuMemcpyDtoHAsync_v2)(void *, uint64_t, size_t, void *);
  int (*cuMemcpyDtoDAsync_v2)(uint64_t, uint64_t, size_t, void *);
  int (*cuStreamSynchronize)(void *);
} driver;

static const char *open_driver(void)
{
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL)
    return "there is no driver";
#define FIND(name)                                                                                 \
  if ((*(void **)&driver.name = dlsym(library, #name)) == NULL)                                    \
    return "the driver lacks " #name;
  FIND(cuInit)
  FIND(cuDeviceGet)
  FIND(cuDevicePrimaryCtxRetain)
  FIND(cuDevicePrimaryCtxRelease_v2)
  FIND(cuCtxSetCurrent)
  FIND(cuMemcpyHtoDAsync_v2)
  FIND(cuMemcpyDtoHAsync_v2)
  FIND(cuMemcpyDtoDAsync_v2)
  FIND(cuStreamSynchronize)
#undef FIND
  return driver.cuInit(0) == 0 ? NULL : "the driver does not start";
}

static TRITONSERVER_Error *copy(void *to, TRITONSERVER_MemoryType to_type, const void *from,
                                TRITONSERVER_MemoryType from_type, size_t size)
{
  int code = 0;
  if (to_type != TRITONSERVER_MEMORY_GPU && from_type != TRITONSERVER_MEMORY_GPU)
    memcpy(to, from, size);
  else if (from_type != TRITONSERVER_MEMORY_GPU)
    code = driver.cuMemcpyHtoDAsync_v2((uintptr_t)to, from, size, NULL);
  else if (to_type != TRITONSERVER_MEMORY_GPU)
    code = driver.cuMemcpyDtoHAsync_v2(to, (uintptr_t)from, size, NULL);
  else
    code = driver.cuMemcpyDtoDAsync_v2((uintptr_t)to, (uintptr_t)from, size, NULL);
  if (code == 0)
    code = driver.cuStreamSynchronize(NULL);
  return code == 0 ? NULL : TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "a copy failed");
}

// ---- the backend ----

TRITONSERVER_Error *TRITONBACKEND_Initialize(TRITONBACKEND_Backend *backend)
{
  TRITONSERVER_Message *message;
  const char *text = NULL;
  size_t size = 0;
  TRY(TRITONBACKEND_BackendConfig(backend, &message));
  TRY(TRITONSERVER_MessageSerializeToJson(message, &text, &size));
  json_t *config = json_loadb(text, size, 0, NULL);
  const json_t *settings = json_object_get(config, "cmdline");
  const char *path = json_string_value(json_object_get(settings, "calls"));
  const char *least = json_string_value(json_object_get(settings, "min-compute-capability"));
  calls = path == NULL ? NULL : fopen(path, "we");
  if (calls == NULL)
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, "the setting 'calls' is missing");
  setlinebuf(calls);
  fprintf(calls, "min-compute-capability: %s\n", least == NULL ? "absent" : least);
  json_decref(config);
  const char *wrong = open_driver();
  if (wrong != NULL)
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, wrong);
  SAY(TRITONBACKEND_BackendSetExecutionPolicy(backend, TRITONBACKEND_EXECUTION_DEVICE_BLOCKING),
      "done");
  SAY(TRITONBACKEND_BackendMemoryManager(backend, &manager), "%d", manager != NULL);
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_Finalize(TRITONBACKEND_Backend *backend)
{
  (void)backend;
  fclose(calls);
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_GetBackendAttribute(TRITONBACKEND_Backend *backend,
                                                      TRITONBACKEND_BackendAttribute *attributes)
{
  (void)backend;
  SAY(TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(
          attributes, TRITONSERVER_INSTANCEGROUPKIND_GPU, 2, NULL, 0),
      "done");
  return NULL;
}

// ---- instances ----

static void say_memory(TRITONSERVER_MemoryType type, int64_t id, uint64_t size)
{
  static const uint64_t pattern = UINT64_C(0x0123456789abcdef);
  uint64_t back = 0;
  void *memory = NULL;
  fprintf(calls, "%s %" PRId64 " %" PRIu64 " ", TRITONSERVER_MemoryTypeString(type), id, size);
  SAY(TRITONBACKEND_MemoryManagerAllocate(manager, &memory, type, id, size), "%d", memory != NULL);
  if (memory == NULL)
    return;
  TRITONSERVER_Error *error = copy(memory, type, &pattern, TRITONSERVER_MEMORY_CPU, 8);
  if (error == NULL)
    error = copy(&back, TRITONSERVER_MEMORY_CPU, memory, type, 8);
  fprintf(calls, "it is %s\n", error == NULL && back == pattern ? "kept" : "lost");
  TRITONSERVER_ErrorDelete(error);
  SAY(TRITONBACKEND_MemoryManagerFree(manager, memory, type, id), "done");
}

static void say_usage(TRITONBACKEND_ModelInstance *instance, int32_t device)
{
  TRITONSERVER_BufferAttributes *usage = NULL;
  char handle[64] = {1};
  void *found = NULL;
  SAY(TRITONSERVER_BufferAttributesNew(&usage), "done");
  SAY(TRITONSERVER_BufferAttributesSetMemoryType(usage, TRITONSERVER_MEMORY_GPU), "done");
  SAY(TRITONSERVER_BufferAttributesSetMemoryTypeId(usage, device), "done");
  SAY(TRITONSERVER_BufferAttributesSetByteSize(usage, 1 << 20), "done");
  SAY(TRITONSERVER_BufferAttributesCudaIpcHandle(usage, &found), "%d", found != NULL);
  SAY(TRITONSERVER_BufferAttributesSetCudaIpcHandle(usage, handle), "done");
  SAY(TRITONSERVER_BufferAttributesCudaIpcHandle(usage, &found), "%d", found != NULL);
  SAY(TRITONBACKEND_ModelInstanceReportMemoryUsage(instance, &usage, 1), "done");
  SAY(TRITONSERVER_BufferAttributesDelete(usage), "done");
}

static void say_secondary_devices(TRITONBACKEND_ModelInstance *instance)
{
  uint32_t count = 0;
  SAY(TRITONBACKEND_ModelInstanceSecondaryDeviceCount(instance, &count), "%u", count);
  for (uint32_t i = 0; i <= count; i++) { // the last one is not there
    const char *kind = NULL;
    int64_t id = -1;
    SAY(TRITONBACKEND_ModelInstanceSecondaryDeviceProperties(instance, i, &kind, &id),
        "%s %" PRId64, kind, id);
  }
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance *instance)
{
  const char *name = NULL, *policy = NULL;
  TRITONSERVER_InstanceGroupKind kind = TRITONSERVER_INSTANCEGROUPKIND_AUTO;
  TRITONSERVER_Message *message = NULL;
  size_t size = 0;
  int32_t device = -1;
  int handle = -1;
  void *context = NULL;
  SAY(TRITONBACKEND_ModelInstanceName(instance, &name), "%s", name);
  SAY(TRITONBACKEND_ModelInstanceKind(instance, &kind), "%s",
      TRITONSERVER_InstanceGroupKindString(kind));
  SAY(TRITONBACKEND_ModelInstanceDeviceId(instance, &device), "%d", device);
  SAY(TRITONBACKEND_ModelInstanceHostPolicy(instance, &message), "of the instance");
  TRY(TRITONSERVER_MessageSerializeToJson(message, &policy, &size));
  fprintf(calls, "policy %.*s\n", (int)size, policy);
  say_secondary_devices(instance);
  if (driver.cuDeviceGet(&handle, device) != 0 ||
      driver.cuDevicePrimaryCtxRetain(&context, handle) != 0 ||
      driver.cuCtxSetCurrent(context) != 0)
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "there is no context");
  TRY(TRITONBACKEND_ModelInstanceSetState(instance, context));
  say_memory(TRITONSERVER_MEMORY_GPU, device, 1 << 20);
  say_memory(TRITONSERVER_MEMORY_GPU, device, UINT64_C(1) << 40);
  say_memory(TRITONSERVER_MEMORY_GPU, 7, 4096);
  say_memory(TRITONSERVER_MEMORY_CPU_PINNED, 0, 4096);
  say_memory(TRITONSERVER_MEMORY_CPU, 0, 4096);
  say_usage(instance, device);
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance *instance)
{
  int32_t device = 0;
  int handle = 0;
  TRY(TRITONBACKEND_ModelInstanceDeviceId(instance, &device));
  driver.cuDeviceGet(&handle, device);
  driver.cuDevicePrimaryCtxRelease_v2(handle);
  return NULL;
}

// ---- executions ----

static void say_attributes(const char *what, TRITONSERVER_BufferAttributes *attributes)
{
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
  int64_t id = -1;
  size_t size = 0;
  void *handle = NULL;
  TRITONSERVER_ErrorDelete(TRITONSERVER_BufferAttributesMemoryType(attributes, &type));
  TRITONSERVER_ErrorDelete(TRITONSERVER_BufferAttributesMemoryTypeId(attributes, &id));
  TRITONSERVER_ErrorDelete(TRITONSERVER_BufferAttributesByteSize(attributes, &size));
  TRITONSERVER_ErrorDelete(TRITONSERVER_BufferAttributesCudaIpcHandle(attributes, &handle));
  fprintf(calls, "%s: %zu bytes in %s %" PRId64 ", handle %d\n", what, size,
          TRITONSERVER_MemoryTypeString(type), id, handle != NULL);
}

static TRITONSERVER_Error *gather(TRITONBACKEND_Input *input, char *to)
{
  uint32_t buffers = 0;
  TRY(TRITONBACKEND_InputProperties(input, NULL, NULL, NULL, NULL, NULL, &buffers));
  for (uint32_t i = 0; i < buffers; i++) {
    const void *data = NULL, *again = NULL;
    uint64_t size = 0;
    TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_GPU;
    int64_t id = 0;
    TRITONSERVER_BufferAttributes *attributes = NULL;
    TRY(TRITONBACKEND_InputBuffer(input, i, &data, &size, &type, &id));
    TRY(TRITONBACKEND_InputBufferAttributes(input, i, &again, &attributes));
    fprintf(calls, "input: %" PRIu64 " bytes in %s, the same %d\n", size,
            TRITONSERVER_MemoryTypeString(type), data == again);
    say_attributes("its attributes", attributes);
    TRY(copy(to, TRITONSERVER_MEMORY_GPU, data, type, size));
    to += size;
  }
  return NULL;
}

static TRITONSERVER_Error *give(TRITONBACKEND_Response *response, TRITONBACKEND_Input *input,
                                const void *from, int32_t device)
{
  TRITONBACKEND_Output *output = NULL;
  TRITONSERVER_DataType datatype;
  const int64_t *dims;
  uint32_t rank;
  uint64_t size;
  void *to = NULL;
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_GPU;
  int64_t id = device;
  TRITONSERVER_BufferAttributes *attributes = NULL;
  TRY(TRITONBACKEND_InputProperties(input, NULL, &datatype, &dims, &rank, &size, NULL));
  TRY(TRITONBACKEND_ResponseOutput(response, &output, "OUTPUT0", datatype, dims, rank));
  TRY(TRITONBACKEND_OutputBuffer(output, &to, size, &type, &id));
  fprintf(calls, "output: in %s\n", type == TRITONSERVER_MEMORY_GPU ? "GPU" : "host memory");
  if (say("TRITONBACKEND_OutputBufferAttributes",
          TRITONBACKEND_OutputBufferAttributes(output, &attributes))) {
    fputc('\n', calls);
    if (type == TRITONSERVER_MEMORY_GPU)
      say_attributes("its attributes", attributes);
  }
  return copy(to, type, from, TRITONSERVER_MEMORY_GPU, size);
}

static void say_state(TRITONBACKEND_Request *request, int32_t device)
{
  TRITONBACKEND_State *state = NULL;
  const int64_t dims[] = {1, 4};
  void *memory = NULL;
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_GPU;
  int64_t id = device;
  TRITONSERVER_BufferAttributes *attributes = NULL;
  SAY(TRITONBACKEND_StateNew(&state, request, "S_OUT", TRITONSERVER_TYPE_FP32, dims, 2), "%d",
      state != NULL);
  if (state == NULL)
    return;
  SAY(TRITONBACKEND_StateBuffer(state, &memory, 16, &type, &id), "%d in %s", memory != NULL,
      TRITONSERVER_MemoryTypeString(type));
  SAY(TRITONBACKEND_StateBufferAttributes(state, &attributes), "done");
  say_attributes("its attributes", attributes);
  const float zeros[4] = {0};
  TRITONSERVER_ErrorDelete(copy(memory, type, zeros, TRITONSERVER_MEMORY_CPU, 16));
  SAY(TRITONBACKEND_StateUpdate(state), "done");
}

static TRITONSERVER_Error *answer(TRITONBACKEND_Request *request, TRITONBACKEND_Response *response,
                                  int32_t device)
{
  TRITONBACKEND_Input *input = NULL;
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_GPU;
  int64_t id = device;
  uint64_t size = 0;
  size_t expected = 0;
  void *gathered = NULL;
  SAY(TRITONBACKEND_RequestOutputBufferProperties(request, "OUTPUT0", &expected, &type, &id), "%s",
      type == TRITONSERVER_MEMORY_GPU ? "GPU" : "host memory");
  TRY(TRITONBACKEND_RequestInput(request, "INPUT0", &input));
  TRY(TRITONBACKEND_InputProperties(input, NULL, NULL, NULL, NULL, &size, NULL));
  TRY(TRITONBACKEND_MemoryManagerAllocate(manager, &gathered, TRITONSERVER_MEMORY_GPU, device,
                                          size));
  TRITONSERVER_Error *error = gather(input, gathered);
  if (error == NULL)
    error = give(response, input, gathered, device);
  TRITONSERVER_ErrorDelete(
      TRITONBACKEND_MemoryManagerFree(manager, gathered, TRITONSERVER_MEMORY_GPU, device));
  say_state(request, device);
  return error;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *instance,
                                                       TRITONBACKEND_Request **requests,
                                                       const uint32_t count)
{
  int32_t device = 0;
  void *context = NULL;
  TRY(TRITONBACKEND_ModelInstanceDeviceId(instance, &device));
  TRY(TRITONBACKEND_ModelInstanceState(instance, &context));
  driver.cuCtxSetCurrent(context);
  for (uint32_t i = 0; i < count; i++) {
    TRITONBACKEND_Response *response = NULL;
    TRITONSERVER_ErrorDelete(TRITONBACKEND_ResponseNew(&response, requests[i]));
    TRITONSERVER_Error *error = answer(requests[i], response, device);
    TRITONSERVER_ErrorDelete(
        TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, error));
    TRITONSERVER_ErrorDelete(error);
    TRITONSERVER_ErrorDelete(TRITONBACKEND_ModelInstanceReportStatistics(
        instance, requests[i], true, 1000, 2000, 3000, 4000));
    TRITONSERVER_ErrorDelete(
        TRITONBACKEND_RequestRelease(requests[i], TRITONSERVER_REQUEST_RELEASE_ALL));
  }
  return NULL;
}

// SPDX-License-Identifier: Apache-2.0
// Makes the calls that NVIDIA's tensorrt backend, and the library that it shares with others, make
// to a server: all of those that docs/backends.md lists, in their order, with what a server without
// a GPU has for them. What came of each is a line of the file that the setting `calls` names. It
// answers each request with its input. As somebody else would build it: NVIDIA's server loads it,
// too (tests/e2e/backends/test_tensorrt_calls_triton.py).
#include "triton/core/tritonbackend.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
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

// A line of the call's function and what it gave, else of its error.
static bool say(const char *call, TRITONSERVER_Error *error)
{
  fprintf(calls, "%.*s:", (int)strcspn(call, "("), call);
  if (error != NULL)
    fprintf(calls, " %s: %s (%d)\n", TRITONSERVER_ErrorCodeString(error),
            TRITONSERVER_ErrorMessage(error), (int)TRITONSERVER_ErrorCode(error));
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

// ---- the backend ----

static json_t *json_of(TRITONSERVER_Message *message)
{
  const char *text = NULL;
  size_t size = 0;
  TRITONSERVER_ErrorDelete(TRITONSERVER_MessageSerializeToJson(message, &text, &size));
  return json_loadb(text, size, 0, NULL);
}

TRITONSERVER_Error *TRITONBACKEND_Initialize(TRITONBACKEND_Backend *backend)
{
  TRITONSERVER_Message *message;
  TRY(TRITONBACKEND_BackendConfig(backend, &message));
  json_t *config = json_of(message);
  const char *path =
      json_string_value(json_object_get(json_object_get(config, "cmdline"), "calls"));
  calls = path == NULL ? NULL : fopen(path, "we");
  json_decref(config);
  if (calls == NULL)
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, "the setting 'calls' is missing");
  setlinebuf(calls);
  const char *name = NULL;
  uint32_t major = 0, minor = 0;
  TRITONBACKEND_ExecutionPolicy policy = TRITONBACKEND_EXECUTION_BLOCKING;
  void *state = NULL;
  TRITONBACKEND_MemoryManager *manager = NULL;
  SAY(TRITONBACKEND_BackendName(backend, &name), "%s", name);
  SAY(TRITONBACKEND_ApiVersion(&major, &minor), "%u.%s", major, minor >= 16 ? "16 or more" : "old");
  SAY(TRITONBACKEND_BackendExecutionPolicy(backend, &policy), "%d", (int)policy);
  SAY(TRITONBACKEND_BackendSetExecutionPolicy(backend, TRITONBACKEND_EXECUTION_DEVICE_BLOCKING),
      "done");
  SAY(TRITONBACKEND_BackendExecutionPolicy(backend, &policy), "%d",
      policy == TRITONBACKEND_EXECUTION_DEVICE_BLOCKING);
  SAY(TRITONBACKEND_BackendSetState(backend, &calls), "done");
  SAY(TRITONBACKEND_BackendState(backend, &state), "%d", state == &calls);
  SAY(TRITONBACKEND_BackendMemoryManager(backend, &manager), "%d", manager != NULL);
  SAY(TRITONSERVER_LogMessage(TRITONSERVER_LOG_INFO, "tensorrt.cc", 1, "calls begin"), "%d",
      TRITONSERVER_LogIsEnabled(TRITONSERVER_LOG_INFO));
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_Finalize(TRITONBACKEND_Backend *backend)
{
  void *state = NULL;
  SAY(TRITONBACKEND_BackendState(backend, &state), "%d at the end", state == &calls);
  fclose(calls);
  return NULL;
}

// ---- memory, of which a server without a GPU has only one kind ----

static void say_usage(TRITONBACKEND_Model *model, TRITONBACKEND_ModelInstance *instance)
{
  TRITONSERVER_BufferAttributes *usage = NULL;
  SAY(TRITONSERVER_BufferAttributesNew(&usage), "done");
  SAY(TRITONSERVER_BufferAttributesSetMemoryType(usage, TRITONSERVER_MEMORY_GPU), "done");
  SAY(TRITONSERVER_BufferAttributesSetMemoryTypeId(usage, 0), "done");
  SAY(TRITONSERVER_BufferAttributesSetByteSize(usage, 1 << 20), "done");
  if (model != NULL)
    SAY(TRITONBACKEND_ModelReportMemoryUsage(model, &usage, 1), "done");
  else
    SAY(TRITONBACKEND_ModelInstanceReportMemoryUsage(instance, &usage, 1), "done");
  SAY(TRITONSERVER_BufferAttributesDelete(usage), "done");
}

static void say_memory(TRITONBACKEND_MemoryManager *manager)
{
  static const TRITONSERVER_MemoryType types[] = {
      TRITONSERVER_MEMORY_GPU, TRITONSERVER_MEMORY_CPU_PINNED, TRITONSERVER_MEMORY_CPU};
  for (size_t i = 0; i < 3; i++) {
    void *buffer = NULL;
    fprintf(calls, "%s ", TRITONSERVER_MemoryTypeString(types[i]));
    SAY(TRITONBACKEND_MemoryManagerAllocate(manager, &buffer, types[i], 0, 4096), "%d",
        buffer != NULL);
    if (buffer == NULL)
      continue;
    memset(buffer, 1, 4096);
    SAY(TRITONBACKEND_MemoryManagerFree(manager, buffer, types[i], 0), "done");
  }
}

// ---- models ----

// What the server shows, completed: another text, so that it can be seen.
static TRITONSERVER_Error *complete(TRITONBACKEND_Model *model)
{
  TRITONSERVER_Message *message = NULL, *completed = NULL;
  bool wanted = false;
  SAY(TRITONBACKEND_ModelAutoCompleteConfig(model, &wanted), "%d", wanted);
  SAY(TRITONBACKEND_ModelConfig(model, 2, &message), "of version 2");
  TRY(TRITONBACKEND_ModelConfig(model, 1, &message));
  json_t *config = json_of(message);
  TRITONSERVER_MessageDelete(message);
  if (json_object_get(config, "sequence_batching") == NULL)
    json_object_set_new(config, "dynamic_batching", json_object());
  char *text = json_dumps(config, 0);
  json_decref(config);
  SAY(TRITONSERVER_MessageNewFromSerializedJson(&completed, text, strlen(text)), "done");
  free(text);
  SAY(TRITONBACKEND_ModelSetConfig(model, 1, completed), "done");
  return TRITONSERVER_MessageDelete(completed);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model *model)
{
  const char *name = NULL, *path = NULL;
  uint64_t version = 0;
  TRITONBACKEND_ArtifactType type = TRITONBACKEND_ARTIFACT_FILESYSTEM;
  TRITONBACKEND_Backend *backend = NULL;
  TRITONSERVER_Server *server = NULL;
  TRITONBACKEND_MemoryManager *manager = NULL;
  void *state = NULL;
  SAY(TRITONBACKEND_ModelName(model, &name), "%s", name);
  SAY(TRITONBACKEND_ModelVersion(model, &version), "%" PRIu64, version);
  SAY(TRITONBACKEND_ModelRepository(model, &type, &path), "%d %s", (int)type,
      strrchr(path, '/') + 1);
  SAY(TRITONBACKEND_ModelServer(model, &server), "%d", server != NULL);
  SAY(TRITONBACKEND_ModelBackend(model, &backend), "%d", backend != NULL);
  SAY(TRITONBACKEND_ModelSetState(model, model), "done");
  SAY(TRITONBACKEND_ModelState(model, &state), "%d", state == model);
  TRY(complete(model));
  TRY(TRITONBACKEND_BackendMemoryManager(backend, &manager));
  say_memory(manager);
  say_usage(model, NULL);
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model *model)
{
  void *state = NULL;
  SAY(TRITONBACKEND_ModelState(model, &state), "%d at the end", state == model);
  return NULL;
}

static void say_group(TRITONBACKEND_ModelInstance *instance)
{
  uint32_t count = 0;
  const char *text = NULL;
  int64_t id = -1;
  SAY(TRITONBACKEND_ModelInstanceProfileCount(instance, &count), "%u", count);
  for (uint32_t i = 0; i <= count; i++)
    SAY(TRITONBACKEND_ModelInstanceProfileName(instance, i, &text), "%s", text);
  SAY(TRITONBACKEND_ModelInstanceSecondaryDeviceCount(instance, &count), "%u", count);
  for (uint32_t i = 0; i <= count; i++)
    SAY(TRITONBACKEND_ModelInstanceSecondaryDeviceProperties(instance, i, &text, &id), "%s %d",
        text, (int)id);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance *instance)
{
  const char *name = NULL;
  TRITONSERVER_InstanceGroupKind kind = TRITONSERVER_INSTANCEGROUPKIND_AUTO;
  int32_t device = -1;
  TRITONSERVER_Message *policy = NULL;
  TRITONBACKEND_Model *model = NULL;
  void *state = NULL;
  SAY(TRITONBACKEND_ModelInstanceName(instance, &name), "%s", name);
  SAY(TRITONBACKEND_ModelInstanceKind(instance, &kind), "%s",
      TRITONSERVER_InstanceGroupKindString(kind));
  SAY(TRITONBACKEND_ModelInstanceDeviceId(instance, &device), "%d", device);
  SAY(TRITONBACKEND_ModelInstanceHostPolicy(instance, &policy), "%d", policy != NULL);
  say_group(instance);
  SAY(TRITONBACKEND_ModelInstanceModel(instance, &model), "%d", model != NULL);
  SAY(TRITONBACKEND_ModelInstanceSetState(instance, instance), "done");
  SAY(TRITONBACKEND_ModelInstanceState(instance, &state), "%d", state == instance);
  say_usage(NULL, instance);
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance *instance)
{
  void *state = NULL;
  SAY(TRITONBACKEND_ModelInstanceState(instance, &state), "%d at the end", state == instance);
  return NULL;
}

// ---- executions ----

// The input's bytes; it is asked for in each way that there is.
static const void *say_input(TRITONBACKEND_Request *request, uint64_t *size)
{
  TRITONBACKEND_Input *input = NULL;
  const char *name = NULL;
  TRITONSERVER_DataType type = TRITONSERVER_TYPE_INVALID;
  const int64_t *dims = NULL;
  uint32_t rank = 0, buffers = 0, count = 0;
  const void *data = NULL;
  TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_GPU;
  int64_t device = 0;
  SAY(TRITONBACKEND_RequestInputCount(request, &count), "%u", count);
  SAY(TRITONBACKEND_RequestInput(request, "absent", &input), "%d", input != NULL);
  SAY(TRITONBACKEND_RequestInputByIndex(request, 7, &input), "%d", input != NULL);
  SAY(TRITONBACKEND_RequestInputByIndex(request, 0, &input), "%d", input != NULL);
  SAY(TRITONBACKEND_RequestInput(request, "X", &input), "%d", input != NULL);
  SAY(TRITONBACKEND_InputProperties(input, &name, &type, &dims, &rank, size, &buffers),
      "%s %s of %u, %u dimensions, %" PRIu64 " bytes in %u", name,
      TRITONSERVER_DataTypeString(type), TRITONSERVER_DataTypeByteSize(type), rank, *size, buffers);
  SAY(TRITONBACKEND_InputPropertiesForHostPolicy(input, "gpu_0", &name, &type, &dims, &rank, size,
                                                 &buffers),
      "%s, %" PRIu64 " bytes in %u", name, *size, buffers);
  SAY(TRITONBACKEND_InputBufferForHostPolicy(input, "gpu_0", 0, &data, size, &memory, &device),
      "%" PRIu64 " bytes in %s %d", *size, TRITONSERVER_MemoryTypeString(memory), (int)device);
  memory = TRITONSERVER_MEMORY_GPU;
  SAY(TRITONBACKEND_InputBuffer(input, 9, &data, size, &memory, &device), "buffer 9");
  SAY(TRITONBACKEND_InputBuffer(input, 0, &data, size, &memory, &device), "%" PRIu64 " bytes in %s",
      *size, TRITONSERVER_MemoryTypeString(memory));
  return data;
}

// Made where a GPU would have it; the server says where it is.
static void say_state(TRITONBACKEND_Request *request)
{
  TRITONBACKEND_State *state = NULL;
  const int64_t dims[] = {1, 2};
  void *buffer = NULL;
  TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_GPU;
  int64_t device = 0;
  SAY(TRITONBACKEND_StateNew(&state, request, "S_OUT", TRITONSERVER_TYPE_FP32, dims, 2), "%d",
      state != NULL);
  if (state == NULL)
    return;
  SAY(TRITONBACKEND_StateBuffer(state, &buffer, 8, &memory, &device), "%d in %s", buffer != NULL,
      TRITONSERVER_MemoryTypeString(memory));
  if (buffer != NULL)
    memset(buffer, 0, 8);
  SAY(TRITONBACKEND_StateUpdate(state), "done");
}

static void answer(TRITONBACKEND_Request *request)
{
  TRITONBACKEND_Response *response = NULL;
  TRITONBACKEND_Output *output = NULL;
  uint32_t count = 0;
  uint64_t size = 0;
  const char *name = NULL, *id = NULL;
  const int64_t dims[] = {1, 2};
  void *buffer = NULL;
  TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_GPU;
  int64_t device = 0;
  SAY(TRITONBACKEND_RequestId(request, &id), "%s", id);
  const void *data = say_input(request, &size);
  SAY(TRITONBACKEND_RequestOutputCount(request, &count), "%u", count);
  SAY(TRITONBACKEND_RequestOutputName(request, 0, &name), "%s", name);
  say_state(request);
  SAY(TRITONBACKEND_ResponseNew(&response, request), "%d", response != NULL);
  SAY(TRITONBACKEND_ResponseOutput(response, &output, "Y", TRITONSERVER_TYPE_FP32, dims, 2), "%d",
      output != NULL);
  SAY(TRITONBACKEND_OutputBuffer(output, &buffer, size, &memory, &device), "%d in %s",
      buffer != NULL, TRITONSERVER_MemoryTypeString(memory));
  if (buffer != NULL && data != NULL)
    memcpy(buffer, data, size);
  SAY(TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, NULL), "done");
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *instance,
                                                       TRITONBACKEND_Request **requests,
                                                       const uint32_t count)
{
  for (uint32_t i = 0; i < count; i++) {
    TRITONBACKEND_ResponseFactory *factory = NULL;
    answer(requests[i]);
    TRITONSERVER_ErrorDelete(TRITONBACKEND_ResponseFactoryNew(&factory, requests[i]));
    SAY(TRITONBACKEND_ResponseFactoryDelete(factory), "done");
    SAY(TRITONBACKEND_ModelInstanceReportStatistics(instance, requests[i], true, 1000, 2000, 3000,
                                                    4000),
        "done");
    SAY(TRITONBACKEND_RequestRelease(requests[i], TRITONSERVER_REQUEST_RELEASE_ALL), "done");
  }
  SAY(TRITONBACKEND_ModelInstanceReportBatchStatistics(instance, count, 1000, 2000, 3000, 4000),
      "done");
  return NULL;
}

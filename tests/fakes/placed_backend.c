// SPDX-License-Identifier: Apache-2.0
// A backend for tests that tells where it is run: each request is answered with facts about its
// execution (PLACED_… below) and (device, copy) of each instance that there is, or, where it has
// three elements, with what the memory manager gave for (type, device, bytes). The setting `policy`
// is the execution policy; as somebody else's, it prefers no instance group. South seam only.
#include "triton/core/tritonbackend.h"

#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define TRY(expression)                                                                            \
  do {                                                                                             \
    TRITONSERVER_Error *try_error = (expression);                                                  \
    if (try_error != NULL)                                                                         \
      return try_error;                                                                            \
  } while (0)

#define MOST_DEVICES   64
#define MOST_INSTANCES 64

enum {
  PLACED_HANDLE,  // the first byte of the input's CUDA handle; -1: it has none
  PLACED_DEVICE,  // of the instance
  PLACED_KIND,    // likewise
  PLACED_NUMBER,  // of the instance, in the order in which they were made
  PLACED_THREAD,  // a number for each thread that has executed
  PLACED_OVERLAP, // other executions on the device meanwhile
  PLACED_CORE,    // that it was run on
  PLACED_FACTS
};

static _Atomic int threads, executing[MOST_DEVICES];
static _Thread_local int thread_number;

static struct {
  pthread_mutex_t lock;
  int made;
  struct placed {
    TRITONBACKEND_ModelInstance *instance; // NULL: none
    int32_t number, device, copy;          // copy: what the instance's name ends with
  } items[MOST_INSTANCES];
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

TRITONSERVER_Error *TRITONBACKEND_Initialize(TRITONBACKEND_Backend *backend)
{
  TRITONSERVER_Message *message;
  const char *text;
  size_t size;
  TRY(TRITONBACKEND_BackendConfig(backend, &message));
  TRY(TRITONSERVER_MessageSerializeToJson(message, &text, &size));
  json_t *config = json_loadb(text, size, 0, NULL);
  const char *policy =
      json_string_value(json_object_get(json_object_get(config, "cmdline"), "policy"));
  bool by_device = policy != NULL && strcmp(policy, "device") == 0;
  json_decref(config);
  return TRITONBACKEND_BackendSetExecutionPolicy(backend,
                                                 by_device ? TRITONBACKEND_EXECUTION_DEVICE_BLOCKING
                                                           : TRITONBACKEND_EXECUTION_BLOCKING);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance *instance)
{
  const char *name;
  struct placed made = {.instance = instance};
  TRY(TRITONBACKEND_ModelInstanceDeviceId(instance, &made.device));
  TRY(TRITONBACKEND_ModelInstanceName(instance, &name));
  made.copy = atoi(strrchr(name, '_') + 1);
  pthread_mutex_lock(&all.lock);
  size_t i = 0;
  while (i < MOST_INSTANCES && all.items[i].instance != NULL)
    i++;
  made.number = all.made++;
  if (i < MOST_INSTANCES)
    all.items[i] = made;
  pthread_mutex_unlock(&all.lock);
  return i < MOST_INSTANCES
             ? TRITONBACKEND_ModelInstanceSetState(instance, &all.items[i])
             : TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "too many instances");
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance *instance)
{
  void *state;
  TRY(TRITONBACKEND_ModelInstanceState(instance, &state));
  pthread_mutex_lock(&all.lock);
  ((struct placed *)state)->instance = NULL;
  pthread_mutex_unlock(&all.lock);
  return NULL;
}

// Writes (device, copy) of each; gives how many numbers that makes.
static size_t list_instances(int32_t list[2 * MOST_INSTANCES])
{
  size_t count = 0;
  pthread_mutex_lock(&all.lock);
  for (size_t i = 0; i < MOST_INSTANCES; i++) {
    if (all.items[i].instance == NULL)
      continue;
    list[count++] = all.items[i].device;
    list[count++] = all.items[i].copy;
  }
  pthread_mutex_unlock(&all.lock);
  return count;
}

// What is there is written to: a GPU's memory only the driver may.
static TRITONSERVER_Error *try_memory(TRITONBACKEND_ModelInstance *instance, const int32_t *wish)
{
  TRITONBACKEND_Model *model;
  TRITONBACKEND_Backend *backend;
  TRITONBACKEND_MemoryManager *manager;
  void *memory = NULL;
  TRITONSERVER_MemoryType type = (TRITONSERVER_MemoryType)wish[0];
  TRY(TRITONBACKEND_ModelInstanceModel(instance, &model));
  TRY(TRITONBACKEND_ModelBackend(model, &backend));
  TRY(TRITONBACKEND_BackendMemoryManager(backend, &manager));
  TRY(TRITONBACKEND_MemoryManagerAllocate(manager, &memory, type, wish[1], (uint64_t)wish[2]));
  if (type != TRITONSERVER_MEMORY_GPU)
    memset(memory, 1, (size_t)wish[2]);
  TRY(TRITONBACKEND_MemoryManagerFree(manager, memory, type, wish[1]));
  if (type == TRITONSERVER_MEMORY_CPU)
    return NULL;
  TRITONSERVER_Error *error = TRITONBACKEND_MemoryManagerFree(manager, &memory, type, wish[1]);
  return error != NULL ? (TRITONSERVER_ErrorDelete(error), NULL)
                       : TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "freed what is not");
}

static TRITONSERVER_Error *find_facts(TRITONBACKEND_ModelInstance *instance,
                                      TRITONBACKEND_Input *input, int32_t facts[PLACED_FACTS])
{
  const void *data;
  void *state, *handle;
  TRITONSERVER_BufferAttributes *attributes;
  TRITONSERVER_InstanceGroupKind kind;
  TRY(TRITONBACKEND_InputBufferAttributes(input, 0, &data, &attributes));
  TRY(TRITONSERVER_BufferAttributesCudaIpcHandle(attributes, &handle));
  TRY(TRITONBACKEND_ModelInstanceDeviceId(instance, &facts[PLACED_DEVICE]));
  TRY(TRITONBACKEND_ModelInstanceKind(instance, &kind));
  TRY(TRITONBACKEND_ModelInstanceState(instance, &state));
  if (thread_number == 0)
    thread_number = atomic_fetch_add(&threads, 1) + 1;
  facts[PLACED_HANDLE] = handle == NULL ? -1 : *(unsigned char *)handle;
  facts[PLACED_CORE] = sched_getcpu();
  facts[PLACED_KIND] = (int32_t)kind;
  facts[PLACED_NUMBER] = ((struct placed *)state)->number;
  facts[PLACED_THREAD] = thread_number;
  return NULL;
}

static TRITONSERVER_Error *answer(TRITONBACKEND_Response *response, const int32_t *facts)
{
  int32_t instances[2 * MOST_INSTANCES];
  const size_t listed = list_instances(instances);
  const int64_t count = PLACED_FACTS + (int64_t)listed;
  TRITONBACKEND_Output *output;
  void *memory;
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
  int64_t id = 0;
  TRY(TRITONBACKEND_ResponseOutput(response, &output, "OUTPUT0", TRITONSERVER_TYPE_INT32, &count,
                                   1));
  TRY(TRITONBACKEND_OutputBuffer(output, &memory, sizeof(int32_t) * (uint64_t)count, &type, &id));
  memcpy(memory, facts, sizeof(int32_t) * PLACED_FACTS);
  memcpy((int32_t *)memory + PLACED_FACTS, instances, sizeof(int32_t) * listed);
  return NULL;
}

static TRITONSERVER_Error *serve(TRITONBACKEND_ModelInstance *instance,
                                 TRITONBACKEND_Request *request, TRITONBACKEND_Response *response,
                                 int overlap)
{
  int32_t facts[PLACED_FACTS] = {0};
  TRITONBACKEND_Input *input;
  const void *data;
  uint64_t size;
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
  int64_t id = 0;
  TRY(TRITONBACKEND_RequestInputByIndex(request, 0, &input));
  TRY(TRITONBACKEND_InputBuffer(input, 0, &data, &size, &type, &id));
  if (size == 3 * sizeof(int32_t))
    TRY(try_memory(instance, data));
  TRY(find_facts(instance, input, facts));
  facts[PLACED_OVERLAP] = overlap;
  return answer(response, facts);
}

static TRITONSERVER_Error *execute(TRITONBACKEND_ModelInstance *instance,
                                   TRITONBACKEND_Request *request, int overlap)
{
  TRITONBACKEND_Response *response;
  TRY(TRITONBACKEND_ResponseNew(&response, request));
  TRITONSERVER_Error *error = serve(instance, request, response, overlap);
  TRY(TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, error));
  TRITONSERVER_ErrorDelete(error);
  return TRITONBACKEND_RequestRelease(request, TRITONSERVER_REQUEST_RELEASE_ALL);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *instance,
                                                       TRITONBACKEND_Request **requests,
                                                       const uint32_t request_count)
{
  int32_t device = 0;
  TRY(TRITONBACKEND_ModelInstanceDeviceId(instance, &device));
  int overlap = atomic_fetch_add(&executing[device % MOST_DEVICES], 1);
  for (uint32_t i = 0; i < request_count; i++)
    TRY(execute(instance, requests[i], overlap));
  atomic_fetch_sub(&executing[device % MOST_DEVICES], 1);
  return NULL;
}

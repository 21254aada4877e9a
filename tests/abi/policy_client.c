// SPDX-License-Identifier: Apache-2.0
// A program that embeds the server through tritonserver.h and sends one request whose input has
// data for host policies:
//   policy_client BACKEND_DIRECTORY REPOSITORY MODEL INPUT COUNT STEP...
// COUNT is the input's shape, its type is INT32. A step is POLICY=VALUE,... (data for a policy;
// without a name: the usual data), or "remove" (of all data). Prints the answer's values, or the
// error of a step, of the submission or of the answer. tests/e2e/backends/test_host_policies.py
// reads this.
#include "plain_memory.h"
#include "server_end.h"
#include "triton/core/tritonserver.h"

#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sem_t answered, released;
static const char *input_name;

static void print_error(TRITONSERVER_Error *failure)
{
  printf("%s: %s\n", TRITONSERVER_ErrorCodeString(failure), TRITONSERVER_ErrorMessage(failure));
}

static void must(TRITONSERVER_Error *failure)
{
  if (failure == NULL)
    return;
  print_error(failure);
  exit(EXIT_FAILURE);
}

// True when it went well.
static bool try(TRITONSERVER_Error *failure)
{
  if (failure != NULL)
    print_error(failure);
  TRITONSERVER_ErrorDelete(failure);
  return failure == NULL;
}

static void print_values(TRITONSERVER_InferenceResponse *response)
{
  const char *name;
  TRITONSERVER_DataType datatype;
  const int64_t *shape;
  uint64_t dim_count;
  const void *data;
  size_t size;
  TRITONSERVER_MemoryType memory_type;
  int64_t memory_id;
  void *context;
  must(TRITONSERVER_InferenceResponseOutput(response, 0, &name, &datatype, &shape, &dim_count,
                                            &data, &size, &memory_type, &memory_id, &context));
  for (size_t i = 0; i < size / sizeof(int32_t); i++) {
    int32_t value;
    memcpy(&value, (const char *)data + i * sizeof(value), sizeof(value));
    printf(i == 0 ? "%d" : ",%d", (int)value);
  }
  printf("\n");
}

static void on_answer(TRITONSERVER_InferenceResponse *response, const uint32_t flags, void *context)
{
  (void)context;
  if (response != NULL) {
    if (try(TRITONSERVER_InferenceResponseError(response)))
      print_values(response);
    must(TRITONSERVER_InferenceResponseDelete(response));
  }
  if ((flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) != 0)
    sem_post(&answered);
}

static void on_release(TRITONSERVER_InferenceRequest *request, const uint32_t flags, void *context)
{
  (void)request, (void)flags, (void)context;
  sem_post(&released);
}

static TRITONSERVER_Server *start_server(char **arguments)
{
  TRITONSERVER_ServerOptions *options;
  TRITONSERVER_Server *server;
  must(TRITONSERVER_ServerOptionsNew(&options));
  must(TRITONSERVER_ServerOptionsSetBackendDirectory(options, arguments[1]));
  must(TRITONSERVER_ServerOptionsSetModelRepositoryPath(options, arguments[2]));
  must(TRITONSERVER_ServerOptionsSetModelControlMode(options, TRITONSERVER_MODEL_CONTROL_EXPLICIT));
  must(TRITONSERVER_ServerOptionsSetStartupModel(options, arguments[3]));
  must(TRITONSERVER_ServerOptionsSetStrictModelConfig(options, true));
  must(TRITONSERVER_ServerOptionsSetLogInfo(options, false));
  must(TRITONSERVER_ServerNew(&server, options));
  must(TRITONSERVER_ServerOptionsDelete(options));
  return server;
}

// `values` has room for the values of all steps.
static bool take_step(TRITONSERVER_InferenceRequest *request, char *step, int32_t *values)
{
  if (strcmp(step, "remove") == 0)
    return try(TRITONSERVER_InferenceRequestRemoveAllInputData(request, input_name));
  char *at = strchr(step, '=');
  size_t count = 0;
  *at++ = '\0';
  for (char *rest; *at != '\0'; at = *rest == ',' ? rest + 1 : rest)
    values[count++] = (int32_t)strtol(at, &rest, 10);
  size_t size = count * sizeof(*values);
  if (*step == '\0')
    return try(TRITONSERVER_InferenceRequestAppendInputData(request, input_name, values, size,
                                                            TRITONSERVER_MEMORY_CPU, 0));
  return try(TRITONSERVER_InferenceRequestAppendInputDataWithHostPolicy(
      request, input_name, values, size, TRITONSERVER_MEMORY_CPU, 0, step));
}

int main(int argc, char **argv)
{
  if (argc < 6)
    return EXIT_FAILURE;
  enum {
    ROOM = 16
  };
  TRITONSERVER_InferenceRequest *request;
  TRITONSERVER_ResponseAllocator *allocator;
  int64_t count = strtol(argv[5], NULL, 10);
  int32_t(*values)[ROOM] = calloc((size_t)argc, sizeof(*values));
  bool good = values != NULL;
  input_name = argv[4];
  sem_init(&answered, 0, 0);
  sem_init(&released, 0, 0);
  must(TRITONSERVER_ResponseAllocatorNew(&allocator, allocate, give_back, NULL));
  TRITONSERVER_Server *server = start_server(argv);
  must(TRITONSERVER_InferenceRequestNew(&request, server, argv[3], -1));
  must(TRITONSERVER_InferenceRequestAddInput(request, input_name, TRITONSERVER_TYPE_INT32, &count,
                                             1));
  must(TRITONSERVER_InferenceRequestSetReleaseCallback(request, on_release, NULL));
  must(TRITONSERVER_InferenceRequestSetResponseCallback(request, allocator, NULL, on_answer, NULL));
  for (int i = 6; i < argc && good; i++)
    good = take_step(request, argv[i], values[i]);
  if (good && try(TRITONSERVER_ServerInferAsync(server, request, NULL))) {
    sem_wait(&answered);
    sem_wait(&released);
  }
  must(TRITONSERVER_InferenceRequestDelete(request));
  must(end_server(server));
  must(TRITONSERVER_ResponseAllocatorDelete(allocator));
  free(values);
  return EXIT_SUCCESS;
}

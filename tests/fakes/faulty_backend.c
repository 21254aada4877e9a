// A backend that does what no backend should: libtriton_faulty.so, for tests only. The model's
// parameter `fault` says what; the request's parameter of the same name overrides it, so that one
// model shows many faults. South seam only.
#include "triton/core/tritonbackend.h"

#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct faulty_model {
  char fault[64];
} faulty_model;

static TRITONSERVER_Error *fail(const char *what)
{
  char text[128];
  snprintf(text, sizeof(text), "faulty backend: %s", what);
  return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, text);
}

static void check(TRITONSERVER_Error *e)
{
  TRITONSERVER_ErrorDelete(
      e); // its own mistakes are what is tested: what the server says of them is not kept
}

static TRITONSERVER_Error *read_fault(TRITONBACKEND_Model *model, char *fault, size_t room)
{
  TRITONSERVER_Message *message;
  const char *config;
  size_t size;
  TRITONSERVER_Error *e = TRITONBACKEND_ModelConfig(model, 1, &message);
  if (e != NULL)
    return e;
  e = TRITONSERVER_MessageSerializeToJson(message, &config, &size);
  json_t *root = e == NULL ? json_loadb(config, size, 0, NULL) : NULL;
  const char *value = json_string_value(json_object_get(
      json_object_get(json_object_get(root, "parameters"), "fault"), "string_value"));
  snprintf(fault, room, "%s", value == NULL ? "" : value);
  json_decref(root);
  check(TRITONSERVER_MessageDelete(message));
  return e;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model *model)
{
  faulty_model *state = calloc(1, sizeof(*state));
  TRITONSERVER_Error *e = read_fault(model, state->fault, sizeof(state->fault));
  if (e == NULL && strcmp(state->fault, "model_initialize") == 0)
    e = fail("model_initialize");
  if (e == NULL)
    return TRITONBACKEND_ModelSetState(model, state);
  free(state);
  return e;
}

TRITONSERVER_Error *TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model *model)
{
  void *state;
  check(TRITONBACKEND_ModelState(model, &state));
  bool failing = strcmp(((faulty_model *)state)->fault, "model_finalize") == 0;
  free(state);
  return failing ? fail("model_finalize") : NULL;
}

static faulty_model *model_of(TRITONBACKEND_ModelInstance *instance)
{
  TRITONBACKEND_Model *model;
  void *state;
  check(TRITONBACKEND_ModelInstanceModel(instance, &model));
  check(TRITONBACKEND_ModelState(model, &state));
  return state;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance *instance)
{
  const char *fault = model_of(instance)->fault;
  const char *name;
  check(TRITONBACKEND_ModelInstanceName(instance, &name));
  if (strcmp(fault, "instance_initialize") == 0)
    return fail("instance_initialize");
  if (strcmp(fault, "second_instance_initialize") == 0 && strstr(name, "_1") != NULL)
    return fail("second_instance_initialize");
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance *instance)
{
  return strcmp(model_of(instance)->fault, "instance_finalize") == 0 ? fail("instance_finalize")
                                                                     : NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReady(TRITONBACKEND_ModelInstance *instance)
{
  return strcmp(model_of(instance)->fault, "not_ready") == 0 ? fail("not_ready") : NULL;
}

// An answer with one output Y of INT32 [1] = 7.
static void add_good_output(TRITONBACKEND_Response *response, const char *name)
{
  TRITONBACKEND_Output *output = NULL;
  TRITONSERVER_MemoryType memory_type = TRITONSERVER_MEMORY_CPU;
  int64_t memory_type_id = 0;
  void *buffer = NULL;
  check(TRITONBACKEND_ResponseOutput(response, &output, name, TRITONSERVER_TYPE_INT32,
                                     (int64_t[]){1}, 1));
  if (output != NULL)
    check(TRITONBACKEND_OutputBuffer(output, &buffer, sizeof(int32_t), &memory_type,
                                     &memory_type_id));
  if (buffer != NULL)
    memcpy(buffer, &(int32_t){7}, sizeof(int32_t));
}

static void send_good(TRITONBACKEND_Response *response, uint32_t flags)
{
  add_good_output(response, "Y");
  check(TRITONBACKEND_ResponseSend(response, flags, NULL));
}

static void *answer_late(void *factory)
{
  TRITONBACKEND_Response *response;
  nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
  check(TRITONBACKEND_ResponseNewFromFactory(&response, factory));
  send_good(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL);
  check(TRITONBACKEND_ResponseFactoryDelete(factory));
  return NULL;
}

static void start_late(TRITONBACKEND_Request *request)
{
  TRITONBACKEND_ResponseFactory *factory;
  pthread_t thread;
  check(TRITONBACKEND_ResponseFactoryNew(&factory, request));
  if (pthread_create(&thread, NULL, answer_late, factory) == 0)
    pthread_detach(thread);
}

static void *race_for_the_final_answer(void *factory)
{
  TRITONBACKEND_Response *response;
  check(TRITONBACKEND_ResponseNewFromFactory(&response, factory));
  send_good(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL);
  return NULL;
}

static void answer_from_eight_threads(TRITONBACKEND_Request *request)
{
  TRITONBACKEND_ResponseFactory *factory;
  pthread_t threads[8];
  check(TRITONBACKEND_ResponseFactoryNew(&factory, request));
  for (int i = 0; i < 8; i++)
    pthread_create(&threads[i], NULL, race_for_the_final_answer, factory);
  for (int i = 0; i < 8; i++)
    pthread_join(threads[i], NULL);
  check(TRITONBACKEND_ResponseFactoryDelete(factory));
}

static void answer(TRITONBACKEND_Request *request, const char *fault)
{
  TRITONBACKEND_Response *response;
  if (strcmp(fault, "no_response") == 0)
    return;
  if (strcmp(fault, "late") == 0) {
    start_late(request);
    return;
  }
  if (strcmp(fault, "eight_threads") == 0) {
    answer_from_eight_threads(request);
    return;
  }
  TRITONSERVER_Error *none = TRITONBACKEND_ResponseNew(&response, request);
  if (none != NULL) { // the server answers in its place
    check(none);
    return;
  }
  if (strcmp(fault, "response_deleted") == 0) {
    check(TRITONBACKEND_ResponseDelete(response));
  } else if (strcmp(fault, "double_final") == 0) {
    TRITONBACKEND_Response *second;
    check(TRITONBACKEND_ResponseNew(&second, request));
    send_good(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL);
    send_good(second, TRITONSERVER_RESPONSE_COMPLETE_FINAL);
  } else if (strcmp(fault, "not_final") == 0) {
    send_good(response, 0);
  } else if (strcmp(fault, "unknown_output") == 0) {
    add_good_output(response, "NOT_AN_OUTPUT");
    send_good(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL);
  } else if (strcmp(fault, "output_twice") == 0) {
    add_good_output(response, "Y");
    send_good(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL);
  } else if (strcmp(fault, "no_outputs") == 0) {
    check(TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, NULL));
  } else if (strcmp(fault, "error_response") == 0) {
    TRITONSERVER_Error *e = fail("error_response");
    check(TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, e));
    TRITONSERVER_ErrorDelete(e);
  } else {
    send_good(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL);
  }
}

static const char *fault_of(TRITONBACKEND_Request *request, const char *otherwise)
{
  uint32_t count = 0;
  check(TRITONBACKEND_RequestParameterCount(request, &count));
  for (uint32_t i = 0; i < count; i++) {
    const char *key;
    TRITONSERVER_ParameterType type;
    const void *value;
    check(TRITONBACKEND_RequestParameter(request, i, &key, &type, &value));
    if (strcmp(key, "fault") == 0 && type == TRITONSERVER_PARAMETER_STRING)
      return value;
  }
  return otherwise;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *instance,
                                                       TRITONBACKEND_Request **requests,
                                                       const uint32_t request_count)
{
  const char *model_fault = model_of(instance)->fault;
  for (uint32_t i = 0; i < request_count; i++) {
    if (strcmp(fault_of(requests[i], model_fault), "execute_error") == 0)
      return fail("execute_error");
  }
  for (uint32_t i = 0; i < request_count; i++) {
    answer(requests[i], fault_of(requests[i], model_fault));
    check(TRITONBACKEND_RequestRelease(requests[i], TRITONSERVER_REQUEST_RELEASE_ALL));
  }
  return NULL;
}

// SPDX-License-Identifier: Apache-2.0
// A backend that does what no backend should: libtriton_faulty.so, for tests only. The model's
// parameter `fault` says what; the request's parameter of the same name overrides it, so that one
// model shows many faults (faulty_answers.c). What is wrong with the backend as a whole comes from
// the environment variable FAULTY_BACKEND. South seam only.
#include "faulty.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define check faulty_ignore

typedef struct faulty_model {
  char fault[64];
} faulty_model;

static bool is(const char *fault, const char *name)
{
  return strcmp(fault, name) == 0;
}

// ---- the backend ----

static bool backend_is(const char *name)
{
  const char *fault = getenv("FAULTY_BACKEND");
  return fault != NULL && is(fault, name);
}

TRITONSERVER_Error *TRITONBACKEND_Initialize(TRITONBACKEND_Backend *backend)
{
  (void)backend;
  return backend_is("initialize") ? faulty_error("initialize") : NULL;
}

TRITONSERVER_Error *TRITONBACKEND_Finalize(TRITONBACKEND_Backend *backend)
{
  (void)backend;
  return backend_is("finalize") || backend_is("attribute") ? faulty_error("finalize") : NULL;
}

TRITONSERVER_Error *TRITONBACKEND_GetBackendAttribute(TRITONBACKEND_Backend *backend,
                                                      TRITONBACKEND_BackendAttribute *attributes)
{
  (void)backend;
  if (backend_is("attribute"))
    return faulty_error("attribute");
  if (backend_is("attribute_kind"))
    return TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(
        attributes, (TRITONSERVER_InstanceGroupKind)99, 1, NULL, 0);
  if (backend_is("attribute_count"))
    return TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(
        attributes, TRITONSERVER_INSTANCEGROUPKIND_CPU, UINT64_MAX, NULL, 0);
  return NULL;
}

// ---- models ----

static bool read_fault(const char *config, size_t size, char *fault, size_t room)
{
  json_t *root = json_loadb(config, size, 0, NULL);
  if (root == NULL)
    return false;
  const char *value = json_string_value(json_object_get(
      json_object_get(json_object_get(root, "parameters"), "fault"), "string_value"));
  snprintf(fault, room, "%s", value == NULL ? "" : value);
  json_decref(root);
  return true;
}

// Configurations that a model gives itself.
static const struct {
  const char *fault;
  const char *config;
} configurations[] = {
    {"config_no_json", "max_batch_size: 1"},
    {"config_empty", ""},
    {"config_unknown_field", "{\"no_such_field\":1}"},
    {"config_negative_batch", "{\"max_batch_size\":-1}"},
    {"config_wrong_kind", "{\"max_batch_size\":\"many\"}"},
    {"config_no_dims", "{\"input\":[{\"name\":\"X\",\"data_type\":\"TYPE_INT32\"}]}"},
    {"config_same_names", "{\"input\":[{\"name\":\"X\",\"data_type\":\"TYPE_INT32\",\"dims\":[1]},"
                          "{\"name\":\"X\",\"data_type\":\"TYPE_INT32\",\"dims\":[1]}]}"},
    {"config_no_tensors", "{}"},
};

static TRITONSERVER_Error *set_config(TRITONBACKEND_Model *model, const char *text,
                                      uint32_t version)
{
  TRITONSERVER_Message *message;
  check(TRITONSERVER_MessageNewFromSerializedJson(&message, text, strlen(text)));
  TRITONSERVER_Error *e = TRITONBACKEND_ModelSetConfig(model, version, message);
  check(TRITONSERVER_MessageDelete(message));
  return e;
}

static TRITONSERVER_Error *initialize(TRITONBACKEND_Model *model, const char *fault)
{
  if (is(fault, "model_initialize"))
    return faulty_error("model_initialize");
  if (is(fault, "config_version"))
    return set_config(model, "{}", 2);
  for (size_t n = 0; n < sizeof(configurations) / sizeof(configurations[0]); n++)
    if (is(fault, configurations[n].fault))
      return set_config(model, configurations[n].config, 1);
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model *model)
{
  TRITONSERVER_Message *message;
  const char *text;
  size_t size;
  TRITONSERVER_Error *e = TRITONBACKEND_ModelConfig(model, 1, &message);
  if (e != NULL)
    return e;
  e = TRITONSERVER_MessageSerializeToJson(message, &text, &size);
  faulty_model *state = calloc(1, sizeof(*state));
  if (e == NULL && !read_fault(text, size, state->fault, sizeof(state->fault)))
    e = faulty_error("no memory");
  check(TRITONSERVER_MessageDelete(message));
  if (e == NULL)
    e = initialize(model, state->fault);
  if (e == NULL)
    return TRITONBACKEND_ModelSetState(model, state);
  free(state);
  return e;
}

TRITONSERVER_Error *TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model *model)
{
  void *state;
  check(TRITONBACKEND_ModelState(model, &state));
  bool failing = is(((faulty_model *)state)->fault, "model_finalize");
  if (is(((faulty_model *)state)->fault, "slow_model_finalize"))
    nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
  free(state);
  return failing ? faulty_error("model_finalize") : NULL;
}

// ---- instances ----

static const char *fault_of_model(TRITONBACKEND_ModelInstance *instance)
{
  TRITONBACKEND_Model *model;
  void *state;
  check(TRITONBACKEND_ModelInstanceModel(instance, &model));
  check(TRITONBACKEND_ModelState(model, &state));
  return ((faulty_model *)state)->fault;
}

static TRITONSERVER_BufferAttributes *usage_of(TRITONSERVER_MemoryType type, int64_t id,
                                               size_t bytes)
{
  TRITONSERVER_BufferAttributes *usage;
  check(TRITONSERVER_BufferAttributesNew(&usage));
  check(TRITONSERVER_BufferAttributesSetMemoryType(usage, type));
  check(TRITONSERVER_BufferAttributesSetMemoryTypeId(usage, id));
  check(TRITONSERVER_BufferAttributesSetByteSize(usage, bytes));
  return usage;
}

// The last word of the model, which is said twice, and of the instance counts.
static void report_memory(TRITONBACKEND_ModelInstance *instance)
{
  TRITONBACKEND_Model *model;
  TRITONSERVER_BufferAttributes *of_model[] = {usage_of(TRITONSERVER_MEMORY_GPU, 1, 64),
                                               usage_of(TRITONSERVER_MEMORY_CPU, 0, 1000)};
  TRITONSERVER_BufferAttributes *of_instance[] = {usage_of(TRITONSERVER_MEMORY_CPU, 0, 500000000),
                                                  usage_of(TRITONSERVER_MEMORY_CPU_PINNED, 0, 7)};
  check(TRITONBACKEND_ModelInstanceModel(instance, &model));
  for (int n = 0; n < 2; n++)
    check(TRITONBACKEND_ModelReportMemoryUsage(model, of_model, 2));
  check(TRITONBACKEND_ModelInstanceReportMemoryUsage(instance, of_instance, 2));
  for (int n = 0; n < 2; n++) {
    check(TRITONSERVER_BufferAttributesDelete(of_model[n]));
    check(TRITONSERVER_BufferAttributesDelete(of_instance[n]));
  }
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance *instance)
{
  const char *fault = fault_of_model(instance);
  const char *name;
  check(TRITONBACKEND_ModelInstanceName(instance, &name));
  if (is(fault, "instance_initialize"))
    return faulty_error("instance_initialize");
  if (is(fault, "second_instance_initialize") && strstr(name, "_1") != NULL)
    return faulty_error("second_instance_initialize");
  if (is(fault, "reports_memory"))
    report_memory(instance);
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance *instance)
{
  return is(fault_of_model(instance), "instance_finalize") ? faulty_error("instance_finalize")
                                                           : NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReady(TRITONBACKEND_ModelInstance *instance)
{
  if (is(fault_of_model(instance), "slow_to_say_ready"))
    nanosleep(&(struct timespec){.tv_sec = 3}, NULL);
  return is(fault_of_model(instance), "not_ready") ? faulty_error("not_ready") : NULL;
}

// ---- requests ----

static const faulty_answer *fault_of(TRITONBACKEND_Request *request, const char *otherwise)
{
  uint32_t count = 0;
  check(TRITONBACKEND_RequestParameterCount(request, &count));
  for (uint32_t i = 0; i < count; i++) {
    const char *key;
    TRITONSERVER_ParameterType type;
    const void *value;
    check(TRITONBACKEND_RequestParameter(request, i, &key, &type, &value));
    if (is(key, "fault") && type == TRITONSERVER_PARAMETER_STRING)
      otherwise = value;
  }
  return faulty_find(otherwise);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *instance,
                                                       TRITONBACKEND_Request **requests,
                                                       const uint32_t request_count)
{
  const char *model_fault = fault_of_model(instance);
  const char *error = NULL;
  for (uint32_t i = 0; i < request_count; i++) {
    const faulty_answer *row = fault_of(requests[i], model_fault);
    row->answer(instance, requests[i]);
    if (row->release == RELEASE_AFTER)
      check(TRITONBACKEND_RequestRelease(requests[i], TRITONSERVER_REQUEST_RELEASE_ALL));
    if (row->execute_error != NULL)
      error = row->execute_error;
    requests[i] = NULL; // the array is the backend's: Triton's own backends do this
  }
  return error == NULL ? NULL : faulty_error(error);
}

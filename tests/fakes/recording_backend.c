// SPDX-License-Identifier: Apache-2.0
// A backend as somebody else would write it, which answers nothing and records what it is given in
// the file that the model's parameter CALLS names: what the configuration says of batches, its
// instances, and the shapes of the requests of each execution.
#include "triton/core/tritonbackend.h"

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

static void record_config(FILE *calls, const json_t *config)
{
  const json_t *input = json_array_get(json_object_get(config, "input"), 0);
  const char *const keys[] = {"batch_input", "batch_output"};
  for (size_t i = 0; i < 2; i++) {
    char *text = json_dumps(json_object_get(config, keys[i]), JSON_SORT_KEYS);
    fprintf(calls, "%s %s\n", keys[i], text == NULL ? "-" : text);
    free(text);
  }
  fprintf(calls, "ragged %d\n", json_is_true(json_object_get(input, "allow_ragged_batch")));
}

TRITONSERVER_Error *TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model *model)
{
  TRITONSERVER_Message *message;
  const char *text;
  size_t size;
  TRY(TRITONBACKEND_ModelConfig(model, 1, &message));
  TRY(TRITONSERVER_MessageSerializeToJson(message, &text, &size));
  json_t *config = json_loadb(text, size, 0, NULL);
  TRITONSERVER_MessageDelete(message);
  const json_t *parameter = json_object_get(json_object_get(config, "parameters"), "CALLS");
  const char *path = json_string_value(json_object_get(parameter, "string_value"));
  FILE *calls = path == NULL ? NULL : fopen(path, "we");
  if (calls != NULL) {
    setlinebuf(calls);
    record_config(calls, config);
  }
  json_decref(config);
  return calls == NULL ? TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, "CALLS is missing")
                       : TRITONBACKEND_ModelSetState(model, calls);
}

TRITONSERVER_Error *TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model *model)
{
  void *calls;
  TRY(TRITONBACKEND_ModelState(model, &calls));
  fclose(calls);
  return NULL;
}

static TRITONSERVER_Error *begin_line(TRITONBACKEND_ModelInstance *instance, const char *what,
                                      FILE **calls)
{
  TRITONBACKEND_Model *model;
  void *state;
  const char *name;
  bool passive;
  TRY(TRITONBACKEND_ModelInstanceModel(instance, &model));
  TRY(TRITONBACKEND_ModelState(model, &state));
  TRY(TRITONBACKEND_ModelInstanceName(instance, &name));
  TRY(TRITONBACKEND_ModelInstanceIsPassive(instance, &passive));
  *calls = state;
  fprintf(*calls, "%s %s %s", what, name, passive ? "passive" : "active");
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance *instance)
{
  FILE *calls;
  TRY(begin_line(instance, "initialize", &calls));
  fputc('\n', calls);
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance *instance)
{
  FILE *calls;
  TRY(begin_line(instance, "finalize", &calls));
  fputc('\n', calls);
  return NULL;
}

static TRITONSERVER_Error *record_shape(TRITONBACKEND_Request *request, FILE *calls)
{
  TRITONBACKEND_Input *input;
  const int64_t *dims;
  uint32_t rank;
  TRY(TRITONBACKEND_RequestInputByIndex(request, 0, &input));
  TRY(TRITONBACKEND_InputProperties(input, NULL, NULL, &dims, &rank, NULL, NULL));
  for (uint32_t i = 0; i < rank; i++)
    fprintf(calls, "%c%" PRId64, i == 0 ? ' ' : ',', dims[i]);
  return NULL;
}

static TRITONSERVER_Error *answer(TRITONBACKEND_Request *request)
{
  TRITONBACKEND_Response *response;
  TRY(TRITONBACKEND_ResponseNew(&response, request));
  TRY(TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, NULL));
  return TRITONBACKEND_RequestRelease(request, TRITONSERVER_REQUEST_RELEASE_ALL);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *instance,
                                                       TRITONBACKEND_Request **requests,
                                                       const uint32_t count)
{
  FILE *calls;
  TRY(begin_line(instance, "execute", &calls));
  for (uint32_t i = 0; i < count; i++)
    TRITONSERVER_ErrorDelete(record_shape(requests[i], calls));
  fputc('\n', calls);
  for (uint32_t i = 0; i < count; i++)
    TRITONSERVER_ErrorDelete(answer(requests[i]));
  return NULL;
}

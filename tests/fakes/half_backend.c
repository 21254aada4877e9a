// SPDX-License-Identifier: Apache-2.0
// A backend as somebody else would write it, which fills half of what it is given: OUTPUT0 is the
// first half of INPUT0, the rest is left as it was. It writes where its model's parameter `into`
// says: "cpu", "pinned" or "gpu" (0), as far as the server gives that, and tells in the response's
// parameter `in` what it was given. With the state of a configuration (STATE_IN, STATE_OUT) half of
// that is written there too, of INPUT0's size, and OUTPUT0 is what STATE_IN was. South seam only.
#include "stateful_device.h"
#include "triton/core/tritonbackend.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES 65536

typedef struct settings {
  TRITONSERVER_MemoryType into;
  bool has_state;
} settings;

#define TRY(call)                                                                                  \
  do {                                                                                             \
    TRITONSERVER_Error *try_error = (call);                                                        \
    if (try_error != NULL)                                                                         \
      return try_error;                                                                            \
  } while (0)

static TRITONSERVER_Error *refuse(const char *text)
{
  return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, text);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model *model)
{
  TRITONSERVER_Message *message;
  const char *text;
  size_t size;
  settings *s = calloc(1, sizeof(*s));
  TRY(TRITONBACKEND_ModelConfig(model, 1, &message));
  TRY(TRITONSERVER_MessageSerializeToJson(message, &text, &size));
  json_t *config = json_loadb(text, size, 0, NULL);
  const json_t *into = json_object_get(json_object_get(config, "parameters"), "into");
  const char *where = json_string_value(json_object_get(into, "string_value"));
  if (where != NULL)
    s->into = strcmp(where, "gpu") == 0      ? TRITONSERVER_MEMORY_GPU
              : strcmp(where, "pinned") == 0 ? TRITONSERVER_MEMORY_CPU_PINNED
                                             : TRITONSERVER_MEMORY_CPU;
  s->has_state =
      json_array_size(json_object_get(json_object_get(config, "sequence_batching"), "state")) > 0;
  json_decref(config);
  TRY(TRITONSERVER_MessageDelete(message));
  return TRITONBACKEND_ModelSetState(model, s);
}

TRITONSERVER_Error *TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model *model)
{
  void *s;
  TRY(TRITONBACKEND_ModelState(model, &s));
  free(s);
  return NULL;
}

static TRITONSERVER_Error *read_input(TRITONBACKEND_Request *request, const char *name, char *data,
                                      uint64_t *size)
{
  TRITONBACKEND_Input *input;
  const void *buffer;
  uint32_t buffers;
  uint64_t at = 0, part;
  TRY(TRITONBACKEND_RequestInput(request, name, &input));
  TRY(TRITONBACKEND_InputProperties(input, NULL, NULL, NULL, NULL, size, &buffers));
  if (*size > MOST_BYTES)
    return refuse("the input is too long");
  for (uint32_t i = 0; i < buffers; i++, at += part) {
    TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
    int64_t id = 0;
    TRY(TRITONBACKEND_InputBuffer(input, i, &buffer, &part, &type, &id));
    if (type != TRITONSERVER_MEMORY_GPU)
      memcpy(data + at, buffer, part);
    else if (!copy_from_gpu(data + at, buffer, part))
      return refuse("no copy from the GPU");
  }
  return NULL;
}

static TRITONSERVER_Error *write_half(void *to, TRITONSERVER_MemoryType type, const char *data,
                                      uint64_t size)
{
  if (type != TRITONSERVER_MEMORY_GPU)
    memcpy(to, data, size / 2);
  else if (!copy_to_gpu(to, data, size / 2))
    return refuse("no copy to the GPU");
  return NULL;
}

static TRITONSERVER_Error *write_state(const settings *s, TRITONBACKEND_Request *request,
                                       const char *data, uint64_t size)
{
  const int64_t shape[] = {(int64_t)size / 4};
  TRITONBACKEND_State *state;
  TRITONSERVER_MemoryType type = s->into;
  int64_t id = 0;
  void *to;
  TRY(TRITONBACKEND_StateNew(&state, request, "STATE_OUT", TRITONSERVER_TYPE_FP32, shape, 1));
  TRY(TRITONBACKEND_StateBuffer(state, &to, size, &type, &id));
  TRY(write_half(to, type, data, size));
  return TRITONBACKEND_StateUpdate(state);
}

static TRITONSERVER_Error *write_output(const settings *s, TRITONBACKEND_Response *response,
                                        TRITONBACKEND_Input *like, const char *data, uint64_t size)
{
  const int64_t *shape;
  uint32_t rank;
  TRITONBACKEND_Output *output;
  TRITONSERVER_MemoryType type = s->into;
  int64_t id = 0;
  void *to;
  TRY(TRITONBACKEND_InputProperties(like, NULL, NULL, &shape, &rank, NULL, NULL));
  TRY(TRITONBACKEND_ResponseOutput(response, &output, "OUTPUT0", TRITONSERVER_TYPE_FP32, shape,
                                   rank));
  TRY(TRITONBACKEND_OutputBuffer(output, &to, size, &type, &id));
  TRY(TRITONBACKEND_ResponseSetStringParameter(response, "in",
                                               TRITONSERVER_MemoryTypeString(type)));
  // a state is told whole
  return write_half(to, type, data, s->has_state ? 2 * size : size);
}

static TRITONSERVER_Error *answer(const settings *s, TRITONBACKEND_Request *request,
                                  TRITONBACKEND_Response *response)
{
  char data[MOST_BYTES], last[MOST_BYTES];
  uint64_t size, last_size;
  TRITONBACKEND_Input *like;
  TRY(TRITONBACKEND_RequestInput(request, s->has_state ? "STATE_IN" : "INPUT0", &like));
  TRY(read_input(request, "INPUT0", data, &size));
  if (!s->has_state)
    return write_output(s, response, like, data, size);
  TRY(read_input(request, "STATE_IN", last, &last_size));
  TRY(write_output(s, response, like, last, last_size));
  return write_state(s, request, data, size);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *instance,
                                                       TRITONBACKEND_Request **requests,
                                                       const uint32_t request_count)
{
  TRITONBACKEND_Model *model;
  void *s;
  TRY(TRITONBACKEND_ModelInstanceModel(instance, &model));
  TRY(TRITONBACKEND_ModelState(model, &s));
  for (uint32_t i = 0; i < request_count; i++) {
    TRITONBACKEND_Response *response;
    TRY(TRITONBACKEND_ResponseNew(&response, requests[i]));
    TRITONSERVER_Error *e = answer(s, requests[i], response);
    TRY(TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, e));
    TRITONSERVER_ErrorDelete(e);
    TRY(TRITONBACKEND_RequestRelease(requests[i], TRITONSERVER_REQUEST_RELEASE_ALL));
  }
  return NULL;
}

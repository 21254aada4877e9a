// SPDX-License-Identifier: Apache-2.0
// A backend with implicit state for tests: libtriton_stateful.so, which Triton loads, too. It adds
// up: for the state of the configuration (one, INT32 or BYTES), OUTPUT is the next state. The
// request's parameters say how:
//   do       "add" (as without): each element plus the sum of INPUT; "grow": INPUT behind the
//   state;
//            "keep": OUTPUT is the state, which is not written; "lose": written, not updated;
//            "unknown": another state's name
//   until    the request is released with RESCHEDULE while the sum is less; a decoupled model
//   answers
//            each time
//   gpu      the state is written on this one
//   delay_us before it is released with RESCHEDULE
// Parameters of the response say what came: `flags`, `correlation`, `inputs` (names, sorted);
// with `gpu` the kind and the address of the state's memory: `from`, `from_at`, `to`, `to_at`.
// South seam only.
#include "stateful_device.h"
#include "triton/core/tritonbackend.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_RANK 8

// What the configuration says.
typedef struct settings {
  char input_state[64], output_state[64]; // "": none
  bool decoupled;
} settings;

typedef struct tensor {
  TRITONSERVER_DataType datatype;
  int64_t shape[MAX_RANK];
  uint32_t rank;
  size_t size;
  char *data; // owned
  TRITONSERVER_MemoryType from;
  const void *from_at;
} tensor;

typedef struct course {
  char way[16];
  int64_t until, delay_us, gpu; // gpu -1: none
  int64_t told[4];              // of the state: from, from_at, to, to_at
} course;

#define TRY(call)                                                                                  \
  do {                                                                                             \
    TRITONSERVER_Error *try_error = (call);                                                        \
    if (try_error != NULL)                                                                         \
      return try_error;                                                                            \
  } while (0)

static void check(TRITONSERVER_Error *e)
{
  if (e == NULL)
    return;
  fprintf(stderr, "stateful: %s\n", TRITONSERVER_ErrorMessage(e));
  TRITONSERVER_ErrorDelete(e);
}

static void *allocate(size_t size)
{
  void *memory = calloc(1, size + 1);
  if (memory == NULL)
    abort();
  return memory;
}

// ---- the model ----

static void read_config(const char *text, size_t size, settings *s)
{
  json_t *config = json_loadb(text, size, 0, NULL);
  const json_t *batching = json_object_get(config, "sequence_batching");
  const json_t *state = json_array_get(json_object_get(batching, "state"), 0);
  const json_t *policy = json_object_get(config, "model_transaction_policy");
  const char *input = json_string_value(json_object_get(state, "input_name"));
  const char *output = json_string_value(json_object_get(state, "output_name"));
  snprintf(s->input_state, sizeof(s->input_state), "%s", input == NULL ? "" : input);
  snprintf(s->output_state, sizeof(s->output_state), "%s", output == NULL ? "" : output);
  s->decoupled = json_is_true(json_object_get(policy, "decoupled"));
  json_decref(config);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model *model)
{
  TRITONSERVER_Message *message;
  const char *text;
  size_t size;
  TRY(TRITONBACKEND_ModelConfig(model, 1, &message));
  TRY(TRITONSERVER_MessageSerializeToJson(message, &text, &size));
  settings *s = allocate(sizeof(*s));
  read_config(text, size, s);
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

// ---- what comes ----

static TRITONSERVER_Error *read_course(TRITONBACKEND_Request *request, course *c)
{
  uint32_t count;
  *c = (course){.way = "add", .gpu = -1};
  TRY(TRITONBACKEND_RequestParameterCount(request, &count));
  for (uint32_t i = 0; i < count; i++) {
    const char *key;
    TRITONSERVER_ParameterType type;
    const void *value;
    TRY(TRITONBACKEND_RequestParameter(request, i, &key, &type, &value));
    if (type == TRITONSERVER_PARAMETER_STRING && strcmp(key, "do") == 0)
      snprintf(c->way, sizeof(c->way), "%s", (const char *)value);
    if (type == TRITONSERVER_PARAMETER_INT && strcmp(key, "until") == 0)
      c->until = *(const int64_t *)value;
    if (type == TRITONSERVER_PARAMETER_INT && strcmp(key, "gpu") == 0)
      c->gpu = *(const int64_t *)value;
    if (type == TRITONSERVER_PARAMETER_INT && strcmp(key, "delay_us") == 0)
      c->delay_us = *(const int64_t *)value;
  }
  return NULL;
}

// The caller frees t->data, also after an error.
static TRITONSERVER_Error *read_input(TRITONBACKEND_Request *request, const char *name, tensor *t)
{
  TRITONBACKEND_Input *input;
  const int64_t *shape;
  uint64_t size;
  uint32_t buffers;
  TRY(TRITONBACKEND_RequestInput(request, name, &input));
  TRY(TRITONBACKEND_InputProperties(input, NULL, &t->datatype, &shape, &t->rank, &size, &buffers));
  if (t->rank > MAX_RANK)
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, "too many dimensions");
  memcpy(t->shape, shape, t->rank * sizeof(*shape));
  t->data = allocate(size);
  for (uint32_t i = 0; i < buffers; i++) {
    const void *data;
    TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
    int64_t id = 0;
    TRY(TRITONBACKEND_InputBuffer(input, i, &data, &size, &type, &id));
    if (type != TRITONSERVER_MEMORY_GPU)
      memcpy(t->data + t->size, data, size);
    else if (!copy_from_gpu(t->data + t->size, data, size))
      return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "no copy from the GPU");
    t->from = type;
    t->from_at = data;
    t->size += size;
  }
  return NULL;
}

static int compare(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static TRITONSERVER_Error *tell_places(const course *c, TRITONBACKEND_Response *response)
{
  static const char *const names[] = {"from", "from_at", "to", "to_at"};
  for (int i = 0; c->gpu >= 0 && i < 4; i++)
    TRY(TRITONBACKEND_ResponseSetIntParameter(response, names[i], c->told[i]));
  return NULL;
}

static TRITONSERVER_Error *tell(TRITONBACKEND_Request *request, TRITONBACKEND_Response *response)
{
  uint32_t flags, count;
  uint64_t correlation = 0;
  const char *names[16];
  char list[256] = "";
  TRY(TRITONBACKEND_RequestFlags(request, &flags));
  check(TRITONBACKEND_RequestCorrelationId(request, &correlation));
  TRY(TRITONBACKEND_RequestInputCount(request, &count));
  for (uint32_t i = 0; i < count && i < 16; i++)
    TRY(TRITONBACKEND_RequestInputName(request, i, &names[i]));
  qsort(names, count < 16 ? count : 16, sizeof(*names), compare);
  for (uint32_t i = 0; i < count && i < 16; i++) {
    size_t length = strlen(list);
    snprintf(list + length, sizeof(list) - length, "%s%s", i > 0 ? " " : "", names[i]);
  }
  TRY(TRITONBACKEND_ResponseSetIntParameter(response, "flags", flags));
  TRY(TRITONBACKEND_ResponseSetIntParameter(response, "correlation", (int64_t)correlation));
  return TRITONBACKEND_ResponseSetStringParameter(response, "inputs", list);
}

// ---- what goes ----

static int32_t sum(const tensor *t)
{
  int32_t total = 0, one;
  for (size_t at = 0; at + sizeof(one) <= t->size; at += sizeof(one)) {
    memcpy(&one, t->data + at, sizeof(one));
    total += one;
  }
  return total;
}

// The next state. The caller frees its data.
static void compute(const course *c, const tensor *input, const tensor *state, tensor *next)
{
  bool grows = strcmp(c->way, "grow") == 0;
  *next = *state;
  next->size = state->size + (grows ? input->size : 0);
  next->data = allocate(next->size);
  memcpy(next->data, state->data, state->size);
  if (grows) {
    memcpy(next->data + state->size, input->data, input->size);
    next->shape[next->rank - 1] += input->shape[input->rank - 1];
  } else if (strcmp(c->way, "keep") != 0) {
    const int32_t more = sum(input);
    for (size_t at = 0; at + sizeof(more) <= next->size; at += sizeof(more)) {
      int32_t one;
      memcpy(&one, next->data + at, sizeof(one));
      one += more;
      memcpy(next->data + at, &one, sizeof(one));
    }
  }
}

static TRITONSERVER_Error *write_state(TRITONBACKEND_Request *request, const settings *s, course *c,
                                       const tensor *next)
{
  TRITONBACKEND_State *state;
  TRITONSERVER_BufferAttributes *attributes;
  TRITONSERVER_MemoryType type = c->gpu < 0 ? TRITONSERVER_MEMORY_CPU : TRITONSERVER_MEMORY_GPU;
  TRITONSERVER_MemoryType told;
  int64_t id = c->gpu < 0 ? 0 : c->gpu, told_id;
  void *buffer;
  size_t size;
  bool unknown = strcmp(c->way, "unknown") == 0;
  if (strcmp(c->way, "keep") == 0 || (s->output_state[0] == '\0' && !unknown))
    return NULL;
  TRY(TRITONBACKEND_StateNew(&state, request, unknown ? "undefined_state" : s->output_state,
                             next->datatype, next->shape, next->rank));
  TRY(TRITONBACKEND_StateBuffer(state, &buffer, next->size, &type, &id));
  TRY(TRITONBACKEND_StateBufferAttributes(state, &attributes));
  TRY(TRITONSERVER_BufferAttributesByteSize(attributes, &size));
  TRY(TRITONSERVER_BufferAttributesMemoryType(attributes, &told));
  TRY(TRITONSERVER_BufferAttributesMemoryTypeId(attributes, &told_id));
  if (size != next->size || told != type || told_id != id)
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "the state's buffer is of no use");
  c->told[2] = type;
  c->told[3] = (int64_t)(intptr_t)buffer;
  if (type != TRITONSERVER_MEMORY_GPU)
    memcpy(buffer, next->data, next->size);
  else if (!copy_to_gpu(buffer, next->data, next->size))
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "no copy to the GPU");
  return strcmp(c->way, "lose") == 0 ? NULL : TRITONBACKEND_StateUpdate(state);
}

static TRITONSERVER_Error *write_output(TRITONBACKEND_Request *request, const course *c,
                                        TRITONBACKEND_Response *response, const tensor *t)
{
  TRITONBACKEND_Output *output;
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
  int64_t id = 0;
  void *buffer;
  TRY(tell(request, response));
  TRY(tell_places(c, response));
  TRY(TRITONBACKEND_ResponseOutput(response, &output, "OUTPUT", t->datatype, t->shape, t->rank));
  TRY(TRITONBACKEND_OutputBuffer(output, &buffer, t->size, &type, &id));
  memcpy(buffer, t->data, t->size);
  return NULL;
}

// `failure` is the caller's.
static void answer(TRITONBACKEND_Request *request, const course *c, const tensor *next,
                   uint32_t flags, TRITONSERVER_Error *failure)
{
  TRITONBACKEND_Response *response = NULL;
  check(TRITONBACKEND_ResponseNew(&response, request));
  if (response == NULL)
    return; // the release of a request without an answer is one
  TRITONSERVER_Error *e = failure == NULL ? write_output(request, c, response, next) : NULL;
  check(TRITONBACKEND_ResponseSend(response, flags, failure != NULL ? failure : e));
  if (e != NULL)
    TRITONSERVER_ErrorDelete(e);
}

// ---- requests ----

static TRITONSERVER_Error *advance(TRITONBACKEND_Request *request, const settings *s, course *c,
                                   tensor *next)
{
  tensor input = {0}, state = {0};
  TRITONSERVER_Error *e = read_course(request, c);
  if (e == NULL)
    e = read_input(request, "INPUT", &input);
  if (e == NULL && s->input_state[0] != '\0')
    e = read_input(request, s->input_state, &state);
  c->told[0] = state.from;
  c->told[1] = (int64_t)(intptr_t)state.from_at;
  if (e == NULL)
    compute(c, &input, s->input_state[0] != '\0' ? &state : &input, next);
  if (e == NULL)
    e = write_state(request, s, c, next);
  free(input.data);
  free(state.data);
  return e;
}

static uint64_t now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

// A refusal of RESCHEDULE is the request's answer.
static void reschedule(TRITONBACKEND_Request *request, const course *c)
{
  struct timespec pause = {.tv_sec = c->delay_us / 1000000,
                           .tv_nsec = c->delay_us % 1000000 * 1000};
  if (c->delay_us > 0)
    nanosleep(&pause, NULL);
  TRITONSERVER_Error *e =
      TRITONBACKEND_RequestRelease(request, TRITONSERVER_REQUEST_RELEASE_RESCHEDULE);
  if (e == NULL)
    return;
  answer(request, c, NULL, TRITONSERVER_RESPONSE_COMPLETE_FINAL, e);
  TRITONSERVER_ErrorDelete(e);
  check(TRITONBACKEND_RequestRelease(request, TRITONSERVER_REQUEST_RELEASE_ALL));
}

static void execute(TRITONBACKEND_ModelInstance *instance, const settings *s,
                    TRITONBACKEND_Request *request)
{
  course c;
  tensor next = {0};
  uint64_t begin = now_ns();
  TRITONSERVER_Error *e = advance(request, s, &c, &next);
  bool again = e == NULL && c.until > 0 && sum(&next) < c.until;
  if (!again || s->decoupled)
    answer(request, &c, &next, again ? 0 : TRITONSERVER_RESPONSE_COMPLETE_FINAL, e);
  uint64_t end = now_ns();
  check(TRITONBACKEND_ModelInstanceReportStatistics(instance, request, e == NULL, begin, begin, end,
                                                    end));
  if (again)
    reschedule(request, &c);
  else
    check(TRITONBACKEND_RequestRelease(request, TRITONSERVER_REQUEST_RELEASE_ALL));
  if (e != NULL)
    TRITONSERVER_ErrorDelete(e);
  free(next.data);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *instance,
                                                       TRITONBACKEND_Request **requests,
                                                       const uint32_t request_count)
{
  TRITONBACKEND_Model *model;
  void *s;
  uint64_t begin = now_ns();
  TRY(TRITONBACKEND_ModelInstanceModel(instance, &model));
  TRY(TRITONBACKEND_ModelState(model, &s));
  for (uint32_t i = 0; i < request_count; i++)
    execute(instance, s, requests[i]);
  uint64_t end = now_ns();
  check(TRITONBACKEND_ModelInstanceReportBatchStatistics(instance, request_count, begin, begin, end,
                                                         end));
  return NULL;
}

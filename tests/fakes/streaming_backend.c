// SPDX-License-Identifier: Apache-2.0
// A decoupled backend for tests: libtriton_streaming.so. The request's parameters say how it
// answers, so that one model shows every course:
//   count     responses (1); each repeats INPUT into OUTPUT
//   delay_us  before each response
//   bytes     OUTPUT is one string of so many bytes instead
//   fail_at   the response of this index is an error (-1: none)
//   early     true: the request is released before the first response, which comes from a thread
//   final     "flag": FINAL comes alone; "with": with the last response; "never": nobody sends it
//   deaf      true: cancellation is not looked at
// The log says of each request "streaming: began <count>" and then "streaming: sent <n> of <count>,
// cancelled <0|1>". South seam only.
#include "triton/core/tritonbackend.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define INPUT_MAX_BYTES 65536

typedef struct course {
  TRITONBACKEND_ModelInstance *instance;
  TRITONBACKEND_ResponseFactory *factory;
  int64_t count, delay_us, bytes, fail_at;
  bool early, deaf;
  char final[16];
  TRITONSERVER_DataType datatype;
  int64_t shape[8];
  uint32_t shape_count;
  size_t input_size;
  char input[INPUT_MAX_BYTES];
} course;

static void check(TRITONSERVER_Error *e)
{
  if (e == NULL)
    return;
  fprintf(stderr, "streaming: %s\n", TRITONSERVER_ErrorMessage(e));
  TRITONSERVER_ErrorDelete(e);
}

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
  char line[96];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof(line), format, arguments);
  va_end(arguments);
  check(TRITONSERVER_LogMessage(TRITONSERVER_LOG_INFO, __FILE_NAME__, __LINE__, line));
}

// ---- what the request asks for ----

static void read_parameters(TRITONBACKEND_Request *request, course *c)
{
  uint32_t count;
  check(TRITONBACKEND_RequestParameterCount(request, &count));
  for (uint32_t i = 0; i < count; i++) {
    const char *key;
    TRITONSERVER_ParameterType type;
    const void *value;
    check(TRITONBACKEND_RequestParameter(request, i, &key, &type, &value));
    if (type == TRITONSERVER_PARAMETER_STRING && strcmp(key, "final") == 0)
      snprintf(c->final, sizeof(c->final), "%s", (const char *)value);
    if (type == TRITONSERVER_PARAMETER_BOOL && strcmp(key, "early") == 0)
      c->early = *(const bool *)value;
    if (type == TRITONSERVER_PARAMETER_BOOL && strcmp(key, "deaf") == 0)
      c->deaf = *(const bool *)value;
    if (type != TRITONSERVER_PARAMETER_INT)
      continue;
    int64_t *number = strcmp(key, "count") == 0      ? &c->count
                      : strcmp(key, "delay_us") == 0 ? &c->delay_us
                      : strcmp(key, "bytes") == 0    ? &c->bytes
                      : strcmp(key, "fail_at") == 0  ? &c->fail_at
                                                     : NULL;
    if (number != NULL)
      *number = *(const int64_t *)value;
  }
}

static void read_input(TRITONBACKEND_Request *request, course *c)
{
  TRITONBACKEND_Input *input;
  const int64_t *shape;
  uint64_t byte_size;
  uint32_t buffers;
  check(TRITONBACKEND_RequestInput(request, "INPUT", &input));
  check(TRITONBACKEND_InputProperties(input, NULL, &c->datatype, &shape, &c->shape_count,
                                      &byte_size, &buffers));
  memcpy(c->shape, shape, c->shape_count * sizeof(*shape));
  for (uint32_t i = 0; i < buffers; i++) {
    const void *data;
    uint64_t size;
    TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
    int64_t id = 0;
    check(TRITONBACKEND_InputBuffer(input, i, &data, &size, &type, &id));
    if (size > sizeof(c->input) - c->input_size)
      size = sizeof(c->input) - c->input_size;
    memcpy(c->input + c->input_size, data, size);
    c->input_size += size;
  }
}

// ---- answers ----

static TRITONSERVER_Error *fill_output(course *c, TRITONBACKEND_Response *response)
{
  TRITONBACKEND_Output *output;
  void *buffer = NULL;
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
  int64_t id = 0;
  const int64_t one = 1;
  bool own = c->bytes > 0;
  size_t size = own ? (size_t)c->bytes + 4 : c->input_size;
  TRITONSERVER_Error *e = TRITONBACKEND_ResponseOutput(
      response, &output, "OUTPUT", c->datatype, own ? &one : c->shape, own ? 1 : c->shape_count);
  if (e == NULL)
    e = TRITONBACKEND_OutputBuffer(output, &buffer, size, &type, &id);
  if (e != NULL)
    return e;
  if (!own) {
    memcpy(buffer, c->input, size);
    return NULL;
  }
  uint32_t length = (uint32_t)c->bytes;
  memcpy(buffer, &length, 4);
  memset((char *)buffer + 4, 'x', length);
  return NULL;
}

static uint64_t now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

// `output_ns` is 0 when there was no output.
static void report(course *c, uint64_t start_ns, uint64_t output_ns, TRITONSERVER_Error *failure)
{
  TRITONBACKEND_ModelInstanceResponseStatistics *r = NULL;
  check(TRITONBACKEND_ModelInstanceResponseStatisticsNew(&r));
  if (r == NULL)
    return;
  check(TRITONBACKEND_ModelInstanceResponseStatisticsSetModelInstance(r, c->instance));
  check(TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseFactory(r, c->factory));
  check(TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseStart(r, start_ns));
  check(TRITONBACKEND_ModelInstanceResponseStatisticsSetComputeOutputStart(r, output_ns));
  check(TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseEnd(r, now_ns()));
  check(TRITONBACKEND_ModelInstanceResponseStatisticsSetError(r, failure));
  check(TRITONBACKEND_ModelInstanceReportResponseStatistics(r));
  check(TRITONBACKEND_ModelInstanceResponseStatisticsDelete(r));
}

// False: there is no memory for it.
static bool send_one(course *c, int64_t index)
{
  uint64_t start = now_ns();
  TRITONBACKEND_Response *response = NULL;
  bool last = index + 1 == c->count && strcmp(c->final, "with") == 0;
  TRITONSERVER_Error *failure =
      index == c->fail_at
          ? TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "as was asked for")
          : NULL;
  check(TRITONBACKEND_ResponseNewFromFactory(&response, c->factory));
  if (response == NULL) {
    TRITONSERVER_ErrorDelete(failure);
    return false;
  }
  if (failure == NULL)
    failure = TRITONBACKEND_ResponseSetIntParameter(response, "index", index);
  uint64_t output = failure == NULL ? now_ns() : 0;
  if (failure == NULL)
    failure = fill_output(c, response);
  check(TRITONBACKEND_ResponseSend(response, last ? TRITONSERVER_RESPONSE_COMPLETE_FINAL : 0,
                                   failure));
  report(c, start, output, failure);
  TRITONSERVER_ErrorDelete(failure);
  return true;
}

static void answer(course *c)
{
  int64_t sent = 0;
  bool cancelled = false;
  for (; sent < c->count; sent++) {
    struct timespec pause = {.tv_sec = c->delay_us / 1000000,
                             .tv_nsec = c->delay_us % 1000000 * 1000};
    if (c->delay_us > 0)
      nanosleep(&pause, NULL);
    check(TRITONBACKEND_ResponseFactoryIsCancelled(c->factory, &cancelled));
    if (cancelled && !c->deaf)
      break;
    if (!send_one(c, sent)) { // the server says so in place of the end
      snprintf(c->final, sizeof(c->final), "never");
      break;
    }
  }
  if (cancelled && !c->deaf) {
    TRITONSERVER_Error *e = TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_CANCELLED, "cancelled");
    report(c, now_ns(), 0, e);
    TRITONSERVER_ErrorDelete(e);
  } else {
    report(c, now_ns(), 0, NULL); // the end, which is an empty response
  }
  bool ended = sent == c->count && sent > 0 && strcmp(c->final, "with") == 0;
  say("streaming: sent %ld of %ld, cancelled %d", (long)sent, (long)c->count, cancelled);
  if (!ended && strcmp(c->final, "never") != 0)
    check(TRITONBACKEND_ResponseFactorySendFlags(c->factory, TRITONSERVER_RESPONSE_COMPLETE_FINAL));
  check(TRITONBACKEND_ResponseFactoryDelete(c->factory));
  free(c);
}

// ---- threads: all are joined before the library goes ----

typedef struct helper {
  pthread_t thread;
  course *course;
  struct helper *next;
} helper;

static struct {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  size_t running;
  helper *done; // to be joined
} helpers = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, NULL};

static void *answer_aside(void *helper_pointer)
{
  helper *h = helper_pointer;
  answer(h->course);
  pthread_mutex_lock(&helpers.mutex);
  h->next = helpers.done;
  helpers.done = h;
  helpers.running--;
  pthread_cond_signal(&helpers.changed);
  pthread_mutex_unlock(&helpers.mutex);
  return NULL;
}

static void join_done(bool all)
{
  pthread_mutex_lock(&helpers.mutex);
  while (all && helpers.running > 0)
    pthread_cond_wait(&helpers.changed, &helpers.mutex);
  helper *done = helpers.done;
  helpers.done = NULL;
  pthread_mutex_unlock(&helpers.mutex);
  while (done != NULL) {
    helper *next = done->next;
    pthread_join(done->thread, NULL);
    free(done);
    done = next;
  }
}

static void start_helper(course *c)
{
  helper *h = calloc(1, sizeof(*h));
  join_done(false);
  if (h == NULL)
    abort();
  h->course = c;
  pthread_mutex_lock(&helpers.mutex);
  helpers.running++;
  if (pthread_create(&h->thread, NULL, answer_aside, h) != 0)
    abort();
  pthread_mutex_unlock(&helpers.mutex);
}

TRITONSERVER_Error *TRITONBACKEND_Finalize(TRITONBACKEND_Backend *backend)
{
  (void)backend;
  join_done(true);
  return NULL;
}

// ---- requests ----

static void execute(TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Request *request)
{
  course *c = calloc(1, sizeof(*c));
  if (c == NULL) { // the server answers
    check(TRITONBACKEND_RequestRelease(request, TRITONSERVER_REQUEST_RELEASE_ALL));
    return;
  }
  c->instance = instance;
  c->count = 1;
  c->fail_at = -1;
  snprintf(c->final, sizeof(c->final), "flag");
  read_parameters(request, c);
  read_input(request, c);
  say("streaming: began %ld", (long)c->count);
  check(TRITONBACKEND_ResponseFactoryNew(&c->factory, request));
  bool early = c->early;
  if (early) {
    check(TRITONBACKEND_RequestRelease(request, TRITONSERVER_REQUEST_RELEASE_ALL));
    start_helper(c);
    return;
  }
  answer(c);
  check(TRITONBACKEND_RequestRelease(request, TRITONSERVER_REQUEST_RELEASE_ALL));
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *instance,
                                                       TRITONBACKEND_Request **requests,
                                                       const uint32_t request_count)
{
  for (uint32_t i = 0; i < request_count; i++)
    execute(instance, requests[i]);
  return NULL;
}

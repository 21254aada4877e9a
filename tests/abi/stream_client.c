// SPDX-License-Identifier: Apache-2.0
// A program that embeds the server through tritonserver.h and sends one request to a decoupled
// model:
//   stream_client BACKEND_DIRECTORY REPOSITORY MODEL CANCEL_AFTER VALUE...
// Prints a line for each answer: its value, its error or "-" when it is flags only, and "final"
// with the last one. After CANCEL_AFTER answers (0: never) it cancels the request.
// tests/e2e/python/test_python_contract_stream.py reads this.
#include "plain_memory.h"
#include "server_end.h"
#include "triton/core/tritonserver.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct stream {
  TRITONSERVER_InferenceRequest *request;
  int cancel_after;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int answers;   // guarded by lock, as the next two
  bool final;    // the last answer came
  bool released; // the request is ours again
} stream;

static void must(TRITONSERVER_Error *failure)
{
  if (failure == NULL)
    return;
  fprintf(stderr, "%s - %s\n", TRITONSERVER_ErrorCodeString(failure),
          TRITONSERVER_ErrorMessage(failure));
  exit(EXIT_FAILURE);
}

static void print_answer(TRITONSERVER_InferenceResponse *response)
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
  TRITONSERVER_Error *failure = TRITONSERVER_InferenceResponseError(response);
  if (failure != NULL) {
    printf("%s: %s", TRITONSERVER_ErrorCodeString(failure), TRITONSERVER_ErrorMessage(failure));
    TRITONSERVER_ErrorDelete(failure);
    return;
  }
  int32_t value;
  must(TRITONSERVER_InferenceResponseOutput(response, 0, &name, &datatype, &shape, &dim_count,
                                            &data, &size, &memory_type, &memory_id, &context));
  if (size != sizeof(value)) {
    printf("%zu bytes", size);
    return;
  }
  memcpy(&value, data, sizeof(value));
  printf("%d", (int)value);
}

static void answered(TRITONSERVER_InferenceResponse *response, const uint32_t flags, void *context)
{
  stream *s = context;
  bool final = (flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) != 0;
  if (response != NULL) {
    print_answer(response);
    must(TRITONSERVER_InferenceResponseDelete(response));
  } else {
    printf("-");
  }
  printf("%s\n", final ? " final" : "");
  pthread_mutex_lock(&s->lock);
  s->answers++;
  s->final = s->final || final;
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->lock);
}

static void released(TRITONSERVER_InferenceRequest *request, const uint32_t flags, void *context)
{
  stream *s = context;
  (void)request, (void)flags;
  pthread_mutex_lock(&s->lock);
  s->released = true;
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->lock);
}

static TRITONSERVER_Server *start_server(const char *backends, const char *repository,
                                         const char *model)
{
  TRITONSERVER_ServerOptions *options;
  TRITONSERVER_Server *server;
  must(TRITONSERVER_ServerOptionsNew(&options));
  must(TRITONSERVER_ServerOptionsSetBackendDirectory(options, backends));
  must(TRITONSERVER_ServerOptionsSetModelRepositoryPath(options, repository));
  must(TRITONSERVER_ServerOptionsSetModelControlMode(options, TRITONSERVER_MODEL_CONTROL_EXPLICIT));
  must(TRITONSERVER_ServerOptionsSetStartupModel(options, model));
  must(TRITONSERVER_ServerOptionsSetLogInfo(options, false));
  must(TRITONSERVER_ServerNew(&server, options));
  must(TRITONSERVER_ServerOptionsDelete(options));
  return server;
}

static void send_values(TRITONSERVER_Server *server, const char *model, stream *s,
                        const int32_t *values, int64_t count,
                        TRITONSERVER_ResponseAllocator *allocator)
{
  must(TRITONSERVER_InferenceRequestNew(&s->request, server, model, -1));
  must(TRITONSERVER_InferenceRequestSetId(s->request, "stream"));
  must(TRITONSERVER_InferenceRequestAddInput(s->request, "INPUT0", TRITONSERVER_TYPE_INT32, &count,
                                             1));
  must(TRITONSERVER_InferenceRequestAppendInputData(
      s->request, "INPUT0", values, (size_t)count * sizeof(*values), TRITONSERVER_MEMORY_CPU, 0));
  must(TRITONSERVER_InferenceRequestSetReleaseCallback(s->request, released, s));
  must(TRITONSERVER_InferenceRequestSetResponseCallback(s->request, allocator, NULL, answered, s));
  must(TRITONSERVER_ServerInferAsync(server, s->request, NULL));
}

// The server calls back without a time limit of ours: the test has one.
static void await_end(stream *s)
{
  bool cancelled = false;
  pthread_mutex_lock(&s->lock);
  while (!s->final || !s->released) {
    if (!cancelled && s->cancel_after > 0 && s->answers >= s->cancel_after) {
      cancelled = true;
      pthread_mutex_unlock(&s->lock);
      must(TRITONSERVER_InferenceRequestCancel(s->request));
      pthread_mutex_lock(&s->lock);
      continue;
    }
    pthread_cond_wait(&s->changed, &s->lock);
  }
  pthread_mutex_unlock(&s->lock);
}

int main(int argc, char **argv)
{
  if (argc < 5)
    return EXIT_FAILURE;
  const char *model = argv[3];
  stream s = {.cancel_after = atoi(argv[4]),
              .lock = PTHREAD_MUTEX_INITIALIZER,
              .changed = PTHREAD_COND_INITIALIZER};
  int64_t count = argc - 5;
  int32_t *values = calloc((size_t)count + 1, sizeof(*values));
  if (values == NULL)
    return EXIT_FAILURE;
  for (int64_t i = 0; i < count; i++)
    values[i] = atoi(argv[5 + i]);

  TRITONSERVER_ResponseAllocator *allocator;
  must(TRITONSERVER_ResponseAllocatorNew(&allocator, allocate, give_back, NULL));
  TRITONSERVER_Server *server = start_server(argv[1], argv[2], model);
  send_values(server, model, &s, values, count, allocator);
  await_end(&s);
  must(TRITONSERVER_InferenceRequestDelete(s.request));
  must(end_server(server));
  must(TRITONSERVER_ResponseAllocatorDelete(allocator));
  free(values);
  return EXIT_SUCCESS;
}

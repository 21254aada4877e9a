// SPDX-License-Identifier: Apache-2.0
// Measures a server through tritonserver.h, without a front end:
//   embedded BACKEND_DIRECTORY REPOSITORY MODEL MEASUREMENT
//
// MEASUREMENT is one of these, and prints:
//   cost COUNT              processor time of the process for one request, in µs
//   memory COUNT            anonymous memory for one open sequence, in bytes
//   backlog COUNT REQUESTS  three times p50 and p99 in µs of a sequence that has a slot (warm-up,
//                           alone, before COUNT waiting sequences), then the µs that a waiting
//                           sequence takes to be submitted, and to be answered at the end
//
// The model takes INPUT0, FP32 [1,16]; "backlog" needs a model with one slot. bench/embedded.py
// compiles this against either library.
#include "plain_memory.h"
#include "server_end.h"
#include "triton/core/tritonserver.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WIDTH   16
#define WARM_UP 1000 // requests before anything is measured
#define FLAG_PAIR                                                                                  \
  (TRITONSERVER_REQUEST_FLAG_SEQUENCE_START | TRITONSERVER_REQUEST_FLAG_SEQUENCE_END)

static const char *model;
static TRITONSERVER_Server *server;
static TRITONSERVER_ResponseAllocator *allocator;
static sem_t answered, released; // of the request that main waits for
static atomic_size_t waiting;    // requests of the backlog that are not released

static void must(TRITONSERVER_Error *failure)
{
  if (failure == NULL)
    return;
  fprintf(stderr, "%s: %s\n", TRITONSERVER_ErrorCodeString(failure),
          TRITONSERVER_ErrorMessage(failure));
  exit(EXIT_FAILURE);
}

static double now_us(clockid_t clock)
{
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

// ---- requests ----

static void on_answer(TRITONSERVER_InferenceResponse *response, const uint32_t flags, void *wakes)
{
  if (response != NULL) {
    must(TRITONSERVER_InferenceResponseError(response));
    must(TRITONSERVER_InferenceResponseDelete(response));
  }
  if (wakes != NULL && (flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) != 0)
    sem_post(&answered);
}

static void on_release(TRITONSERVER_InferenceRequest *request, const uint32_t flags, void *wakes)
{
  (void)flags;
  if (wakes != NULL) {
    sem_post(&released);
    return;
  }
  must(TRITONSERVER_InferenceRequestDelete(request));
  atomic_fetch_sub(&waiting, 1);
}

// wakes: main waits for the request, and keeps it; else it deletes itself.
static TRITONSERVER_InferenceRequest *new_request(uint64_t sequence, uint32_t flags, bool wakes)
{
  static const int64_t shape[] = {1, WIDTH};
  static float data[WIDTH];
  TRITONSERVER_InferenceRequest *request;
  void *context = wakes ? &answered : NULL;
  must(TRITONSERVER_InferenceRequestNew(&request, server, model, -1));
  must(TRITONSERVER_InferenceRequestAddInput(request, "INPUT0", TRITONSERVER_TYPE_FP32, shape, 2));
  must(TRITONSERVER_InferenceRequestAppendInputData(request, "INPUT0", data, sizeof(data),
                                                    TRITONSERVER_MEMORY_CPU, 0));
  must(TRITONSERVER_InferenceRequestSetCorrelationId(request, sequence));
  must(TRITONSERVER_InferenceRequestSetFlags(request, flags));
  must(TRITONSERVER_InferenceRequestSetReleaseCallback(request, on_release, context));
  must(TRITONSERVER_InferenceRequestSetResponseCallback(request, allocator, NULL, on_answer,
                                                        context));
  return request;
}

// Microseconds until the answer is there.
static double infer(uint64_t sequence, uint32_t flags)
{
  TRITONSERVER_InferenceRequest *request = new_request(sequence, flags, true);
  double begin = now_us(CLOCK_MONOTONIC);
  must(TRITONSERVER_ServerInferAsync(server, request, NULL));
  sem_wait(&answered);
  double end = now_us(CLOCK_MONOTONIC);
  sem_wait(&released);
  must(TRITONSERVER_InferenceRequestDelete(request));
  return end - begin;
}

// ---- what is measured ----

static void measure_cost(size_t count)
{
  for (size_t i = 0; i < WARM_UP; i++)
    infer(0, 0);
  double begin = now_us(CLOCK_PROCESS_CPUTIME_ID);
  for (size_t i = 0; i < count; i++)
    infer(0, 0);
  printf("%.3f\n", (now_us(CLOCK_PROCESS_CPUTIME_ID) - begin) / (double)count);
}

static long anonymous_bytes(void)
{
  char line[256];
  long kibibytes = -1;
  FILE *file = fopen("/proc/self/smaps_rollup", "r");
  while (file != NULL && kibibytes < 0 && fgets(line, sizeof(line), file) != NULL)
    sscanf(line, "Anonymous: %ld", &kibibytes);
  if (file == NULL || kibibytes < 0) {
    fprintf(stderr, "/proc/self/smaps_rollup has no line 'Anonymous:'\n");
    exit(EXIT_FAILURE);
  }
  fclose(file);
  return kibibytes * 1024;
}

static void measure_memory(size_t count)
{
  for (size_t i = 1; i <= WARM_UP; i++)
    infer(count + i, FLAG_PAIR);
  long before = anonymous_bytes();
  for (size_t i = 1; i <= count; i++)
    infer(i, TRITONSERVER_REQUEST_FLAG_SEQUENCE_START);
  printf("%.1f\n", (double)(anonymous_bytes() - before) / (double)count);
  for (size_t i = 1; i <= count; i++)
    infer(i, TRITONSERVER_REQUEST_FLAG_SEQUENCE_END);
}

static int by_size(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void time_head(size_t requests)
{
  double *times = calloc(requests, sizeof(*times));
  if (times == NULL)
    abort();
  for (size_t i = 0; i < requests; i++)
    times[i] = infer(1, 0);
  qsort(times, requests, sizeof(*times), by_size);
  printf("%.2f %.2f\n", times[requests / 2], times[requests * 99 / 100]);
  free(times);
}

static void measure_backlog(size_t count, size_t requests)
{
  infer(1, TRITONSERVER_REQUEST_FLAG_SEQUENCE_START);
  time_head(WARM_UP);
  time_head(requests);
  atomic_store(&waiting, count);
  double begin = now_us(CLOCK_MONOTONIC);
  for (size_t i = 0; i < count; i++)
    must(TRITONSERVER_ServerInferAsync(server, new_request(i + 2, FLAG_PAIR, false), NULL));
  double submitted = now_us(CLOCK_MONOTONIC);
  time_head(requests);
  double freed = now_us(CLOCK_MONOTONIC);
  infer(1, TRITONSERVER_REQUEST_FLAG_SEQUENCE_END);
  while (atomic_load(&waiting) > 0)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  printf("%.3f %.3f\n", (submitted - begin) / (double)count,
         (now_us(CLOCK_MONOTONIC) - freed) / (double)count);
}

// ---- the server ----

static void start_server(char **arguments)
{
  TRITONSERVER_ServerOptions *options;
  must(TRITONSERVER_ServerOptionsNew(&options));
  must(TRITONSERVER_ServerOptionsSetBackendDirectory(options, arguments[1]));
  must(TRITONSERVER_ServerOptionsSetModelRepositoryPath(options, arguments[2]));
  must(TRITONSERVER_ServerOptionsSetLogInfo(options, false));
  must(TRITONSERVER_ServerNew(&server, options));
  must(TRITONSERVER_ServerOptionsDelete(options));
}

int main(int argc, char **argv)
{
  if (argc < 6)
    return EXIT_FAILURE;
  const char *what = argv[4];
  size_t count = strtoul(argv[5], NULL, 10);
  model = argv[3];
  sem_init(&answered, 0, 0);
  sem_init(&released, 0, 0);
  must(TRITONSERVER_ResponseAllocatorNew(&allocator, allocate, give_back, NULL));
  start_server(argv);
  if (strcmp(what, "cost") == 0)
    measure_cost(count);
  else if (strcmp(what, "memory") == 0)
    measure_memory(count);
  else if (strcmp(what, "backlog") == 0 && argc > 6)
    measure_backlog(count, strtoul(argv[6], NULL, 10));
  else
    return EXIT_FAILURE;
  must(end_server(server));
  must(TRITONSERVER_ResponseAllocatorDelete(allocator));
  return EXIT_SUCCESS;
}

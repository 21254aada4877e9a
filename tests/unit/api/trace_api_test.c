// SPDX-License-Identifier: Apache-2.0
// Traces as a program that embeds the server sees them: what is reported, and when a trace comes
// back to its maker.
#include "triton/core/tritonserver.h"

#include <ftw.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void ok(TRITONSERVER_Error *e)
{
  if (e != NULL)
    fail_msg("%s", TRITONSERVER_ErrorMessage(e));
}

// ---- a server with two models, for all tests ----

static char root[] = "/tmp/nereid-trace-XXXXXX";
static TRITONSERVER_Server *server;
static TRITONSERVER_ResponseAllocator *allocator;

static TRITONSERVER_Error *allocate(TRITONSERVER_ResponseAllocator *self, const char *name,
                                    size_t size, TRITONSERVER_MemoryType type, int64_t id,
                                    void *userp, void **memory, void **memory_userp,
                                    TRITONSERVER_MemoryType *actual_type, int64_t *actual_id)
{
  (void)self, (void)name, (void)type, (void)id, (void)userp;
  *memory = malloc(size + 1);
  *memory_userp = NULL;
  *actual_type = TRITONSERVER_MEMORY_CPU;
  *actual_id = 0;
  return NULL;
}

static TRITONSERVER_Error *give_back(TRITONSERVER_ResponseAllocator *self, void *memory,
                                     void *userp, size_t size, TRITONSERVER_MemoryType type,
                                     int64_t id)
{
  (void)self, (void)userp, (void)size, (void)type, (void)id;
  free(memory);
  return NULL;
}

static void make_model(const char *name, const char *backend, const char *more)
{
  char path[128];
  snprintf(path, sizeof(path), "%s/%s", root, name);
  assert_int_equal(mkdir(path, 0700), 0);
  snprintf(path, sizeof(path), "%s/%s/1", root, name);
  assert_int_equal(mkdir(path, 0700), 0);
  snprintf(path, sizeof(path), "%s/%s/config.pbtxt", root, name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fprintf(file,
          "backend: '%s' runtime: 'libtriton_%s.so'"
          "input { name: 'INPUT0' data_type: TYPE_INT32 dims: [ -1 ] }"
          "output { name: 'OUTPUT0' data_type: TYPE_INT32 dims: [ -1 ] } %s",
          backend, backend, more);
  assert_int_equal(fclose(file), 0);
}

static int start(void **state)
{
  (void)state;
  TRITONSERVER_ServerOptions *options;
  assert_non_null(mkdtemp(root));
  make_model("plain", "identity", "");
  make_model("custom", "identity",
             "parameters { key: 'enable_custom_tracing' value { string_value: 'true' } }");
  make_model("forgetful", "faulty",
             "parameters { key: 'fault' value { string_value: 'no_response' } }");
  ok(TRITONSERVER_ServerOptionsNew(&options));
  ok(TRITONSERVER_ServerOptionsSetModelRepositoryPath(options, root));
  ok(TRITONSERVER_ServerOptionsSetModelControlMode(options, TRITONSERVER_MODEL_CONTROL_NONE));
  ok(TRITONSERVER_ServerOptionsSetBackendDirectory(options, BACKENDS));
  ok(TRITONSERVER_ServerOptionsSetLogInfo(options, false));
  ok(TRITONSERVER_ServerNew(&server, options));
  ok(TRITONSERVER_ServerOptionsDelete(options));
  ok(TRITONSERVER_ResponseAllocatorNew(&allocator, allocate, give_back, NULL));
  return 0;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
  (void)status, (void)kind, (void)where;
  return remove(path);
}

static int stop(void **state)
{
  (void)state;
  ok(TRITONSERVER_ServerDelete(server));
  ok(TRITONSERVER_ResponseAllocatorDelete(allocator));
  return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

// ---- a trace's maker ----

typedef struct maker {
  char seen[512]; // activities and releases, "#" before a trace's number counted from `first`
  uint64_t first;
  sem_t done, released; // of the request
  TRITONSERVER_InferenceResponse *response;
} maker;

static void note(maker *m, TRITONSERVER_InferenceTrace *trace, const char *what)
{
  uint64_t id;
  char word[64];
  ok(TRITONSERVER_InferenceTraceId(trace, &id));
  snprintf(word, sizeof(word), "#%d %s\n", (int)(id - m->first), what);
  strncat(m->seen, word, sizeof(m->seen) - strlen(m->seen) - 1);
}

static void report(TRITONSERVER_InferenceTrace *trace, TRITONSERVER_InferenceTraceActivity activity,
                   uint64_t ns, void *userp)
{
  assert_true(ns > 0);
  note(userp, trace, TRITONSERVER_InferenceTraceActivityString(activity));
}

static void report_tensor(TRITONSERVER_InferenceTrace *trace,
                          TRITONSERVER_InferenceTraceActivity activity, const char *name,
                          TRITONSERVER_DataType datatype, const void *base, size_t byte_size,
                          const int64_t *shape, uint64_t dim_count, TRITONSERVER_MemoryType type,
                          int64_t id, void *userp)
{
  (void)name, (void)type, (void)id;
  assert_int_equal(datatype, TRITONSERVER_TYPE_INT32);
  assert_int_equal(dim_count, 1);
  assert_int_equal(shape[0], 2);
  assert_int_equal(byte_size, 8);
  assert_memory_equal(base, ((int32_t[]){4, 5}), 8);
  note(userp, trace, TRITONSERVER_InferenceTraceActivityString(activity));
}

static void take_back(TRITONSERVER_InferenceTrace *trace, void *userp)
{
  note(userp, trace, "released");
  ok(TRITONSERVER_InferenceTraceDelete(trace));
}

static TRITONSERVER_InferenceTrace *make(maker *m, uint32_t level)
{
  TRITONSERVER_InferenceTrace *trace;
  *m = (maker){0};
  sem_init(&m->done, 0, 0);
  sem_init(&m->released, 0, 0);
  ok(TRITONSERVER_InferenceTraceTensorNew(&trace, (TRITONSERVER_InferenceTraceLevel)level, 0,
                                          report, report_tensor, take_back, m));
  ok(TRITONSERVER_InferenceTraceId(trace, &m->first));
  return trace;
}

static void answered(TRITONSERVER_InferenceResponse *response, const uint32_t flags, void *userp)
{
  (void)flags;
  ((maker *)userp)->response = response;
  sem_post(&((maker *)userp)->done);
}

static void released(TRITONSERVER_InferenceRequest *request, const uint32_t flags, void *userp)
{
  (void)flags;
  ok(TRITONSERVER_InferenceRequestDelete(request));
  sem_post(&((maker *)userp)->released);
}

// In two pieces, so that a traced tensor has to be joined. On an error the request is deleted.
static TRITONSERVER_Error *submit(maker *m, const char *model, bool with_input,
                                  TRITONSERVER_InferenceTrace *trace)
{
  static const int32_t values[] = {4, 5};
  TRITONSERVER_InferenceRequest *request;
  ok(TRITONSERVER_InferenceRequestNew(&request, server, model, -1));
  ok(TRITONSERVER_InferenceRequestSetId(request, "r1"));
  if (with_input) {
    ok(TRITONSERVER_InferenceRequestAddInput(request, "INPUT0", TRITONSERVER_TYPE_INT32,
                                             (int64_t[]){2}, 1));
    for (int i = 0; i < 2; i++)
      ok(TRITONSERVER_InferenceRequestAppendInputData(request, "INPUT0", &values[i], 4,
                                                      TRITONSERVER_MEMORY_CPU, 0));
  }
  ok(TRITONSERVER_InferenceRequestSetReleaseCallback(request, released, m));
  ok(TRITONSERVER_InferenceRequestSetResponseCallback(request, allocator, NULL, answered, m));
  TRITONSERVER_Error *e = TRITONSERVER_ServerInferAsync(server, request, trace);
  if (e != NULL)
    ok(TRITONSERVER_InferenceRequestDelete(request));
  return e;
}

static void await(maker *m)
{
  sem_wait(&m->done);
  sem_wait(&m->released);
}

static void delete_response(maker *m)
{
  ok(TRITONSERVER_InferenceResponseDelete(m->response));
}

// ---- tests ----

#define COMPUTE "#0 COMPUTE_START\n#0 COMPUTE_INPUT_END\n#0 COMPUTE_OUTPUT_START\n#0 COMPUTE_END\n"

static void all_is_reported_in_order_and_the_trace_comes_back_with_the_response(void **state)
{
  (void)state;
  maker m;
  TRITONSERVER_InferenceTrace *trace =
      make(&m, TRITONSERVER_TRACE_LEVEL_TIMESTAMPS | TRITONSERVER_TRACE_LEVEL_TENSORS);
  ok(submit(&m, "plain", true, trace));
  await(&m);
  assert_string_equal(m.seen, "#0 REQUEST_START\n#0 QUEUE_START\n#0 TENSOR_QUEUE_INPUT\n" COMPUTE
                              "#0 TENSOR_BACKEND_OUTPUT\n#0 REQUEST_END\n");
  const char *text;
  int64_t version;
  ok(TRITONSERVER_InferenceTraceModelName(trace, &text));
  assert_string_equal(text, "plain");
  ok(TRITONSERVER_InferenceTraceRequestId(trace, &text));
  assert_string_equal(text, "r1");
  ok(TRITONSERVER_InferenceTraceModelVersion(trace, &version));
  assert_int_equal(version, 1);
  m.seen[0] = '\0';
  delete_response(&m);
  assert_string_equal(m.seen, "#0 released\n");
}

static void only_what_the_level_says_is_reported(void **state)
{
  (void)state;
  maker m;
  ok(submit(&m, "plain", true, make(&m, TRITONSERVER_TRACE_LEVEL_TENSORS)));
  await(&m);
  delete_response(&m);
  assert_string_equal(m.seen, "#0 TENSOR_QUEUE_INPUT\n#0 TENSOR_BACKEND_OUTPUT\n#0 released\n");
  ok(submit(&m, "plain", true, make(&m, TRITONSERVER_TRACE_LEVEL_MAX))); // an old name
  await(&m);
  delete_response(&m);
  assert_string_equal(m.seen,
                      "#0 REQUEST_START\n#0 QUEUE_START\n" COMPUTE "#0 REQUEST_END\n#0 released\n");
}

static void a_refused_request_s_trace_comes_back_too(void **state)
{
  (void)state;
  maker m;
  TRITONSERVER_InferenceTrace *trace = make(&m, TRITONSERVER_TRACE_LEVEL_TIMESTAMPS);
  TRITONSERVER_Error *e = submit(&m, "plain", false, trace);
  assert_non_null(e);
  TRITONSERVER_ErrorDelete(e);
  assert_string_equal(m.seen, "#0 released\n");
}

static void a_trace_comes_back_from_a_backend_that_forgets_to_answer(void **state)
{
  (void)state;
  maker m;
  ok(submit(&m, "forgetful", true, make(&m, TRITONSERVER_TRACE_LEVEL_TIMESTAMPS)));
  await(&m);
  delete_response(&m);
  assert_non_null(strstr(m.seen, "#0 REQUEST_END\n#0 released\n"));
}

static void a_parent_comes_back_after_its_children(void **state)
{
  (void)state;
  maker m;
  uint64_t parent_id;
  TRITONSERVER_InferenceTrace *child, *trace = make(&m, TRITONSERVER_TRACE_LEVEL_TIMESTAMPS);
  ok(TRITONSERVER_InferenceTraceSpawnChildTrace(trace, &child));
  ok(TRITONSERVER_InferenceTraceParentId(child, &parent_id));
  assert_int_equal(parent_id, m.first);
  ok(submit(&m, "plain", true, trace));
  await(&m);
  delete_response(&m);
  assert_null(strstr(m.seen, "released"));
  ok(submit(&m, "plain", true, child));
  await(&m);
  m.seen[0] = '\0';
  delete_response(&m);
  assert_string_equal(m.seen, "#1 released\n#0 released\n");
}

static void traces_that_are_never_submitted_are_their_makers_to_delete(void **state)
{
  (void)state;
  maker m;
  TRITONSERVER_InferenceTrace *child, *other,
      *trace = make(&m, TRITONSERVER_TRACE_LEVEL_TIMESTAMPS);
  ok(TRITONSERVER_InferenceTraceSpawnChildTrace(trace, &child));
  ok(TRITONSERVER_InferenceTraceSpawnChildTrace(trace, &other));
  ok(TRITONSERVER_InferenceTraceDelete(child));
  ok(TRITONSERVER_InferenceTraceDelete(trace));
  ok(TRITONSERVER_InferenceTraceDelete(other)); // after its parent
  ok(TRITONSERVER_InferenceTraceDelete(NULL));
  ok(TRITONSERVER_InferenceTraceSpawnChildTrace(NULL, &child));
  assert_null(child);
  assert_string_equal(m.seen, "");
}

static void a_backend_s_activities_are_named_in_the_context(void **state)
{
  (void)state;
  maker m;
  const char *context;
  TRITONSERVER_InferenceTrace *trace = make(&m, TRITONSERVER_TRACE_LEVEL_TIMESTAMPS);
  ok(TRITONSERVER_InferenceTraceContext(trace, &context));
  assert_string_equal(context, "");
  ok(TRITONSERVER_InferenceTraceSetContext(trace, "{\"traceparent\":\"p\"}"));
  ok(TRITONSERVER_InferenceTraceReportActivity(trace, 77, "a \"name\""));
  ok(TRITONSERVER_InferenceTraceContext(trace, &context));
  assert_string_equal(context, "{\"traceparent\":\"p\",\"77\":\"a \\\"name\\\"\"}");
  ok(TRITONSERVER_InferenceTraceSetContext(trace, "no object"));
  ok(TRITONSERVER_InferenceTraceReportActivity(trace, 78, "b"));
  ok(TRITONSERVER_InferenceTraceContext(trace, &context));
  assert_string_equal(context, "{\"78\":\"b\"}");
  ok(TRITONSERVER_InferenceTraceReportActivity(NULL, 1, "nobody's"));
  m.seen[0] = '\0';
  ok(submit(&m, "custom", true, trace));
  await(&m);
  assert_non_null(strstr(m.seen, "#0 CUSTOM_ACTIVITY\n#0 CUSTOM_ACTIVITY\n#0 CUSTOM_ACTIVITY\n"));
  delete_response(&m);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_is_reported_in_order_and_the_trace_comes_back_with_the_response),
      cmocka_unit_test(only_what_the_level_says_is_reported),
      cmocka_unit_test(a_refused_request_s_trace_comes_back_too),
      cmocka_unit_test(a_trace_comes_back_from_a_backend_that_forgets_to_answer),
      cmocka_unit_test(a_parent_comes_back_after_its_children),
      cmocka_unit_test(traces_that_are_never_submitted_are_their_makers_to_delete),
      cmocka_unit_test(a_backend_s_activities_are_named_in_the_context),
  };
  return cmocka_run_group_tests(tests, start, stop);
}

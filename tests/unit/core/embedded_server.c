// SPDX-License-Identifier: Apache-2.0
#include "embedded_server.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <ftw.h>

// ---- repositories ----

char root[] = "/tmp/nereid-lifecycle-XXXXXX";

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
  (void)status;
  (void)kind;
  (void)where;
  return remove(path);
}

int make_root(void **state)
{
  (void)state;
  strcpy(root + strlen(root) - 6, "XXXXXX");
  return mkdtemp(root) == NULL;
}

int remove_root(void **state)
{
  (void)state;
  return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void remove_dir(const char *relative)
{
  char path[512];
  snprintf(path, sizeof(path), "%s/%s", root, relative);
  assert_int_equal(nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

void make_dir(const char *relative)
{
  char path[512];
  snprintf(path, sizeof(path), "%s/%s", root, relative);
  if (mkdir(path, 0700) != 0)
    assert_true(access(path, F_OK) == 0);
}

void write_file(const char *relative, const char *text, time_t seconds)
{
  char path[512];
  snprintf(path, sizeof(path), "%s/%s", root, relative);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
  const struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
  assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

void touch_far_ahead(const char *relative)
{
  char path[512];
  const struct timespec times[2] = {{.tv_sec = 4000000000}, {.tv_sec = 4000000000}};
  snprintf(path, sizeof(path), "%s/%s", root, relative);
  assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

void make_identity(const char *name, const char *more)
{
  char path[256];
  char config[1024];
  make_dir(name);
  snprintf(path, sizeof(path), "%s/1", name);
  make_dir(path);
  snprintf(path, sizeof(path), "%s/config.pbtxt", name);
  snprintf(config, sizeof(config), "backend: 'identity' " IDENTITY_TENSORS "%s", more);
  write_file(path, config, 1000000000);
}

void make_faulty(const char *name, const char *fault)
{
  char path[256];
  char config[1024];
  make_dir(name);
  snprintf(path, sizeof(path), "%s/1", name);
  make_dir(path);
  snprintf(path, sizeof(path), "%s/config.pbtxt", name);
  snprintf(config, sizeof(config),
           "backend: 'faulty' runtime: 'libtriton_faulty.so' " IDENTITY_TENSORS
           "parameters { key: 'fault' value { string_value: '%s' } }",
           fault);
  write_file(path, config, 1000000000);
}

// ---- servers ----

void ok(TRITONSERVER_Error *e)
{
  if (e != NULL)
    fail_msg("%s", TRITONSERVER_ErrorMessage(e));
}

void fails(TRITONSERVER_Error *e, TRITONSERVER_Error_Code code, const char *part)
{
  assert_non_null(e);
  if (strstr(TRITONSERVER_ErrorMessage(e), part) == NULL)
    fail_msg("'%s' does not contain '%s'", TRITONSERVER_ErrorMessage(e), part);
  assert_int_equal(TRITONSERVER_ErrorCode(e), code);
  TRITONSERVER_ErrorDelete(e);
}

TRITONSERVER_ServerOptions *options_for(TRITONSERVER_ModelControlMode mode,
                                        const char *startup_model)
{
  TRITONSERVER_ServerOptions *options;
  ok(TRITONSERVER_ServerOptionsNew(&options));
  ok(TRITONSERVER_ServerOptionsSetModelRepositoryPath(options, root));
  ok(TRITONSERVER_ServerOptionsSetModelControlMode(options, mode));
  ok(TRITONSERVER_ServerOptionsSetBackendDirectory(options, BACKENDS));
  ok(TRITONSERVER_ServerOptionsSetLogInfo(options, false));
  ok(TRITONSERVER_ServerOptionsSetLogError(options, false));
  ok(TRITONSERVER_ServerOptionsSetLogWarn(options, false));
  if (startup_model != NULL)
    ok(TRITONSERVER_ServerOptionsSetStartupModel(options, startup_model));
  return options;
}

TRITONSERVER_Server *start_with(TRITONSERVER_ServerOptions *options)
{
  TRITONSERVER_Server *server;
  ok(TRITONSERVER_ServerNew(&server, options));
  ok(TRITONSERVER_ServerOptionsDelete(options));
  return server;
}

TRITONSERVER_Server *start_explicit(void)
{
  return start_with(options_for(TRITONSERVER_MODEL_CONTROL_EXPLICIT, NULL));
}

bool is_ready(TRITONSERVER_Server *server)
{
  bool ready;
  ok(TRITONSERVER_ServerIsReady(server, &ready));
  return ready;
}

bool model_is_ready(TRITONSERVER_Server *server, const char *name, int64_t version)
{
  bool ready;
  ok(TRITONSERVER_ServerModelIsReady(server, name, version, &ready));
  return ready;
}

void expect_json(TRITONSERVER_Message *message, const char *text)
{
  const char *base;
  size_t size;
  ok(TRITONSERVER_MessageSerializeToJson(message, &base, &size));
  char *copy = strndup(base, size);
  assert_string_equal(copy, text);
  free(copy);
  ok(TRITONSERVER_MessageDelete(message));
}

void expect_index(TRITONSERVER_Server *server, const char *text)
{
  TRITONSERVER_Message *index;
  ok(TRITONSERVER_ServerModelIndex(server, 0, &index));
  expect_json(index, text);
}

void await_index(TRITONSERVER_Server *server, const char *text)
{
  for (int i = 0; i < 24000; i++) { // two minutes
    const char *base;
    size_t size;
    TRITONSERVER_Message *index;
    ok(TRITONSERVER_ServerModelIndex(server, 0, &index));
    ok(TRITONSERVER_MessageSerializeToJson(index, &base, &size));
    bool equal = size == strlen(text) && memcmp(base, text, size) == 0;
    ok(TRITONSERVER_MessageDelete(index));
    if (equal)
      return;
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
  }
  expect_index(server, text);
}

// ---- requests ----

static TRITONSERVER_Error *allocate(TRITONSERVER_ResponseAllocator *allocator, const char *name,
                                    size_t size, TRITONSERVER_MemoryType type, int64_t id,
                                    void *userp, void **memory, void **memory_userp,
                                    TRITONSERVER_MemoryType *actual_type, int64_t *actual_id)
{
  (void)allocator, (void)name, (void)type, (void)id, (void)userp;
  *memory = malloc(size + 1);
  *memory_userp = NULL;
  *actual_type = TRITONSERVER_MEMORY_CPU;
  *actual_id = 0;
  return NULL;
}

static TRITONSERVER_Error *release(TRITONSERVER_ResponseAllocator *allocator, void *memory,
                                   void *userp, size_t size, TRITONSERVER_MemoryType type,
                                   int64_t id)
{
  (void)allocator, (void)userp, (void)size, (void)type, (void)id;
  free(memory);
  return NULL;
}

static void released(TRITONSERVER_InferenceRequest *request, const uint32_t flags, void *userp)
{
  (void)flags;
  TRITONSERVER_InferenceRequestDelete(request);
  sem_post(&((answer *)userp)->released);
}

static void answered(TRITONSERVER_InferenceResponse *response, const uint32_t flags, void *userp)
{
  answer *a = userp;
  (void)flags;
  TRITONSERVER_Error *e = TRITONSERVER_InferenceResponseError(response);
  a->failed = e != NULL;
  if (e != NULL) {
    snprintf(a->text, sizeof(a->text), "%s", TRITONSERVER_ErrorMessage(e));
    TRITONSERVER_ErrorDelete(e);
  } else {
    const char *name;
    TRITONSERVER_DataType type;
    const int64_t *shape;
    uint64_t dims;
    const void *base;
    size_t size;
    TRITONSERVER_MemoryType memory;
    int64_t id;
    void *output_userp;
    TRITONSERVER_InferenceResponseOutput(response, 0, &name, &type, &shape, &dims, &base, &size,
                                         &memory, &id, &output_userp);
    memcpy(&a->value, base, sizeof(a->value));
  }
  TRITONSERVER_InferenceResponseDelete(response);
  sem_post(&a->done);
}

static TRITONSERVER_ResponseAllocator *allocator;

int make_allocator(void **state)
{
  (void)state;
  ok(TRITONSERVER_ResponseAllocatorNew(&allocator, allocate, release, NULL));
  return 0;
}

int free_allocator(void **state)
{
  (void)state;
  ok(TRITONSERVER_ResponseAllocatorDelete(allocator));
  return 0;
}

TRITONSERVER_Error *ask(TRITONSERVER_Server *server, const char *model, int32_t value, answer *a)
{
  return ask_sequence(server, model, value, 0, 0, a);
}

TRITONSERVER_Error *ask_sequence(TRITONSERVER_Server *server, const char *model, int32_t value,
                                 uint64_t sequence, uint32_t flags, answer *a)
{
  return ask_with(server, model, value, sequence, flags, NULL, a);
}

static TRITONSERVER_Error *append(TRITONSERVER_InferenceRequest *request, const int32_t *value,
                                  TRITONSERVER_BufferAttributes *attributes)
{
  return attributes != NULL
             ? TRITONSERVER_InferenceRequestAppendInputDataWithBufferAttributes(request, "INPUT0",
                                                                                value, attributes)
             : TRITONSERVER_InferenceRequestAppendInputData(
                   request, "INPUT0", value, sizeof(*value), TRITONSERVER_MEMORY_CPU, 0);
}

TRITONSERVER_Error *ask_with(TRITONSERVER_Server *server, const char *model, int32_t value,
                             uint64_t sequence, uint32_t flags,
                             TRITONSERVER_BufferAttributes *attributes, answer *a)
{
  TRITONSERVER_InferenceRequest *request;
  const int64_t shape[] = {1};
  memset(a, 0, sizeof(*a));
  TRITONSERVER_Error *e = TRITONSERVER_InferenceRequestNew(&request, server, model, -1);
  if (e != NULL)
    return e;
  sem_init(&a->done, 0, 0);
  sem_init(&a->released, 0, 0);
  ok(TRITONSERVER_InferenceRequestSetCorrelationId(request, sequence));
  ok(TRITONSERVER_InferenceRequestSetFlags(request, flags));
  ok(TRITONSERVER_InferenceRequestAddInput(request, "INPUT0", TRITONSERVER_TYPE_INT32, shape, 1));
  ok(append(request, &value, attributes));
  ok(TRITONSERVER_InferenceRequestSetReleaseCallback(request, released, a));
  ok(TRITONSERVER_InferenceRequestSetResponseCallback(request, allocator, NULL, answered, a));
  e = TRITONSERVER_ServerInferAsync(server, request, NULL);
  if (e != NULL) {
    TRITONSERVER_InferenceRequestDelete(request);
    return e;
  }
  sem_wait(&a->done);
  sem_wait(&a->released);
  sem_destroy(&a->done);
  sem_destroy(&a->released);
  return NULL;
}

void expect_answer(TRITONSERVER_Server *server, const char *model, int32_t value)
{
  answer a;
  ok(ask(server, model, value, &a));
  if (a.failed)
    fail_msg("%s", a.text);
  assert_int_equal(a.value, value);
}

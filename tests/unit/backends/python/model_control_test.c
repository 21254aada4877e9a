// SPDX-License-Identifier: Apache-2.0
// Model control that a model asks for (calls/model_control.c): what the server is asked, and what
// is replied, by threads of its own. The server is the test's own.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "python_host.h"

#include <stdio.h>

enum {
  MAX_CALLS = 64
};

static struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  char text[256]; // of the last call
  bool held;      // calls do not return
  unsigned entered;
  TRITONSERVER_Error_Code code; // 0: success
} server = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static TRITONSERVER_Error *record(const char *text)
{
  pthread_mutex_lock(&server.lock);
  snprintf(server.text, sizeof server.text, "%s", text);
  server.entered++;
  while (server.held)
    pthread_cond_wait(&server.changed, &server.lock);
  pthread_mutex_unlock(&server.lock);
  return server.code == 0 ? NULL : TRITONSERVER_ErrorNew(server.code, "the server's");
}

TRITONSERVER_Error *
TRITONSERVER_ServerLoadModelWithParameters(TRITONSERVER_Server *ignored, const char *model,
                                           const TRITONSERVER_Parameter **parameters,
                                           const uint64_t count)
{
  char text[256];
  (void)ignored, (void)parameters;
  snprintf(text, sizeof text, "load %s, %u parameters", model, (unsigned)count);
  return record(text);
}

TRITONSERVER_Error *TRITONSERVER_ServerUnloadModel(TRITONSERVER_Server *ignored, const char *model)
{
  (void)ignored, (void)model;
  return record("unload");
}

TRITONSERVER_Error *TRITONSERVER_ServerUnloadModelAndDependents(TRITONSERVER_Server *ignored,
                                                                const char *model)
{
  (void)ignored, (void)model;
  return record("unload, dependents");
}

TRITONSERVER_Error *TRITONSERVER_ServerModelIsReady(TRITONSERVER_Server *ignored, const char *model,
                                                    const int64_t version, bool *ready)
{
  char text[256];
  (void)ignored;
  snprintf(text, sizeof text, "is %s %d ready", model, (int)version);
  *ready = true;
  return record(text);
}

static char loaded[64]; // name and content of the last file

TRITONSERVER_Parameter *TRITONSERVER_ParameterBytesNew(const char *name, const void *bytes,
                                                       const uint64_t size)
{
  snprintf(loaded, sizeof loaded, "%s=%.*s", name, (int)size, (const char *)bytes);
  return TRITONSERVER_ParameterNew(name, TRITONSERVER_PARAMETER_STRING, "");
}

// What the last call asked, of so many.
static void assert_asked(const char *text, unsigned calls)
{
  pthread_mutex_lock(&server.lock);
  assert_string_equal(server.text, text);
  assert_int_equal(server.entered, calls);
  pthread_mutex_unlock(&server.lock);
}

// ---- what the worker says

static int begin(void **state)
{
  server.held = false;
  server.code = 0;
  server.entered = 0;
  return host_begin(state);
}

// Threads count in the backend until they have let go of all.
static int end(void **state)
{
  if (host.calls != NULL)
    host_end_calls();
  pthread_mutex_lock(&host.backend.lock);
  while (host.backend.users > 0)
    pthread_cond_wait(&host.backend.unused, &host.backend.lock);
  pthread_mutex_unlock(&host.backend.lock);
  return host_end(state);
}

static void call(uint32_t kind, uint64_t id, uint32_t flags, const char *text)
{
  wire_writer *said = host_say();
  wire_put_string(said, "other");
  if (kind != CALL_MODEL_UNLOAD)
    wire_put_string(said, text);
  if (kind == CALL_MODEL_LOAD)
    wire_put_u32(said, 0);
  assert_true(host_call(kind, id, flags, 0));
}

// Waits for the next reply.
static void await_reply(channel_message *reply, wire_reader *reader)
{
  assert_int_equal(channel_receive(host.worker, CHANNEL_REPLIES, -1, reply), CHANNEL_MESSAGE);
  const uint8_t *at =
      reply->size == 0 ? host_bytes : channel_other(host.worker, reply->offset, reply->size);
  *reader = (wire_reader){.at = at, .end = at + reply->size};
  channel_done(host.worker, CHANNEL_REPLIES);
}

static void each_kind_asks_the_server_once(void **state)
{
  (void)state;
  static const struct {
    uint32_t kind, flags;
    const char *text, *asked;
    uint64_t value;
  } calls[] = {{CALL_MODEL_LOAD, 0, "", "load other, 0 parameters", 0},
               {CALL_MODEL_LOAD, 0, "{}", "load other, 1 parameters", 0},
               {CALL_MODEL_UNLOAD, 0, NULL, "unload", 0},
               {CALL_MODEL_UNLOAD, UNLOAD_DEPENDENTS, NULL, "unload, dependents", 0},
               {CALL_MODEL_IS_READY, 0, "", "is other -1 ready", 1},
               {CALL_MODEL_IS_READY, 0, "7", "is other 7 ready", 1}};
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    channel_message reply;
    wire_reader reader;
    call(calls[i].kind, i, calls[i].flags, calls[i].text);
    await_reply(&reply, &reader);
    assert_true(reply.id == i && reply.flags == REPLY_FINAL && reply.value == calls[i].value);
    assert_asked(calls[i].asked, i + 1);
  }
}

static void files_are_copied_for_the_load(void **state)
{
  (void)state;
  channel_message reply;
  wire_reader reader;
  wire_writer *said = host_say();
  wire_put_string(said, "other");
  wire_put_string(said, "{}");
  wire_put_u32(said, 1);
  wire_put_string(said, "file:1/model.py");
  wire_put_string(said, "pass");
  host_call(CALL_MODEL_LOAD, 1, 0, 0);
  await_reply(&reply, &reader);
  assert_asked("load other, 2 parameters", 1);
  assert_string_equal(loaded, "file:1/model.py=pass");
}

static void what_cannot_be_read_is_refused_at_once(void **state)
{
  (void)state;
  wire_put_u32(host_say(), 1000); // a text that is not there
  host_call(CALL_MODEL_UNLOAD, 1, 0, 0);
  assert_failed_reply(1, TRITONSERVER_ERROR_INVALID_ARG, "a call for model control cannot be read");
  wire_writer *said = host_say();
  wire_put_string(said, "other");
  wire_put_string(said, "");
  wire_put_u32(said, 5000); // files
  host_call(CALL_MODEL_LOAD, 2, 0, 0);
  assert_failed_reply(2, TRITONSERVER_ERROR_INVALID_ARG, "a call for model control cannot be read");
  assert_int_equal(server.entered, 0);
}

static void the_servers_error_is_the_reply(void **state)
{
  (void)state;
  channel_message reply;
  wire_reader reader;
  server.code = TRITONSERVER_ERROR_NOT_FOUND;
  call(CALL_MODEL_UNLOAD, 1, 0, NULL);
  await_reply(&reply, &reader);
  assert_int_equal(reply.flags, REPLY_FINAL | REPLY_FAILED);
  assert_int_equal(wire_get_u32(&reader), TRITONSERVER_ERROR_NOT_FOUND);
  assert_text(&reader, "the server's");
  call(CALL_MODEL_IS_READY, 2, 0, "-1");
  await_reply(&reply, &reader);
  assert_int_equal(wire_get_u32(&reader), TRITONSERVER_ERROR_INVALID_ARG);
  assert_text(&reader, "failed to get model version from specified version string '-1', version "
                       "should be an integral value > 0");
}

static void release_server(void)
{
  pthread_mutex_lock(&server.lock);
  server.held = false;
  pthread_cond_broadcast(&server.changed);
  pthread_mutex_unlock(&server.lock);
}

static void a_worker_has_so_many_under_way_and_no_more(void **state)
{
  (void)state;
  server.held = true;
  for (uint64_t i = 0; i < MAX_CALLS; i++)
    call(CALL_MODEL_UNLOAD, i, 0, NULL);
  assert_true(CALLS.are_under_way(host.calls));
  call(CALL_MODEL_UNLOAD, 1000, 0, NULL);
  assert_failed_reply(1000, TRITONSERVER_ERROR_UNAVAILABLE,
                      "a model instance can have at most 64 calls for model control under way");
  release_server();
  for (int i = 0; i < MAX_CALLS; i++) {
    channel_message reply;
    wire_reader reader;
    await_reply(&reply, &reader);
    assert_int_equal(reply.flags, REPLY_FINAL);
  }
}

static void who_is_gone_gets_no_reply(void **state)
{
  (void)state;
  server.held = true;
  call(CALL_MODEL_UNLOAD, 1, 0, NULL);
  host_end_calls();
  assert_int_equal(host.backend.users, 1); // the call's
  release_server();
  pthread_mutex_lock(&host.backend.lock);
  while (host.backend.users > 0)
    pthread_cond_wait(&host.backend.unused, &host.backend.lock);
  pthread_mutex_unlock(&host.backend.lock);
  assert_no_reply();
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(each_kind_asks_the_server_once, begin, end),
      cmocka_unit_test_setup_teardown(files_are_copied_for_the_load, begin, end),
      cmocka_unit_test_setup_teardown(what_cannot_be_read_is_refused_at_once, begin, end),
      cmocka_unit_test_setup_teardown(the_servers_error_is_the_reply, begin, end),
      cmocka_unit_test_setup_teardown(a_worker_has_so_many_under_way_and_no_more, begin, end),
      cmocka_unit_test_setup_teardown(who_is_gone_gets_no_reply, begin, end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

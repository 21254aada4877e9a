// SPDX-License-Identifier: Apache-2.0
// How open requests are answered by what a worker says of them (instance/open_request.c): once or
// several times, through the request or its factory. The server, the worker and the codec's filling
// are the test's own; the table of requests is the real one.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "codec/protocol.h"
#include "codec/response_fill.h"
#include "instance/open_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char the_request, the_factory; // their addresses are the objects
static worker_link the_link;

static struct {
  char events[512]; // what the server was told, in its order
  bool has_no_response, is_cancelled;
  uint64_t block;
  channel_message reply;
  char logged[256];
} seen;

__attribute__((format(printf, 1, 2))) static void happened(const char *format, ...)
{
  size_t length = strlen(seen.events);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(seen.events + length, sizeof seen.events - length, format, arguments);
  va_end(arguments);
}

static TRITONSERVER_Error *new_response(TRITONBACKEND_Response **response, void *from)
{
  if (seen.has_no_response)
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "no memory");
  *response = from;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseNew(TRITONBACKEND_Response **response,
                                              TRITONBACKEND_Request *request)
{
  assert_ptr_equal(request, &the_request);
  return new_response(response, request);
}

TRITONSERVER_Error *TRITONBACKEND_ResponseNewFromFactory(TRITONBACKEND_Response **response,
                                                         TRITONBACKEND_ResponseFactory *factory)
{
  assert_ptr_equal(factory, &the_factory);
  return new_response(response, factory);
}

TRITONSERVER_Error *TRITONBACKEND_ResponseSend(TRITONBACKEND_Response *response, uint32_t flags,
                                               TRITONSERVER_Error *error)
{
  assert_non_null(response);
  happened("send %u%s%s;", flags, error == NULL ? "" : " ",
           error == NULL ? "" : TRITONSERVER_ErrorMessage(error));
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseFactorySendFlags(TRITONBACKEND_ResponseFactory *factory,
                                                           uint32_t flags)
{
  (void)factory;
  happened("flags %u;", flags);
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseFactoryDelete(TRITONBACKEND_ResponseFactory *factory)
{
  assert_ptr_equal(factory, &the_factory);
  happened("delete factory;");
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseFactoryIsCancelled(TRITONBACKEND_ResponseFactory *factory,
                                                             bool *is_cancelled)
{
  (void)factory;
  *is_cancelled = seen.is_cancelled;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestIsCancelled(TRITONBACKEND_Request *request,
                                                     bool *is_cancelled)
{
  (void)request;
  *is_cancelled = seen.is_cancelled;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestRelease(TRITONBACKEND_Request *request, uint32_t flags)
{
  (void)request, (void)flags;
  happened("release;");
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportStatistics(
    TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Request *request, const bool success,
    const uint64_t exec_start_ns, const uint64_t compute_start_ns, const uint64_t compute_end_ns,
    const uint64_t exec_end_ns)
{
  (void)instance, (void)request;
  assert_true(exec_start_ns == 1 && compute_start_ns == 2 && compute_end_ns == exec_end_ns);
  happened("report %d;", success);
  return NULL;
}

// Who the lines of the log are about.
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceName(TRITONBACKEND_ModelInstance *instance,
                                                    const char **name)
{
  (void)instance;
  *name = "played_0";
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceModel(TRITONBACKEND_ModelInstance *instance,
                                                     TRITONBACKEND_Model **made)
{
  (void)instance;
  *made = NULL;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestId(TRITONBACKEND_Request *request, const char **id)
{
  (void)request;
  *id = "seven";
  return NULL;
}

TRITONSERVER_Error *NEREID_LogMessageAbout(TRITONSERVER_LogLevel level, const char *filename,
                                           int line, const NEREID_LogSubject *about,
                                           const char *msg)
{
  snprintf(seen.logged, sizeof seen.logged, "%d %s:%d %s %d: %s", (int)level, filename, line,
           about->request_id == NULL ? "-" : about->request_id, about->keys_only, msg);
  return NULL;
}

bool TRITONSERVER_LogIsEnabled(TRITONSERVER_LogLevel level)
{
  (void)level;
  return true;
}

// ---- the codec and the worker

TRITONSERVER_Error *response_fill(TRITONBACKEND_Response *response, TRITONBACKEND_Request *request,
                                  const output_signature *signature, const channel *channel,
                                  device_share *devices, wire_reader *reader,
                                  const wire_response *head)
{
  (void)response, (void)request, (void)signature, (void)channel, (void)devices;
  if (reader->bad || head->kind == RESPONSE_ERROR)
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL,
                                 reader->bad ? "cannot be read" : "the model's");
  return NULL;
}

void response_skip(const channel *channel, wire_reader *reader, const wire_response *head)
{
  (void)channel, (void)reader, (void)head;
}

const char *worker_name(const worker *self)
{
  (void)self;
  return "played_0";
}

NEREID_LogSubject worker_log_subject(const worker *self)
{
  return (NEREID_LogSubject){.instance = worker_name(self)};
}

bool worker_link_release(worker_link *self, uint64_t block)
{
  return channel_release(self->channel, block);
}

device_share *worker_link_devices(worker_link *self)
{
  (void)self;
  return NULL;
}

void worker_link_reply(worker_link *self, const channel_message *reply)
{
  (void)self;
  seen.reply = *reply;
}

static uint8_t bytes[256];
static wire_writer said;

bool control_part_copy(control_part *self, const worker_link *link, const channel_message *message)
{
  (void)link;
  *self = (control_part){.reader = {.at = bytes, .end = bytes + message->size}};
  self->reader.bad = message->size > sizeof bytes;
  return !self->reader.bad;
}

void control_part_fini(control_part *self)
{
  (void)self;
}

bool __wrap_channel_release(channel *self, uint64_t offset)
{
  (void)self;
  seen.block = offset;
  return true;
}

// ---- what is tested

static python_model model = {.name = (char *)"played"};
static python_instance instance = {.model = &model};

static int begin(void **state)
{
  (void)state;
  memset(&seen, 0, sizeof seen);
  request_table_init(&instance.requests);
  said = (wire_writer){.to = bytes, .room = sizeof bytes};
  return 0;
}

static int end(void **state)
{
  (void)state;
  assert_int_equal(instance.requests.open_count, 0);
  request_table_fini(&instance.requests);
  return 0;
}

static uint64_t open_one(bool is_decoupled)
{
  open_request *open;
  assert_true(request_table_add(&instance.requests, &open, 1));
  if (is_decoupled)
    open->factory = (TRITONBACKEND_ResponseFactory *)&the_factory;
  else
    open->request = (TRITONBACKEND_Request *)&the_request;
  open->exec_start_ns = 1;
  open->compute_start_ns = 2;
  request_table_end(&instance.requests, open);
  return open->handle;
}

static bool take(uint32_t kind, uint64_t id, uint32_t flags, uint64_t value)
{
  const channel_message call = {
      .kind = kind, .id = id, .flags = flags, .value = value, .size = said.size};
  const bool taken = open_request_take_call(&instance, &the_link, &call);
  said.size = 0;
  return taken;
}

// A response of this kind. RESPONSE_NONE: nothing is said but flags.
static void respond(uint64_t handle, enum response_kind kind, uint32_t flags)
{
  if (kind != RESPONSE_NONE)
    wire_put_u8(&said, (uint8_t)kind);
  if (kind == RESPONSE_ERROR)
    wire_put_u32(&said, TRITONSERVER_ERROR_INTERNAL);
  if (kind != RESPONSE_NONE)
    wire_put_string(&said, "");
  if (kind == RESPONSE_TENSORS)
    wire_put_u32(&said, 0);
  assert_true(take(CALL_RESPONSE, handle, flags, 0));
}

static void a_request_has_one_response(void **state)
{
  (void)state;
  uint64_t handle = open_one(false);
  respond(handle, RESPONSE_NONE, 0); // says nothing
  assert_string_equal(seen.events, "");
  respond(handle, RESPONSE_TENSORS, 0); // final or not
  respond(handle, RESPONSE_TENSORS, RESPONSE_FINAL);
  respond(handle, RESPONSE_NONE, RESPONSE_FINAL);
  assert_string_equal(seen.events, "report 1;send 1;release;");
}

static void its_end_without_a_response_is_an_error(void **state)
{
  (void)state;
  respond(open_one(false), RESPONSE_NONE, RESPONSE_FINAL);
  assert_string_equal(seen.events,
                      "report 0;send 1 model 'played' ended a request without a response;release;");
}

static void the_models_error_counts_as_a_failure(void **state)
{
  (void)state;
  respond(open_one(false), RESPONSE_ERROR, RESPONSE_FINAL);
  assert_string_equal(seen.events, "report 0;send 1 the model's;release;");
}

static void a_decoupled_request_has_responses_until_the_final_one(void **state)
{
  (void)state;
  uint64_t handle = open_one(true);
  respond(handle, RESPONSE_TENSORS, 0);
  respond(handle, RESPONSE_NONE, 0);
  respond(handle, RESPONSE_ERROR, 0);
  assert_string_equal(seen.events, "send 0;send 0 the model's;");
  respond(handle, RESPONSE_TENSORS, RESPONSE_FINAL);
  respond(handle, RESPONSE_TENSORS, 0);
  assert_string_equal(seen.events, "send 0;send 0 the model's;send 1;delete factory;");
  respond(open_one(true), RESPONSE_NONE, RESPONSE_FINAL);
  assert_non_null(strstr(seen.events, "delete factory;flags 1;delete factory;"));
}

static void what_cannot_be_read_is_an_error_of_the_request(void **state)
{
  (void)state;
  wire_put_u8(&said, 99); // no kind
  assert_true(take(CALL_RESPONSE, open_one(false), 0, 0));
  said.size = sizeof bytes + 1; // not there
  assert_true(take(CALL_RESPONSE, open_one(true), RESPONSE_FINAL, 0));
  assert_string_equal(seen.events, "report 0;send 1 cannot be read;release;send 1 cannot be read;"
                                   "delete factory;");
}

static void without_a_response_the_request_is_released_all_the_same(void **state)
{
  (void)state;
  seen.has_no_response = true;
  respond(open_one(false), RESPONSE_TENSORS, RESPONSE_FINAL);
  respond(open_one(true), RESPONSE_TENSORS, RESPONSE_FINAL);
  assert_string_equal(seen.events, "report 0;release;delete factory;");
  assert_non_null(strstr(seen.logged, "failed to make a response: no memory"));
}

static void only_an_open_request_is_cancelled(void **state)
{
  (void)state;
  uint64_t handles[] = {open_one(false), open_one(true)};
  seen.is_cancelled = true;
  for (int i = 0; i < 2; i++) {
    assert_true(take(CALL_IS_CANCELLED, 7, 0, handles[i]));
    assert_true(seen.reply.id == 7 && seen.reply.value == 1 && seen.reply.flags == REPLY_FINAL);
    respond(handles[i], RESPONSE_TENSORS, RESPONSE_FINAL);
    assert_true(take(CALL_IS_CANCELLED, 8, 0, handles[i]));
    assert_true(seen.reply.id == 8 && seen.reply.value == 0);
  }
}

static void a_line_of_the_log_has_its_level_and_requests(void **state)
{
  (void)state;
  static const struct {
    uint32_t flag;
    const char *line;
  } levels[] = {{WORK_LOG_INFO, "0 model.py:5 a, b 1: text"},
                {WORK_LOG_WARN, "1 model.py:5 a, b 1: text"},
                {WORK_LOG_ERROR, "2 model.py:5 a, b 1: text"},
                {WORK_LOG_VERBOSE | LOG_OF_WORKER, "3 model.py:5 a, b 0: text"}};
  for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
    wire_put_string(&said, "text");
    wire_put_string(&said, "model.py");
    wire_put_u32(&said, 5);
    wire_put_u8(&said, 1);
    wire_put_string(&said, "a, b");
    assert_true(take(CALL_LOG, 0, levels[i].flag, 0));
    assert_string_equal(seen.logged, levels[i].line);
  }
  seen.logged[0] = '\0';
  wire_put_u32(&said, 1000); // cannot be read
  assert_true(take(CALL_LOG, 0, WORK_LOG_INFO, 0));
  assert_string_equal(seen.logged, "");
}

static void memory_is_given_back_and_other_calls_are_not_taken(void **state)
{
  (void)state;
  assert_true(take(CALL_RELEASE, 0, 0, 4096));
  assert_int_equal(seen.block, 4096);
  assert_false(take(CALL_INFER, 0, 0, 0));
}

static void tritons_words_stand_before_a_reason_once(void **state)
{
  (void)state;
  TRITONSERVER_Error *error = TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "gone");
  for (int i = 0; i < 2; i++) {
    error = python_instance_explain(&instance, error);
    assert_int_equal(TRITONSERVER_ErrorCode(error), TRITONSERVER_ERROR_UNAVAILABLE);
    assert_string_equal(
        TRITONSERVER_ErrorMessage(error),
        "Failed to process the request(s) for model instance 'played_0', message: gone");
  }
  TRITONSERVER_ErrorDelete(error);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_request_has_one_response, begin, end),
      cmocka_unit_test_setup_teardown(its_end_without_a_response_is_an_error, begin, end),
      cmocka_unit_test_setup_teardown(the_models_error_counts_as_a_failure, begin, end),
      cmocka_unit_test_setup_teardown(a_decoupled_request_has_responses_until_the_final_one, begin,
                                      end),
      cmocka_unit_test_setup_teardown(what_cannot_be_read_is_an_error_of_the_request, begin, end),
      cmocka_unit_test_setup_teardown(without_a_response_the_request_is_released_all_the_same,
                                      begin, end),
      cmocka_unit_test_setup_teardown(only_an_open_request_is_cancelled, begin, end),
      cmocka_unit_test_setup_teardown(a_line_of_the_log_has_its_level_and_requests, begin, end),
      cmocka_unit_test_setup_teardown(memory_is_given_back_and_other_calls_are_not_taken, begin,
                                      end),
      cmocka_unit_test_setup_teardown(tritons_words_stand_before_a_reason_once, begin, end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

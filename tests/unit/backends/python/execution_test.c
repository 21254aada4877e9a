// SPDX-License-Identifier: Apache-2.0
// Executions from requests to their responses (instance/execution.h, open_request.c): what
// becomes of each request, of the slot, and of executions that are begun ahead. The worker, its
// channel, what is written to it, and the server are played; the table of requests is the real one.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend_extension.h"
#include "codec/protocol.h"
#include "codec/request_wire.h"
#include "codec/response_fill.h"
#include "instance/open_request.h"
#include "instance/python_instance.h"

#include <stdio.h>
#include <string.h>

enum {
  MOST = 4
};

static char requests[MOST]; // their addresses are the requests; so are the responses'
static TRITONBACKEND_Request *batch[MOST];
static char channels; // its address is the channel
static worker_link *const the_link = &(worker_link){
    .channel = (channel *)&channels, .number = 1, .devices = (device_share *)&channels};

// ---- the server

static struct {
  unsigned responses[MOST], releases[MOST], failures[MOST], reports[MOST];
  char text[256]; // of the last error
  unsigned slot, sent, channel_releases, batch_reports;
  bool may_share, has_answer, is_gone, has_no_slot;
  bool inputs_on_device, answer_on_device, had_devices;
  unsigned answers; // that were taken from the ring
  uint32_t work_flags;
  uint64_t last_number;
} seen;

static unsigned number_of(const void *request)
{
  ptrdiff_t number = (const char *)request - requests;
  assert_in_range(number, 0, MOST - 1);
  return (unsigned)number;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseNew(TRITONBACKEND_Response **response,
                                              TRITONBACKEND_Request *request)
{
  *response = (TRITONBACKEND_Response *)request;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseSend(TRITONBACKEND_Response *response, uint32_t flags,
                                               TRITONSERVER_Error *error)
{
  assert_int_equal(flags, TRITONSERVER_RESPONSE_COMPLETE_FINAL);
  unsigned number = number_of(response);
  assert_int_equal(seen.reports[number], 1); // statistics come first
  seen.responses[number]++;
  if (error != NULL) {
    seen.failures[number]++;
    snprintf(seen.text, sizeof seen.text, "%s", TRITONSERVER_ErrorMessage(error));
  }
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestRelease(TRITONBACKEND_Request *request, uint32_t flags)
{
  assert_int_equal(flags, TRITONSERVER_REQUEST_RELEASE_ALL);
  seen.releases[number_of(request)]++;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportStatistics(
    TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Request *request, const bool success,
    const uint64_t exec_start_ns, const uint64_t compute_start_ns, const uint64_t compute_end_ns,
    const uint64_t exec_end_ns)
{
  (void)instance, (void)success;
  assert_true(exec_start_ns <= compute_start_ns && compute_start_ns <= compute_end_ns &&
              compute_end_ns <= exec_end_ns);
  seen.reports[number_of(request)]++;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportBatchStatistics(
    TRITONBACKEND_ModelInstance *instance, const uint64_t batch_size, const uint64_t exec_start_ns,
    const uint64_t compute_start_ns, const uint64_t compute_end_ns, const uint64_t exec_end_ns)
{
  (void)instance, (void)exec_start_ns, (void)compute_start_ns, (void)compute_end_ns,
      (void)exec_end_ns;
  assert_true(batch_size > 0);
  seen.batch_reports++;
  return NULL;
}

// ---- the codec

TRITONSERVER_Error *request_facts_read(TRITONBACKEND_Request *request, const char *host_policy,
                                       bool takes_devices, request_facts *facts)
{
  (void)host_policy, (void)takes_devices;
  static device_range place;
  *facts = (request_facts){.request = request, .places = seen.inputs_on_device ? &place : NULL};
  return NULL;
}

void request_facts_fini(request_facts *facts)
{
  (void)facts;
}

TRITONSERVER_Error *request_wire_write(channel *channel, device_share *devices,
                                       request_facts *facts, uint32_t count, channel_message *work,
                                       uint32_t *culprit)
{
  (void)channel, (void)facts, (void)work, (void)culprit;
  assert_true(count > 0);
  assert_int_equal(devices != NULL, seen.inputs_on_device);
  return NULL;
}

TRITONSERVER_Error *response_fill(TRITONBACKEND_Response *response, TRITONBACKEND_Request *request,
                                  const output_signature *signature, const channel *channel,
                                  device_share *devices, wire_reader *reader,
                                  const wire_response *head)
{
  (void)response, (void)request, (void)signature, (void)channel, (void)reader;
  seen.had_devices = devices != NULL;
  return head->kind == RESPONSE_TENSORS
             ? NULL
             : TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "the model's own error");
}

void response_skip(const channel *channel, wire_reader *reader, const wire_response *head)
{
  (void)channel, (void)reader, (void)head;
}

// ---- the worker: it answers in the bytes of `answer`, or is gone

static uint8_t answer[256];
static size_t answer_size;

void worker_touch(worker *self)
{
  (void)self;
}

const char *worker_name(const worker *self)
{
  (void)self;
  return "played_0";
}

NEREID_LogSubject worker_log_subject(const worker *self)
{
  (void)self;
  return (NEREID_LogSubject){0};
}

TRITONSERVER_Error *worker_why_gone(worker *self, const worker_link *link, bool waits)
{
  (void)self;
  assert_ptr_equal(link, the_link);
  assert_true(waits);
  return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "the worker ended");
}

TRITONSERVER_Error *worker_gone(worker *self)
{
  (void)self;
  return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "the worker ended");
}

uint64_t worker_life(worker *self)
{
  (void)self;
  return the_link->number;
}

uint64_t worker_next_number(worker *self)
{
  (void)self;
  return ++seen.last_number;
}

bool worker_try_acquire_slot(worker *self, worker_link **link)
{
  (void)self;
  if (seen.slot > 0 || seen.has_no_slot)
    return false;
  seen.slot = 1;
  *link = the_link;
  return true;
}

TRITONSERVER_Error *worker_acquire_slot(worker *self, worker_link **link)
{
  if (worker_try_acquire_slot(self, link))
    return NULL;
  return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "it does not start");
}

void worker_release_slot(worker *self, worker_link *link)
{
  (void)self;
  assert_ptr_equal(link, the_link);
  assert_true(seen.slot > 0);
  seen.slot--;
}

bool worker_may_share_slot(worker *self, const worker_link *link)
{
  (void)self;
  assert_ptr_equal(link, the_link);
  return seen.may_share;
}

bool worker_share_slot(worker *self, worker_link *link)
{
  seen.slot += worker_may_share_slot(self, link);
  return seen.may_share;
}

bool worker_await(worker *self, worker_link *link, uint64_t id, int64_t timeout_us,
                  channel_message *message, TRITONSERVER_Error **error)
{
  (void)self, (void)link, (void)id;
  assert_true(timeout_us >= 0 || seen.is_gone || seen.has_answer);
  *error = seen.is_gone ? TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "it is gone") : NULL;
  *message = (channel_message){.flags = seen.answer_on_device ? ANSWER_RELEASED | ANSWER_ON_DEVICE
                                                              : ANSWER_RELEASED};
  seen.answers += seen.has_answer;
  return seen.is_gone || seen.has_answer;
}

bool worker_link_release(worker_link *self, uint64_t block)
{
  return channel_release(self->channel, block);
}

device_share *worker_link_devices(worker_link *self)
{
  static char share;
  (void)self;
  return (device_share *)&share;
}

void worker_link_reply(worker_link *self, const channel_message *reply)
{
  (void)self, (void)reply;
}

bool control_part_copy(control_part *self, const worker_link *link, const channel_message *message)
{
  (void)link, (void)message;
  *self = (control_part){.reader = {.at = answer, .end = answer + answer_size}};
  return true;
}

void control_part_fini(control_part *self)
{
  (void)self;
}

bool __wrap_channel_send(channel *self, channel_ring ring, const channel_message *message)
{
  (void)self;
  assert_int_equal(ring, CHANNEL_WORK);
  assert_int_equal(message->kind, WORK_EXECUTE);
  seen.sent++;
  seen.work_flags = message->flags;
  return true;
}

bool __wrap_channel_release(channel *self, uint64_t offset)
{
  (void)self, (void)offset;
  seen.channel_releases++;
  return true;
}

void __wrap_channel_look(channel *self, channel_ring ring, bool may_look)
{
  (void)self, (void)ring, (void)may_look;
}

void __wrap_channel_done(channel *self, channel_ring ring)
{
  (void)self, (void)ring;
}

void __wrap_channel_close(channel *self)
{
  (void)self;
}

// ---- what is tested

static python_backend backend = {.hand_ahead_us = 200};
static python_model model = {.backend = &backend, .name = (char *)"played"};
static python_instance instance = {.model = &model};

python_instance *python_instance_of(TRITONBACKEND_ModelInstance *server_instance)
{
  (void)server_instance;
  return &instance;
}

static int begin(void **state)
{
  (void)state;
  memset(&seen, 0, sizeof seen);
  memset(&instance.ahead, 0, sizeof instance.ahead);
  list_init(&instance.ahead.executions);
  request_table_init(&instance.requests);
  for (int i = 0; i < MOST; i++)
    batch[i] = (TRITONBACKEND_Request *)&requests[i];
  answer_size = 0;
  return 0;
}

static int end(void **state)
{
  (void)state;
  assert_int_equal(seen.slot, 0);
  assert_true(list_is_empty(&instance.ahead.executions));
  assert_int_equal(instance.requests.open_count, 0);
  request_table_fini(&instance.requests);
  return 0;
}

// The worker has taken each request and answers with these kinds of responses.
static void answer_with(uint32_t count, const enum response_kind *kinds)
{
  wire_writer writer = {.to = answer, .room = sizeof answer};
  wire_put_u8(&writer, 1);
  wire_put_u32(&writer, count);
  wire_put_u64(&writer, 0);
  wire_put_u64(&writer, 0);
  for (uint32_t i = 0; i < count; i++) {
    wire_put_u8(&writer, kinds[i]);
    if (kinds[i] == RESPONSE_ERROR)
      wire_put_u32(&writer, TRITONSERVER_ERROR_INTERNAL);
    if (kinds[i] != RESPONSE_NONE)
      wire_put_text(&writer, "", 0);
    if (kinds[i] == RESPONSE_TENSORS)
      wire_put_u32(&writer, 0);
  }
  answer_size = writer.size;
  seen.has_answer = true;
}

static void execute(uint32_t count)
{
  model.max_batch_size = 0;
  for (uint32_t i = 0; i < count; i++) // one a batch, as the model does not batch
    assert_null(python_instance_execute(&instance, NULL, &batch[i], 1));
}

static void each_request_gets_its_response_and_is_released(void **state)
{
  (void)state;
  answer_with(1, (enum response_kind[]){RESPONSE_TENSORS});
  execute(3);
  for (int i = 0; i < 3; i++)
    assert_true(seen.responses[i] == 1 && seen.releases[i] == 1 && seen.failures[i] == 0);
  assert_int_equal(seen.sent, 3);
  assert_int_equal(seen.batch_reports, 3);
  assert_int_equal(seen.channel_releases, 3);
}

static void a_models_own_error_is_the_requests(void **state)
{
  (void)state;
  answer_with(1, (enum response_kind[]){RESPONSE_ERROR});
  execute(1);
  assert_true(seen.failures[0] == 1 && seen.releases[0] == 1);
  assert_string_equal(seen.text, "the model's own error");
}

static void an_answer_of_another_count_fails_the_batch(void **state)
{
  (void)state;
  answer_with(2, (enum response_kind[]){RESPONSE_TENSORS, RESPONSE_TENSORS});
  execute(1);
  assert_int_equal(seen.failures[0], 1);
  assert_non_null(strstr(seen.text,
                         "model instance 'played_0', message: the Python worker answered 2 "
                         "requests, 1 were given"));
}

static void a_response_that_comes_later_ends_its_request(void **state)
{
  (void)state;
  answer_with(1, (enum response_kind[]){RESPONSE_NONE});
  execute(1);
  assert_true(seen.responses[0] == 0 && seen.releases[0] == 0);
  const uint64_t handle = 1; // of the first slot
  wire_writer writer = {.to = answer, .room = sizeof answer};
  wire_put_u8(&writer, RESPONSE_TENSORS);
  wire_put_text(&writer, "", 0);
  wire_put_u32(&writer, 0);
  answer_size = writer.size;
  const channel_message call = {
      .kind = CALL_RESPONSE, .id = handle, .flags = RESPONSE_FINAL, .size = writer.size};
  for (int i = 0; i < 2; i++) // the second one finds nothing
    assert_true(open_request_take_call(&instance, the_link, &call));
  assert_true(seen.responses[0] == 1 && seen.releases[0] == 1);
  assert_false(open_request_take_call(&instance, the_link, &(channel_message){.kind = CALL_INFER}));
}

// The listener has looked at what is open before this request's execution ended.
static void a_response_that_was_to_come_from_a_worker_that_is_gone_is_an_error(void **state)
{
  (void)state;
  answer_with(1, (enum response_kind[]){RESPONSE_NONE});
  the_link->is_over = true;
  execute(1);
  the_link->is_over = false;
  assert_true(seen.failures[0] == 1 && seen.releases[0] == 1);
  assert_non_null(strstr(seen.text, "the worker ended"));
}

// The server has asked which worker the batch is for. Meanwhile that one ends and the next begins,
// before the batch is sent, or while it waits for the slot.
static void sequences_of_a_worker_that_is_gone_do_not_go_on_in_the_next(void **state)
{
  (void)state;
  answer_with(1, (enum response_kind[]){RESPONSE_TENSORS});
  for (int begins = 0; begins < 2; begins++) {
    const bool meets_it = begins == 0;
    bool pending;
    assert_int_equal(NEREID_ModelInstanceLife(NULL), the_link->number);
    the_link->number++;
    seen.has_no_slot = !meets_it;
    assert_null(NEREID_ModelInstanceExecuteBegin(NULL, &batch[begins], 1, &pending));
    assert_int_equal(pending, !meets_it);
    seen.has_no_slot = false;
    if (pending)
      NEREID_ModelInstanceExecuteEnd(NULL, -1, &pending);
    assert_false(pending);
    assert_true(seen.failures[begins] == 1 && seen.releases[begins] == 1 && seen.sent == 0);
    assert_non_null(strstr(seen.text, "the worker ended"));
  }
  NEREID_ModelInstanceLife(NULL);
  assert_null(python_instance_execute(&instance, NULL, &batch[2], 1));
  assert_true(seen.sent == 1 && seen.responses[2] == 1 && seen.failures[2] == 0);
  instance.told_life = 0;
}

static void who_has_no_worker_is_told_why(void **state)
{
  (void)state;
  seen.has_no_slot = true;
  execute(1);
  assert_true(seen.failures[0] == 1 && seen.releases[0] == 1 && seen.sent == 0);
  assert_non_null(strstr(seen.text, "message: it does not start"));
}

// The listener, who sees the end as well, has answered one of them.
static void a_worker_that_goes_fails_each_request_once(void **state)
{
  (void)state;
  bool pending;
  uint32_t from = 0;
  seen.may_share = true;
  for (int i = 0; i < 2; i++) {
    assert_null(NEREID_ModelInstanceExecuteBegin(NULL, &batch[i], 1, &pending));
    assert_true(pending);
  }
  open_request request =
      request_table_close(&instance.requests, request_table_begin_next(&instance.requests, &from));
  TRITONSERVER_Error *error = TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "the listener's");
  open_request_fail(&instance, &request, error);
  TRITONSERVER_ErrorDelete(error);
  seen.is_gone = true;
  for (int i = 0; i < 2; i++)
    NEREID_ModelInstanceExecuteEnd(NULL, -1, &pending);
  for (int i = 0; i < 2; i++)
    assert_true(seen.failures[i] == 1 && seen.releases[i] == 1);
  assert_non_null(strstr(seen.text, "it is gone"));
}

static void executions_ahead_end_in_their_order(void **state)
{
  (void)state;
  bool pending;
  seen.may_share = true;
  for (int i = 0; i < 3; i++)
    assert_null(NEREID_ModelInstanceExecuteBegin(NULL, &batch[i], 1, &pending));
  assert_int_equal(seen.sent, 3);
  assert_int_equal(seen.slot, 3);
  assert_true((seen.work_flags & WORK_CROWDED) != 0);
  NEREID_ModelInstanceExecuteEnd(NULL, 0, &pending);
  assert_true(pending); // no answer yet
  answer_with(1, (enum response_kind[]){RESPONSE_TENSORS});
  for (unsigned i = 0; i < 3; i++) {
    NEREID_ModelInstanceExecuteEnd(NULL, 0, &pending);
    assert_false(pending);
    assert_true(seen.responses[i] == 1 && seen.slot == 2 - i);
  }
}

static void what_cannot_be_sent_ahead_is_kept(void **state)
{
  (void)state;
  bool pending;
  for (int i = 0; i < 2; i++)
    assert_null(NEREID_ModelInstanceExecuteBegin(NULL, &batch[i], 1, &pending));
  assert_int_equal(seen.sent, 1);
  answer_with(1, (enum response_kind[]){RESPONSE_TENSORS});
  NEREID_ModelInstanceExecuteEnd(NULL, 0, &pending);
  NEREID_ModelInstanceExecuteEnd(NULL, 0, &pending);
  assert_true(pending); // a loop must not wait for the slot
  NEREID_ModelInstanceExecuteEnd(NULL, -1, &pending);
  assert_true(!pending && seen.sent == 2 && seen.responses[1] == 1);
}

// Its copies wait for the device.
static void a_batch_on_a_device_is_not_for_a_loop(void **state)
{
  (void)state;
  bool pending;
  seen.inputs_on_device = true;
  assert_null(NEREID_ModelInstanceExecuteBegin(NULL, batch, 1, &pending));
  NEREID_ModelInstanceExecuteEnd(NULL, 0, &pending);
  assert_true(pending && seen.sent == 0);
  answer_with(1, (enum response_kind[]){RESPONSE_TENSORS});
  NEREID_ModelInstanceExecuteEnd(NULL, -1, &pending);
  assert_true(!pending && seen.sent == 1 && seen.responses[0] == 1);
}

static void an_answer_on_a_device_is_not_for_a_loop(void **state)
{
  (void)state;
  bool pending;
  assert_null(NEREID_ModelInstanceExecuteBegin(NULL, batch, 1, &pending));
  seen.answer_on_device = true;
  answer_with(1, (enum response_kind[]){RESPONSE_TENSORS});
  for (int i = 0; i < 2; i++) {
    NEREID_ModelInstanceExecuteEnd(NULL, 0, &pending);
    assert_true(pending && seen.responses[0] == 0 && seen.answers == 1);
  }
  NEREID_ModelInstanceExecuteEnd(NULL, -1, &pending);
  assert_true(!pending && seen.responses[0] == 1 && seen.answers == 1 && seen.had_devices);
}

// A loop takes it: its tensors are looked for on no device, whatever they say.
static void an_answer_that_names_no_device_has_none(void **state)
{
  (void)state;
  bool pending;
  assert_null(NEREID_ModelInstanceExecuteBegin(NULL, batch, 1, &pending));
  seen.had_devices = true;
  answer_with(1, (enum response_kind[]){RESPONSE_TENSORS});
  NEREID_ModelInstanceExecuteEnd(NULL, 0, &pending);
  assert_true(!pending && seen.responses[0] == 1 && !seen.had_devices);
}

static void only_a_fast_model_gets_executions_ahead(void **state)
{
  (void)state;
  bool pending;
  assert_int_equal(NEREID_ModelInstanceMaxExecutions(NULL), 1); // nothing is under way
  assert_null(NEREID_ModelInstanceExecuteBegin(NULL, batch, 1, &pending));
  assert_int_equal(NEREID_ModelInstanceMaxExecutions(NULL), 1); // its time is not known
  instance.ahead.ewma_ns = 100000;
  assert_int_equal(NEREID_ModelInstanceMaxExecutions(NULL), 1); // the slot cannot be shared
  seen.may_share = true;
  assert_int_equal(NEREID_ModelInstanceMaxExecutions(NULL), 8);
  instance.ahead.ewma_ns = 1000000;
  assert_int_equal(NEREID_ModelInstanceMaxExecutions(NULL), 1);
  answer_with(1, (enum response_kind[]){RESPONSE_TENSORS});
  NEREID_ModelInstanceExecuteEnd(NULL, 0, &pending);
}

static void a_call_that_would_wait_for_itself_is_not_sent(void **state)
{
  (void)state;
  wait_call call = {0};
  instance.node = (wait_node){.model = (void *)&model, .name = "played", .version = 1};
  wait_graph_join(&instance.node);
  wait_node other = {.model = (void *)&backend, .name = "other", .version = 1};
  wait_call first = {0};
  wait_graph_join(&other);
  wait_graph_open(&first, &other, &requests[0], (void *)&channels); // to a model that is unknown
  wait_graph_open(&call, &instance.node, &requests[1], other.model);
  assert_null(wait_graph_wait(&first, WAIT_THREAD, 1, false, 0));
  assert_null(wait_graph_wait(&call, WAIT_THREAD, 1, false, 0));
  execute(1);
  assert_true(seen.failures[0] == 1 && seen.sent == 0);
  assert_non_null(
      strstr(seen.text, "model 'other' would wait for itself: other (version 1) -> played"));
  wait_graph_leave(&other);
  wait_graph_leave(&instance.node);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(each_request_gets_its_response_and_is_released, begin, end),
      cmocka_unit_test_setup_teardown(a_models_own_error_is_the_requests, begin, end),
      cmocka_unit_test_setup_teardown(an_answer_of_another_count_fails_the_batch, begin, end),
      cmocka_unit_test_setup_teardown(a_response_that_comes_later_ends_its_request, begin, end),
      cmocka_unit_test_setup_teardown(
          a_response_that_was_to_come_from_a_worker_that_is_gone_is_an_error, begin, end),
      cmocka_unit_test_setup_teardown(sequences_of_a_worker_that_is_gone_do_not_go_on_in_the_next,
                                      begin, end),
      cmocka_unit_test_setup_teardown(who_has_no_worker_is_told_why, begin, end),
      cmocka_unit_test_setup_teardown(a_worker_that_goes_fails_each_request_once, begin, end),
      cmocka_unit_test_setup_teardown(executions_ahead_end_in_their_order, begin, end),
      cmocka_unit_test_setup_teardown(what_cannot_be_sent_ahead_is_kept, begin, end),
      cmocka_unit_test_setup_teardown(a_batch_on_a_device_is_not_for_a_loop, begin, end),
      cmocka_unit_test_setup_teardown(an_answer_on_a_device_is_not_for_a_loop, begin, end),
      cmocka_unit_test_setup_teardown(an_answer_that_names_no_device_has_none, begin, end),
      cmocka_unit_test_setup_teardown(only_a_fast_model_gets_executions_ahead, begin, end),
      cmocka_unit_test_setup_teardown(a_call_that_would_wait_for_itself_is_not_sent, begin, end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// What a model's process says of its requests: who may still be answered or released by it. The
// requests, factories and responses of the server are the test's own.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "events.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

enum {
  MANY = 100
};

// A request; its factory and its response have the same address.
typedef struct fake {
  unsigned factories, responses, failures, finals, releases, reports;
  bool cancelled;
  char output[16];
  TRITONSERVER_Error_Code code;
} fake;

static fake fakes[MANY];
static unsigned factories_left; // that can be made
static unsigned open_factories;
static unsigned batch_reports;

// ---- the server

TRITONSERVER_Error *TRITONBACKEND_ResponseFactoryNew(TRITONBACKEND_ResponseFactory **factory,
                                                     TRITONBACKEND_Request *request)
{
  if (factories_left == 0)
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "no memory");
  factories_left--;
  open_factories++;
  ((fake *)request)->factories++;
  *factory = (TRITONBACKEND_ResponseFactory *)request;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseFactoryDelete(TRITONBACKEND_ResponseFactory *factory)
{
  ((fake *)factory)->factories--;
  open_factories--;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseFactoryIsCancelled(TRITONBACKEND_ResponseFactory *factory,
                                                             bool *cancelled)
{
  *cancelled = ((fake *)factory)->cancelled;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseFactorySendFlags(TRITONBACKEND_ResponseFactory *factory,
                                                           const uint32_t flags)
{
  ((fake *)factory)->finals += (flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) != 0;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseNewFromFactory(TRITONBACKEND_Response **response,
                                                         TRITONBACKEND_ResponseFactory *factory)
{
  *response = (TRITONBACKEND_Response *)factory;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseDelete(TRITONBACKEND_Response *response)
{
  (void)response;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseOutput(TRITONBACKEND_Response *response,
                                                 TRITONBACKEND_Output **output, const char *name,
                                                 const TRITONSERVER_DataType datatype,
                                                 const int64_t *shape, const uint32_t dims_count)
{
  assert_string_equal(name, "OUT");
  assert_int_equal(datatype, TRITONSERVER_TYPE_UINT8);
  assert_int_equal(dims_count, 1);
  assert_int_equal(shape[0], 5);
  *output = (TRITONBACKEND_Output *)response;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_OutputBuffer(TRITONBACKEND_Output *output, void **buffer,
                                               const uint64_t size,
                                               TRITONSERVER_MemoryType *memory_type,
                                               int64_t *memory_type_id)
{
  assert_in_range(size, 0, sizeof((fake *)output)->output);
  *memory_type = TRITONSERVER_MEMORY_CPU;
  *memory_type_id = 0;
  *buffer = ((fake *)output)->output;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseSend(TRITONBACKEND_Response *response,
                                               const uint32_t flags, TRITONSERVER_Error *error)
{
  fake *f = (fake *)response;
  f->responses++;
  f->finals += (flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) != 0;
  f->failures += error != NULL;
  if (error != NULL)
    f->code = TRITONSERVER_ErrorCode(error);
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestRelease(TRITONBACKEND_Request *request, uint32_t flags)
{
  assert_int_equal(flags, TRITONSERVER_REQUEST_RELEASE_ALL);
  ((fake *)request)->releases++;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportStatistics(
    TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Request *request, const bool success,
    const uint64_t exec_start_ns, const uint64_t compute_start_ns, const uint64_t compute_end_ns,
    const uint64_t exec_end_ns)
{
  (void)instance, (void)success, (void)exec_start_ns, (void)compute_start_ns, (void)compute_end_ns,
      (void)exec_end_ns;
  ((fake *)request)->reports++;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportBatchStatistics(
    TRITONBACKEND_ModelInstance *instance, const uint64_t batch_size, const uint64_t exec_start_ns,
    const uint64_t compute_start_ns, const uint64_t compute_end_ns, const uint64_t exec_end_ns)
{
  (void)instance, (void)exec_start_ns, (void)compute_start_ns, (void)compute_end_ns,
      (void)exec_end_ns;
  assert_int_equal(batch_size, 3);
  batch_reports++;
  return NULL;
}

// ---- what child.c does for them

static unsigned told_again; // that a cancellation may have been missed

void child_give_back(isolated_child *self, open_request *r)
{
  told_again += open_requests_give_back(&self->requests, r);
}

// ---- a process, of which there are the two ends of its channel

typedef struct bench {
  isolated_child child;
  channel *process; // its end
  uint8_t said[1024];
  wire_writer writer;
} bench;

static int set_up(void **state)
{
  bench *b = calloc(1, sizeof *b);
  memset(fakes, 0, sizeof fakes);
  factories_left = UINT32_MAX;
  open_factories = batch_reports = told_again = 0;
  if (b == NULL || channel_new(1 << 20, &b->child.channel) != 0 ||
      channel_attach(channel_descriptor(b->child.channel), &b->process) != 0)
    return -1;
  open_requests_init(&b->child.requests);
  pthread_mutex_init(&b->child.lock, NULL);
  b->writer = (wire_writer){.to = b->said, .room = sizeof b->said};
  *state = b;
  return 0;
}

static int tear_down(void **state)
{
  bench *b = *state;
  open_requests_fini(&b->child.requests); // asserts that none is open
  assert_int_equal(open_factories, 0);
  pthread_mutex_destroy(&b->child.lock);
  channel_free(b->process);
  channel_free(b->child.channel);
  free(b);
  return 0;
}

// Adds requests in one block; it is freed with the last of them.
static void add(bench *b, unsigned first, uint32_t count, uint64_t *numbers)
{
  TRITONBACKEND_Request *batch[MANY];
  input_block *block = calloc(1, sizeof *block);
  assert_non_null(block);
  assert_true(channel_allocate(b->child.channel, 64, &block->offset));
  for (uint32_t i = 0; i < count; i++)
    batch[i] = (TRITONBACKEND_Request *)&fakes[first + i];
  assert_null(open_requests_add(&b->child.requests, NULL, batch, count, block, numbers));
  open_requests_publish(&b->child.requests, numbers, count);
}

static size_t block_bytes(const bench *b)
{
  size_t used, kept;
  channel_memory(b->child.channel, &used, &kept);
  return used;
}

static void say(bench *b, isolated_event kind, uint64_t number, uint32_t flags)
{
  wire_put_u8(&b->writer, (uint8_t)kind);
  wire_put_u64(&b->writer, number);
  wire_put_u32(&b->writer, flags);
}

static void say_text(bench *b, const char *text)
{
  wire_put_text(&b->writer, text, strlen(text) + 1);
}

// A response with no parameters; `code` as in the protocol.
static void say_response(bench *b, uint64_t number, uint32_t flags, uint32_t code, const char *text,
                         uint32_t outputs)
{
  say(b, EVENT_RESPONSE, number, flags);
  wire_put_u32(&b->writer, code);
  say_text(b, text);
  wire_put_u32(&b->writer, 0);
  wire_put_u32(&b->writer, outputs);
}

static void say_output(bench *b, uint64_t offset, uint64_t size)
{
  say_text(b, "OUT");
  wire_put_u32(&b->writer, TRITONSERVER_TYPE_UINT8);
  wire_put_u32(&b->writer, 1);
  wire_put_i64(&b->writer, 5);
  wire_put_u64(&b->writer, offset);
  wire_put_u64(&b->writer, size);
}

// Whether what was said so far made sense.
static bool apply(bench *b)
{
  wire_reader reader = {.at = b->said, .end = b->said + b->writer.size};
  assert_in_range(b->writer.size, 0, sizeof b->said);
  b->writer.size = 0;
  return events_apply(&b->child, &reader);
}

// What the server does for a process that is gone.
static void end_all(bench *b)
{
  open_request *r;
  TRITONSERVER_Error *error = TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "it ended");
  open_requests_close(&b->child.requests);
  while ((r = open_requests_take_any(&b->child.requests)) != NULL) {
    events_fail_request(&b->child, r, error);
    open_requests_give_back(&b->child.requests, r);
  }
  TRITONSERVER_ErrorDelete(error);
}

// ---- the table

static void a_number_is_of_one_request_once(void **state)
{
  bench *b = *state;
  open_requests *table = &b->child.requests;
  uint64_t numbers[MANY];
  add(b, 0, MANY, numbers);
  for (unsigned i = 0; i < MANY; i++) {
    open_request *r = open_requests_take(table, numbers[i]);
    assert_ptr_equal(r->request, &fakes[i]);
    open_requests_give_back(table, r);
    say(b, EVENT_FLAGS, numbers[i], TRITONSERVER_RESPONSE_COMPLETE_FINAL);
    say(b, EVENT_RELEASE, numbers[i], TRITONSERVER_REQUEST_RELEASE_ALL);
    assert_true(apply(b));
    assert_null(open_requests_take(table, numbers[i]));
  }
  uint64_t later;
  add(b, 0, 1, &later);
  for (unsigned i = 0; i < MANY; i++)
    assert_null(open_requests_take(table, numbers[i])); // its entry has another request now
  const uint64_t made_up[] = {0, 1, later + 1, later - 1, later ^ UINT64_C(1) << 63, UINT64_MAX};
  for (size_t i = 0; i < sizeof made_up / sizeof *made_up; i++)
    assert_null(open_requests_take(table, made_up[i]));
  assert_int_equal(open_requests_count(table), 1);
  end_all(b);
}

static void what_is_not_sent_was_never_there(void **state)
{
  bench *b = *state;
  TRITONBACKEND_Request *batch[] = {(TRITONBACKEND_Request *)&fakes[0],
                                    (TRITONBACKEND_Request *)&fakes[1]};
  input_block block = {0};
  uint64_t numbers[2];
  open_requests *table = &b->child.requests;
  assert_null(open_requests_add(table, NULL, batch, 2, &block, numbers));
  open_requests_withdraw(table, numbers, 2);
  factories_left = 1; // the second request has none
  TRITONSERVER_Error *error = open_requests_add(table, NULL, batch, 2, &block, numbers);
  assert_int_equal(TRITONSERVER_ErrorCode(error), TRITONSERVER_ERROR_UNAVAILABLE);
  TRITONSERVER_ErrorDelete(error);
  assert_int_equal(open_requests_count(table), 0);
  open_requests_close(table);
  error = open_requests_add(table, NULL, batch, 1, &block, numbers);
  assert_int_equal(TRITONSERVER_ErrorCode(error), TRITONSERVER_ERROR_UNAVAILABLE);
  TRITONSERVER_ErrorDelete(error);
  assert_int_equal(fakes[0].releases + fakes[1].releases, 0);
}

static void a_cancelled_request_is_told_once(void **state)
{
  bench *b = *state;
  uint64_t numbers[3];
  add(b, 0, 3, numbers);
  assert_int_equal(open_requests_cancelled(&b->child.requests), 0);
  fakes[1].cancelled = true;
  assert_true(open_requests_cancelled(&b->child.requests) == numbers[1]);
  assert_int_equal(open_requests_cancelled(&b->child.requests), 0);
  end_all(b);
}

// It comes while a thread does what the process said of the request, or before it is sent.
static void a_cancellation_that_finds_the_request_busy_is_told_later(void **state)
{
  bench *b = *state;
  open_requests *table = &b->child.requests;
  uint64_t numbers[3];
  add(b, 0, 1, numbers);
  open_request *r = open_requests_take(table, numbers[0]);
  fakes[0].cancelled = true;
  assert_int_equal(open_requests_cancelled(table), 0);
  assert_true(open_requests_give_back(table, r));
  assert_true(open_requests_cancelled(table) == numbers[0]);
  r = open_requests_take(table, numbers[0]);
  assert_false(open_requests_give_back(table, r)); // once
  open_requests_untell(table, numbers[0]);         // the process could not be told
  say(b, EVENT_FLAGS, numbers[0], 0);
  assert_true(apply(b));
  assert_int_equal(told_again, 1);
  assert_true(open_requests_cancelled(table) == numbers[0]);
  end_all(b);
}

static void a_request_that_is_cancelled_before_it_is_sent_is_told_then(void **state)
{
  bench *b = *state;
  open_requests *table = &b->child.requests;
  uint64_t numbers[2];
  input_block *block = calloc(1, sizeof *block);
  TRITONBACKEND_Request *batch[] = {(TRITONBACKEND_Request *)&fakes[0],
                                    (TRITONBACKEND_Request *)&fakes[1]};
  assert_non_null(block);
  assert_true(channel_allocate(b->child.channel, 64, &block->offset));
  assert_null(open_requests_add(table, NULL, batch, 2, block, numbers));
  fakes[1].cancelled = true; // and nobody looked
  assert_true(open_requests_publish(table, numbers, 2));
  assert_true(open_requests_cancelled(table) == numbers[1]);
  end_all(b);
}

typedef struct taker {
  open_requests *table;
  uint64_t number;
  open_request *taken;
} taker;

static void *take(void *argument)
{
  taker *t = argument;
  t->taken = open_requests_take(t->table, t->number);
  return NULL;
}

// Starts a thread and sees it wait for the request that the caller has.
static pthread_t start_to_wait(taker *t)
{
  pthread_t thread;
  bool waits = false;
  assert_int_equal(pthread_create(&thread, NULL, take, t), 0);
  while (!waits) {
    sched_yield();
    pthread_mutex_lock(&t->table->lock);
    waits = t->table->waiting > 0;
    pthread_mutex_unlock(&t->table->lock);
  }
  return thread;
}

// The second thread has the request after the first, and nothing of one that the first has ended.
static void a_request_is_one_threads_at_a_time(void **state)
{
  bench *b = *state;
  open_requests *table = &b->child.requests;
  taker second = {.table = table};
  add(b, 0, 1, &second.number);
  open_request *r = open_requests_take(table, second.number);
  pthread_t other = start_to_wait(&second);
  open_requests_give_back(table, r);
  pthread_join(other, NULL);
  assert_ptr_equal(second.taken, r);
  other = start_to_wait(&second);
  TRITONSERVER_Error *error = TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "it ended");
  events_fail_request(&b->child, r, error);
  TRITONSERVER_ErrorDelete(error);
  open_requests_give_back(table, r);
  pthread_join(other, NULL);
  assert_null(second.taken);
  assert_int_equal(fakes[0].releases, 1);
}

// ---- events

static void an_answer_is_given_once(void **state)
{
  bench *b = *state;
  uint64_t numbers[2], block;
  uint32_t final = TRITONSERVER_RESPONSE_COMPLETE_FINAL;
  add(b, 0, 2, numbers);
  assert_true(channel_allocate(b->process, 5, &block));
  memcpy(channel_own(b->process, block), "12345", 5);
  say_response(b, numbers[0], final, 0, "", 1);
  say_output(b, block, 5);
  say_response(b, numbers[0], final, 0, "", 0); // again
  say(b, EVENT_FLAGS, numbers[0], final);       // and again
  say_response(b, numbers[1], final, 1 + TRITONSERVER_ERROR_NOT_FOUND, "none", 0);
  assert_true(apply(b));
  assert_int_equal(fakes[0].responses, 1);
  assert_int_equal(fakes[0].finals, 1);
  assert_int_equal(fakes[0].failures, 0);
  assert_memory_equal(fakes[0].output, "12345", 5);
  assert_int_equal(fakes[1].failures, 1);
  assert_int_equal(fakes[1].code, TRITONSERVER_ERROR_NOT_FOUND);
  size_t used = block_bytes(b);
  for (unsigned i = 0; i < 2; i++) {
    assert_int_equal(block_bytes(b), used); // the block is both requests'
    say(b, EVENT_RELEASE, numbers[i], TRITONSERVER_REQUEST_RELEASE_ALL);
    say(b, EVENT_RELEASE, numbers[i], TRITONSERVER_REQUEST_RELEASE_ALL);
    assert_true(apply(b));
    assert_int_equal(fakes[i].releases, 1);
  }
  assert_true(block_bytes(b) < used);
  assert_int_equal(open_requests_count(&b->child.requests), 0);
}

static void an_output_outside_fails_its_request(void **state)
{
  bench *b = *state;
  uint64_t number;
  add(b, 0, 1, &number);
  say_response(b, number, TRITONSERVER_RESPONSE_COMPLETE_FINAL, 0, "", 1);
  say_output(b, UINT64_MAX - 2, 5);
  assert_true(apply(b));
  assert_int_equal(fakes[0].failures, 1);
  assert_int_equal(fakes[0].code, TRITONSERVER_ERROR_INTERNAL);
  end_all(b);
  assert_int_equal(fakes[0].responses, 1); // and was not answered twice
  assert_int_equal(fakes[0].releases, 1);
}

// Each part of an answer makes no sense, and the request stays to be answered.
static void what_is_cut_off_makes_no_sense(void **state)
{
  bench *b = *state;
  uint64_t number, block;
  add(b, 0, 1, &number);
  assert_true(channel_allocate(b->process, 5, &block));
  say_response(b, number, TRITONSERVER_RESPONSE_COMPLETE_FINAL, 0, "", 1);
  say_output(b, block, 5);
  size_t whole = b->writer.size;
  for (size_t size = 1; size < whole; size++) {
    uint8_t *part = malloc(size); // a sanitizer sees what is read behind it
    assert_non_null(part);
    memcpy(part, b->said, size);
    wire_reader reader = {.at = part, .end = part + size};
    assert_false(events_apply(&b->child, &reader));
    free(part);
  }
  assert_int_equal(fakes[0].responses, 0);
  b->writer.size = 0;
  say(b, (isolated_event)99, number, 0); // unknown
  assert_false(apply(b));
  end_all(b);
  assert_int_equal(fakes[0].responses, 1);
  assert_int_equal(fakes[0].failures, 1);
}

static void an_instance_that_is_none_makes_no_sense(void **state)
{
  bench *b = *state;
  child_instance instances[] = {{.instance = (TRITONBACKEND_ModelInstance *)b}, {.instance = NULL}};
  b->child.instances = instances;
  b->child.instance_count = 2;
  for (uint32_t index = 0; index < 3; index++) {
    wire_put_u8(&b->writer, EVENT_BATCH);
    wire_put_u32(&b->writer, index);
    for (int i = 0; i < 5; i++)
      wire_put_u64(&b->writer, 3); // rows and moments
    assert_int_equal(apply(b), index < 2);
  }
  assert_int_equal(batch_reports, 1); // the second one is gone
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_number_is_of_one_request_once, set_up, tear_down),
      cmocka_unit_test_setup_teardown(what_is_not_sent_was_never_there, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_cancelled_request_is_told_once, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_cancellation_that_finds_the_request_busy_is_told_later,
                                      set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_request_that_is_cancelled_before_it_is_sent_is_told_then,
                                      set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_request_is_one_threads_at_a_time, set_up, tear_down),
      cmocka_unit_test_setup_teardown(an_answer_is_given_once, set_up, tear_down),
      cmocka_unit_test_setup_teardown(an_output_outside_fails_its_request, set_up, tear_down),
      cmocka_unit_test_setup_teardown(what_is_cut_off_makes_no_sense, set_up, tear_down),
      cmocka_unit_test_setup_teardown(an_instance_that_is_none_makes_no_sense, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
